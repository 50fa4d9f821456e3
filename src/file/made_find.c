/* Finds the tensors that are made of others: stacks of a tensor for each expert, by GGUF's names, and the forms of
 * config.json's model type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "file/hf.h"
#include "file/limits.h"
#include "file/made.h"

enum { NAME_BYTES = GA_MODEL_MAX_NAME_BYTES + 32, MX_BLOCK = 32, MX_CODES = 16 };

/* A stack of which the file has a tensor for each matrix. */
typedef struct expert_stack {
  const char *name;
  const ga_model_tensor **sources; /* [count], by number of the expert */
  const ga_model_tensor *any;      /* one of them */
  int64_t count;
  bool is_listed; /* it has its place among the tensors */
} expert_stack;

typedef struct maker {
  ga_model_file *file;
  const ga_hf_arch *arch;
  ga_model_tensor *out; /* the new list */
  int64_t n_out, n_made;
  expert_stack *stacks;
  int64_t n_stacks;
  ga_name_table names;   /* of the stacks */
  ga_name_table sources; /* names in the file to numbers of file->tensors, if the model type has forms */
} maker;

static void next_made(maker *m, ga_made **made, ga_model_tensor **tensor) {
  *made = &m->file->made[m->n_made];
  *tensor = &m->out[m->n_out++];
  **made = (ga_made){0};
  **tensor = (ga_model_tensor){.part = GA_MADE_PART, .offset = (uint64_t)m->n_made++};
}

/* --- a tensor for each expert --- */

/* Reads digits at *s without a sign, as a number below 10^6. */
static bool take_number(const char **s, int64_t *out) {
  const size_t n = strspn(*s, "0123456789");
  if (n == 0 || n > 6) return false;
  *out = strtol(*s, NULL, 10);
  *s += n;
  return true;
}

/* Takes "blk.2.ffn_gate.7.weight" apart: matrix 7 of the stack "blk.2.ffn_gate_exps.weight". */
static bool is_of_expert(const char *name, char stack[NAME_BYTES], int64_t *expert) {
  static const char *const roles[] = {"ffn_gate.", "ffn_up.", "ffn_down."};
  const char *s = name;
  int64_t layer;
  if (strncmp(s, "blk.", 4) != 0) return false;
  s += 4;
  if (!take_number(&s, &layer) || *s++ != '.') return false;
  for (size_t i = 0; i < GA_COUNT_OF(roles); i++) {
    const size_t n = strlen(roles[i]);
    const char *end = s + n;
    if (strncmp(s, roles[i], n) != 0 || !take_number(&end, expert) || strcmp(end, ".weight") != 0) continue;
    (void)snprintf(stack, NAME_BYTES, "%.*s_exps.weight", (int)(s + n - 1 - name), name);
    return true;
  }
  return false;
}

static ga_status count_expert(maker *m, const char *stack) {
  int64_t at = ga_name_table_find(&m->names, stack);
  if (at < 0) {
    char *name;
    GA_TRY(ga_arena_strndup(&m->file->arena, stack, strlen(stack), &name));
    at = m->n_stacks++;
    m->stacks[at] = (expert_stack){.name = name};
    GA_TRY(ga_name_table_add(&m->names, name, (uint32_t)at));
  }
  m->stacks[at].count++;
  return GA_OK;
}

/* Finds the stacks, and makes room for their sources. */
static ga_status find_stacks(maker *m) {
  const ga_model_file *file = m->file;
  char stack[NAME_BYTES];
  int64_t expert, n = 0;
  void *p;
  for (int64_t i = 0; i < file->n_tensors; i++) n += is_of_expert(file->tensors[i].name, stack, &expert);
  GA_TRY(ga_name_table_init(&m->file->arena, (uint64_t)n, &m->names));
  GA_TRY(ga_arena_alloc(&m->file->arena, (size_t)n * sizeof(expert_stack), &p));
  m->stacks = p;
  for (int64_t i = 0; i < file->n_tensors; i++)
    if (is_of_expert(file->tensors[i].name, stack, &expert)) GA_TRY(count_expert(m, stack));
  for (int64_t i = 0; i < m->n_stacks; i++) {
    GA_TRY(ga_arena_alloc(&m->file->arena, (size_t)m->stacks[i].count * sizeof(ga_model_tensor *), &p));
    memset(p, 0, (size_t)m->stacks[i].count * sizeof(ga_model_tensor *));
    m->stacks[i].sources = p;
  }
  return GA_OK;
}

/* Notes the tensor as a matrix of its stack, which gets its place in the list with the first of them. */
static ga_status note_expert(maker *m, const ga_model_tensor *t, const char *name, int64_t expert) {
  expert_stack *s = &m->stacks[ga_name_table_find(&m->names, name)];
  ga_made *made;
  ga_model_tensor *tensor;
  if (!s->any) s->any = t;
  if (expert < s->count) {
    GA_REQUIRE(!s->sources[expert], GA_ERR_FORMAT, "tensor '%s' is there twice", t->name);
    s->sources[expert] = t;
  }
  if (s->is_listed) return GA_OK;
  s->is_listed = true;
  next_made(m, &made, &tensor);
  tensor->name = s->name;
  made->sources = s->sources;
  made->matrices = s->count;
  return GA_OK;
}

/* The tensor of a stack whose sources are all noted. */
static ga_status finish_stack(maker *m, ga_model_tensor *t) {
  ga_made *made = &m->file->made[t->offset];
  const int64_t n = made->matrices;
  const expert_stack *s = &m->stacks[ga_name_table_find(&m->names, t->name)];
  for (int64_t e = 0; e < n; e++)
    GA_REQUIRE(s->sources[e], GA_ERR_FORMAT, "%s has no sibling for expert %lld; must be there for all %lld experts",
               s->any->name, (long long)e, (long long)n);
  const ga_model_tensor *first = s->sources[0];
  const int64_t *d = first->view.dim;
  GA_REQUIRE(first->view.n_dims == 2 && d[0] >= 1 && d[1] >= 1, GA_ERR_SHAPE,
             "%s has %d dimensions; must be a matrix of at least one element", first->name, first->view.n_dims);
  for (int64_t e = 1; e < n; e++) {
    const ga_tensor *v = &s->sources[e]->view;
    GA_REQUIRE(v->dtype == first->view.dtype && v->n_dims == 2 && v->dim[0] == d[0] && v->dim[1] == d[1], GA_ERR_SHAPE,
               "%s differs from %s in shape or type; must be alike", s->sources[e]->name, first->name);
  }
  made->n_sources = (int32_t)n;
  made->rows = made->source_rows = d[0];
  made->source_cols = d[1];
  made->step = 1;
  t->source_name = first->source_name;
  return ga_tensor_describe(t, first->view.dtype, 3, (const int64_t[]){n, d[0], d[1]});
}

/* --- forms of a model type --- */

/* The scales beside codes of MXFP4: the same name with another end. */
static ga_status find_mx_scales(const maker *m, const ga_model_tensor *codes, const ga_model_tensor **out) {
  static const char end[] = "_blocks";
  char name[NAME_BYTES];
  (void)snprintf(name, sizeof name, "%.*s_scales", (int)(strlen(codes->source_name) - (sizeof end - 1)),
                 codes->source_name);
  const int64_t at = ga_name_table_find(&m->sources, name);
  GA_REQUIRE(at >= 0, GA_ERR_FORMAT, "tensor '%s' has no '%s' beside it; must be there", codes->source_name, name);
  *out = &m->file->tensors[at];
  const ga_tensor *c = &codes->view, *s = &(*out)->view;
  GA_REQUIRE(c->n_dims == 4 && c->dim[3] == MX_CODES && c->dtype == GA_U8, GA_ERR_SHAPE,
             "tensor '%s' is %s of %d dimensions; must be u8 [experts, rows, blocks, %d]", codes->source_name,
             ga_dtype_name(c->dtype), c->n_dims, MX_CODES);
  GA_REQUIRE(s->n_dims == 3 && s->dtype == GA_U8 && s->dim[0] == c->dim[0] && s->dim[1] == c->dim[1] &&
                 s->dim[2] == c->dim[2],
             GA_ERR_SHAPE, "tensor '%s' is %s of %d dimensions; must be u8 [%lld, %lld, %lld]", (*out)->source_name,
             ga_dtype_name(s->dtype), s->n_dims, (long long)c->dim[0], (long long)c->dim[1], (long long)c->dim[2]);
  return GA_OK;
}

/* Reads the source's dimensions: matrices [rows, cols], one after the other. Vectors of experts are one matrix each,
 * of one column. */
static ga_status open_source(maker *m, const ga_model_tensor *source, const ga_hf_form *form, ga_made *made) {
  const ga_tensor *v = &source->view;
  const bool is_mx = (form->take & GA_HF_TAKE_MXFP4) != 0, is_turned = (form->take & GA_HF_TAKE_COLUMNS) != 0;
  void *p;
  GA_TRY(ga_arena_alloc(&m->file->arena, 2 * sizeof(ga_model_tensor *), &p));
  made->sources = p;
  made->sources[0] = source;
  made->n_sources = 1;
  made->order = is_mx ? GA_MADE_MXFP4 : is_turned ? GA_MADE_COLUMNS : GA_MADE_ROWS;
  if (is_mx) {
    GA_TRY(find_mx_scales(m, source, &made->sources[1]));
    made->n_sources = 2;
  }
  GA_REQUIRE(is_mx || v->n_dims == 3 || (v->n_dims == 2 && !is_turned), GA_ERR_SHAPE,
             "tensor '%s' has %d dimensions; must have %s", source->source_name, v->n_dims,
             is_turned ? "3" : "3, or 2 for biases");
  GA_REQUIRE(!is_turned || !ga_dtype_info(v->dtype)->is_quant, GA_ERR_UNSUPPORTED,
             "tensor '%s' is %s; must be of plain numbers", source->source_name, ga_dtype_name(v->dtype));
  made->matrices = v->dim[0];
  made->source_rows = v->dim[1];
  made->source_cols = is_mx ? v->dim[2] * MX_BLOCK : v->n_dims == 3 ? v->dim[2] : 1;
  GA_REQUIRE(made->matrices >= 1 && made->source_rows >= 1 && made->source_cols >= 1, GA_ERR_SHAPE,
             "tensor '%s' has a dimension of 0; must be at least 1", source->source_name);
  return GA_OK;
}

/* Which rows of the source's matrices the form takes. */
static ga_status take_part(const ga_model_tensor *source, uint32_t take, ga_made *made) {
  const uint32_t part = take & GA_HF_TAKE_PARTS;
  const int64_t all = made->order == GA_MADE_COLUMNS ? made->source_cols : made->source_rows;
  made->rows = all;
  made->step = 1;
  if (!part) return GA_OK;
  GA_REQUIRE(all % 2 == 0, GA_ERR_SHAPE, "tensor '%s' has %lld rows of gate and up; must be even", source->source_name,
             (long long)all);
  made->rows = all / 2;
  made->step = part == GA_HF_TAKE_EVEN || part == GA_HF_TAKE_ODD ? 2 : 1;
  made->first = part == GA_HF_TAKE_ODD ? 1 : part == GA_HF_TAKE_SECOND ? made->rows : 0;
  return GA_OK;
}

/* A form that only names a tensor, or leaves out its dimensions of 1. */
static ga_status add_renamed(maker *m, const ga_model_tensor *source, const ga_hf_form *form, const char *name) {
  ga_model_tensor *t = &m->out[m->n_out++];
  const void *data = source->view.data;
  *t = *source;
  t->name = name;
  if (!(form->take & GA_HF_TAKE_FLAT)) return GA_OK;
  int64_t n = 1;
  for (int32_t i = 0; i < source->view.n_dims; i++) n *= source->view.dim[i];
  GA_REQUIRE(source->view.n_dims >= 1 && n == source->view.dim[source->view.n_dims - 1], GA_ERR_SHAPE,
             "tensor '%s' has %d dimensions and %lld elements; must be a vector", source->source_name,
             source->view.n_dims, (long long)n);
  GA_TRY(ga_tensor_describe(t, source->view.dtype, 1, &n));
  t->view.data = (void *)(uintptr_t)data;
  return GA_OK;
}

static ga_status add_form(maker *m, const ga_model_tensor *source, const ga_hf_form *form, const char *name) {
  ga_made *made;
  ga_model_tensor *t;
  if (!(form->take & ~(uint32_t)GA_HF_TAKE_FLAT)) return add_renamed(m, source, form, name);
  next_made(m, &made, &t);
  t->name = name;
  t->source_name = source->source_name;
  GA_TRY(open_source(m, source, form, made));
  GA_TRY(take_part(source, form->take, made));
  const int64_t cols = made->order == GA_MADE_COLUMNS ? made->source_rows : made->source_cols;
  const ga_dtype dtype = made->order == GA_MADE_MXFP4 ? GA_MXFP4 : source->view.dtype;
  return ga_tensor_describe(t, dtype, source->view.n_dims == 2 ? 2 : 3,
                            (const int64_t[]){made->matrices, made->rows, cols});
}

/* Files of llama.cpp may have gate and up of experts in one stack. */
static const ga_hf_form gguf_forms[] = {
    {"blk.%.ffn_gate_up_exps.weight", "blk.%.ffn_gate_exps.weight", GA_HF_TAKE_FIRST},
    {"blk.%.ffn_gate_up_exps.weight", "blk.%.ffn_up_exps.weight", GA_HF_TAKE_SECOND},
    {0}};

static const ga_hf_form *forms_of(const ga_hf_arch *arch) { return arch ? arch->forms : gguf_forms; }

/* Does a form change any of the tensors? */
static ga_status find_forms(maker *m, bool *found) {
  *found = false;
  for (const ga_hf_form *form = forms_of(m->arch); form && form->hf; form++)
    for (int64_t i = 0; i < m->file->n_tensors && !*found; i++) {
      const char *name;
      GA_TRY(ga_hf_form_name(&m->file->arena, form, m->file->tensors[i].source_name, &name, found));
    }
  return GA_OK;
}

/* Adds the tensors that the model type makes of this one. *found is false if there is no form for it. */
static ga_status add_forms(maker *m, const ga_model_tensor *t, bool *found) {
  *found = false;
  for (const ga_hf_form *form = forms_of(m->arch); form && form->hf; form++) {
    const char *name;
    bool matches;
    GA_TRY(ga_hf_form_name(&m->file->arena, form, t->source_name, &name, &matches));
    if (!matches) continue;
    *found = true;
    if (name) GA_TRY(add_form(m, t, form, name));
  }
  return GA_OK;
}

static ga_status add_tensor(maker *m, const ga_model_tensor *t) {
  char stack[NAME_BYTES];
  int64_t expert;
  bool found;
  GA_TRY(add_forms(m, t, &found));
  if (found) return GA_OK;
  if (is_of_expert(t->name, stack, &expert)) return note_expert(m, t, stack, expert);
  m->out[m->n_out++] = *t;
  return GA_OK;
}

/* Names in the files, by which forms find what belongs together. */
static ga_status index_sources(maker *m) {
  GA_TRY(ga_name_table_init(&m->file->arena, (uint64_t)m->file->n_tensors, &m->sources));
  for (int64_t i = 0; i < m->file->n_tensors; i++)
    GA_TRY(ga_name_table_add(&m->sources, m->file->tensors[i].source_name, (uint32_t)i));
  return GA_OK;
}

ga_status ga_made_find(ga_model_file *file, const ga_hf_arch *arch) {
  maker m = {.file = file, .arch = arch};
  bool has_forms;
  const size_t most = 2 * (size_t)file->n_tensors;
  void *p;
  GA_TRY(find_stacks(&m));
  GA_TRY(find_forms(&m, &has_forms));
  if (!m.n_stacks && !has_forms) return GA_OK;
  GA_TRY(ga_arena_alloc(&file->arena, most * sizeof(ga_model_tensor), &p));
  m.out = p;
  GA_TRY(ga_arena_alloc(&file->arena, most * sizeof(ga_made), &p));
  file->made = p;
  if (has_forms) GA_TRY(index_sources(&m));
  for (int64_t i = 0; i < file->n_tensors; i++) GA_TRY(add_tensor(&m, &file->tensors[i]));
  for (int64_t i = 0; i < m.n_out; i++)
    if (m.out[i].part == GA_MADE_PART && !m.out[i].source_name) GA_TRY(finish_stack(&m, &m.out[i]));
  file->tensors = m.out;
  file->n_tensors = m.n_out;
  return GA_OK;
}
