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
  const ga_model_tensor **sources; /* [count], by number of the expert; then [count] their scales, NULL: none */
  const ga_model_tensor *any;      /* one of them */
  int64_t count;
  bool is_listed; /* it has its place among the tensors */
} expert_stack;

/* The heads of a folder with latent attention. */
typedef struct kv_heads {
  int64_t n, nope, v, latent;
} kv_heads;

typedef struct maker {
  ga_model_file *file;
  const ga_hf_arch *arch;
  ga_model_tensor *out; /* the new list */
  int64_t n_out, n_made;
  expert_stack *stacks;
  int64_t n_stacks;
  ga_name_table names;   /* of the stacks */
  kv_heads kv;           /* n 0: the file has no matrices of all heads */
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

/* Takes "blk.2.ffn_gate.7.weight" apart: matrix 7 of the stack "blk.2.ffn_gate_exps.weight". With is_scale the name
 * ends in "_scale" or "_scale_inv". */
static bool is_of_expert(const char *name, char stack[NAME_BYTES], int64_t *expert, bool is_scale) {
  static const char *const roles[] = {"ffn_gate.", "ffn_up.", "ffn_down."};
  const char *s = name;
  int64_t layer;
  if (strncmp(s, "blk.", 4) != 0) return false;
  s += 4;
  if (!take_number(&s, &layer) || *s++ != '.') return false;
  for (size_t i = 0; i < GA_COUNT_OF(roles); i++) {
    const size_t n = strlen(roles[i]);
    const char *end = s + n;
    if (strncmp(s, roles[i], n) != 0 || !take_number(&end, expert)) continue;
    if (is_scale ? strcmp(end, ".weight_scale") != 0 && strcmp(end, ".weight_scale_inv") != 0
                 : strcmp(end, ".weight") != 0)
      continue;
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
  for (int64_t i = 0; i < file->n_tensors; i++) n += is_of_expert(file->tensors[i].name, stack, &expert, false);
  GA_TRY(ga_name_table_init(&m->file->arena, (uint64_t)n, &m->names));
  GA_TRY(ga_arena_alloc(&m->file->arena, (size_t)n * sizeof(expert_stack), &p));
  m->stacks = p;
  for (int64_t i = 0; i < file->n_tensors; i++)
    if (is_of_expert(file->tensors[i].name, stack, &expert, false)) GA_TRY(count_expert(m, stack));
  for (int64_t i = 0; i < m->n_stacks; i++) {
    const size_t bytes = 2 * (size_t)m->stacks[i].count * sizeof(ga_model_tensor *);
    GA_TRY(ga_arena_alloc(&m->file->arena, bytes, &p));
    memset(p, 0, bytes);
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

/* Notes the tensor as the scales of a matrix of its stack. *found is false if the file has no such matrix. */
static ga_status note_scale(maker *m, const ga_model_tensor *t, const char *name, int64_t expert, bool *found) {
  const int64_t at = ga_name_table_find(&m->names, name);
  *found = at >= 0 && expert < m->stacks[at].count;
  if (!*found) return GA_OK;
  const ga_model_tensor **scales = m->stacks[at].sources + m->stacks[at].count;
  GA_REQUIRE(!scales[expert], GA_ERR_FORMAT, "tensor '%s' is there twice, or with both kinds of scales", t->name);
  scales[expert] = t;
  return GA_OK;
}

/* Scales of the matrix [rows, cols] have a known type and shape. */
static ga_status check_made_scale(const ga_model_tensor *scale, int64_t rows, int64_t cols) {
  const ga_tensor *v = &scale->view;
  const int64_t down = ga_div_up(rows, GA_MADE_BLOCK), along = ga_div_up(cols, GA_MADE_BLOCK);
  int64_t n = 1;
  for (int32_t i = 0; i < v->n_dims; i++) n *= v->dim[i];
  GA_REQUIRE(v->dtype == GA_F32 || v->dtype == GA_F16 || v->dtype == GA_BF16, GA_ERR_UNSUPPORTED,
             "%s is %s; scales must be f32, f16 or bf16", scale->name, ga_dtype_name(v->dtype));
  GA_REQUIRE(n == 1 || (n == rows && v->dim[0] == rows) || (v->n_dims == 2 && v->dim[0] == down && v->dim[1] == along),
             GA_ERR_SHAPE, "%s has %d dimensions and %lld scales; must be [1], [%lld], or [%lld, %lld]", scale->name,
             v->n_dims, (long long)n, (long long)rows, (long long)down, (long long)along);
  return GA_OK;
}

/* Codes of e4m3 must have scales, other matrices none. */
static ga_status check_expert_scales(const expert_stack *s, int64_t rows, int64_t cols) {
  const bool is_fp8 = s->sources[0]->view.dtype == GA_E4M3;
  for (int64_t e = 0; e < s->count; e++) {
    const ga_model_tensor *scale = s->sources[s->count + e];
    GA_REQUIRE((scale != NULL) == is_fp8, GA_ERR_FORMAT, "%s is %s and has %s; scales are of e4m3 alone",
               s->sources[e]->name, ga_dtype_name(s->sources[e]->view.dtype), scale ? "scales" : "none");
    if (scale) GA_TRY(check_made_scale(scale, rows, cols));
  }
  return GA_OK;
}

/* --- keys and values of all heads in one matrix --- */

static const char kv_end[] = ".attn_kv_b.weight";

/* Reads the sizes; n becomes 0 where the file is no such folder, or its sizes are for hyper-parameters to refuse. */
static ga_status read_split_heads(const ga_model_file *file, const ga_hf_arch *arch, kv_heads *out) {
  static const char *const keys[] = {"attention.head_count", "attention.value_length", "attention.kv_lora_rank"};
  int64_t *const to[] = {&out->n, &out->v, &out->latent};
  char key[128];
  *out = (kv_heads){0};
  if (!arch || !ga_model_file_meta(file, "ga.qk_nope_head_dim")) return GA_OK;
  if (ga_model_file_int(file, "ga.qk_nope_head_dim", 1, 1 << 20, &out->nope) != GA_OK) return GA_OK;
  for (size_t i = 0; i < GA_COUNT_OF(keys); i++) {
    (void)snprintf(key, sizeof key, "%s.%s", arch->arch, keys[i]);
    if (ga_model_file_meta(file, key) && ga_model_file_int(file, key, 1, 1 << 20, to[i]) == GA_OK) continue;
    *out = (kv_heads){0};
    return GA_OK;
  }
  return GA_OK;
}

/* A matrix of that shape, in plain numbers or e4m3. Others are for loading to refuse. */
static bool is_kv_matrix(const kv_heads *h, const ga_model_tensor *t) {
  const size_t n = strlen(t->name), bytes = sizeof kv_end - 1;
  return h->n && n > bytes && !strcmp(t->name + n - bytes, kv_end) && t->view.n_dims == 2 &&
         t->view.dim[0] == h->n * (h->nope + h->v) && t->view.dim[1] == h->latent &&
         !ga_dtype_info(t->view.dtype)->is_quant;
}

static const ga_model_tensor *find_kv_scale(const ga_model_file *file, const ga_model_tensor *t) {
  const size_t n = strlen(t->name);
  for (int64_t i = 0; i < file->n_tensors; i++) {
    const char *name = file->tensors[i].name;
    if (!strncmp(name, t->name, n) && (!strcmp(name + n, "_scale") || !strcmp(name + n, "_scale_inv")))
      return &file->tensors[i];
  }
  return NULL;
}

/* A matrix in e4m3 becomes a made one in bf16, which is not listed. */
static ga_status make_kv_plain(maker *m, const ga_model_tensor *t, const ga_model_tensor **plain) {
  const ga_model_tensor *scale = find_kv_scale(m->file, t);
  const int64_t *d = t->view.dim;
  ga_model_tensor *out;
  void *p;
  *plain = t;
  if (t->view.dtype != GA_E4M3) return GA_OK;
  GA_REQUIRE(scale, GA_ERR_FORMAT, "%s is e4m3 and has no scale; %s_scale or %s_scale_inv must be there", t->name,
             t->name, t->name);
  GA_TRY(check_made_scale(scale, d[0], d[1]));
  GA_TRY(ga_arena_alloc(&m->file->arena, sizeof(ga_model_tensor), &p));
  out = p;
  *out = (ga_model_tensor){
      .name = t->name, .source_name = t->source_name, .part = GA_MADE_PART, .offset = (uint64_t)m->n_made};
  GA_TRY(ga_arena_alloc(&m->file->arena, 2 * sizeof(ga_model_tensor *), &p));
  ga_made *made = &m->file->made[m->n_made++];
  *made = (ga_made){.order = GA_MADE_E4M3,
                    .sources = p,
                    .n_sources = 2,
                    .matrices = 1,
                    .rows = d[0],
                    .source_rows = d[0],
                    .source_cols = d[1],
                    .step = 1};
  made->sources[0] = t;
  made->sources[1] = scale;
  *plain = out;
  return ga_tensor_describe(out, GA_BF16, 2, d);
}

/* A stack with a matrix for each head, of rows or columns [first, first + rows) of the head's rows. */
static ga_status add_head_stack(maker *m, const ga_model_tensor *plain, const char *role, ga_made how, int64_t cols) {
  ga_made *made;
  ga_model_tensor *t;
  char *name;
  void *p;
  const int stem = (int)(strlen(plain->name) - (sizeof kv_end - 1));
  GA_TRY(ga_arena_printf(&m->file->arena, &name, "%.*s.%s.weight", stem, plain->name, role));
  GA_TRY(ga_arena_alloc(&m->file->arena, sizeof(ga_model_tensor *), &p));
  next_made(m, &made, &t);
  *made = how;
  made->sources = p;
  made->sources[0] = plain;
  made->n_sources = 1;
  made->step = 1;
  t->name = name;
  t->source_name = plain->source_name;
  return ga_tensor_describe(t, plain->view.dtype, 3, (const int64_t[]){made->matrices, made->rows, cols});
}

/* Keys' rows become columns: GGUF has both stacks in the form of absorbed attention. */
static ga_status add_kv_stacks(maker *m, const kv_heads *h, const ga_model_tensor *t) {
  const ga_model_tensor *plain;
  const ga_made keys = {.order = GA_MADE_COLUMNS,
                        .matrices = h->n,
                        .rows = h->latent,
                        .source_rows = h->nope + h->v,
                        .source_cols = h->latent,
                        .taken = h->nope};
  const ga_made values = {.order = GA_MADE_ROWS,
                          .matrices = h->n,
                          .rows = h->v,
                          .source_rows = h->nope + h->v,
                          .source_cols = h->latent,
                          .first = h->nope};
  GA_TRY(make_kv_plain(m, t, &plain));
  GA_TRY(add_head_stack(m, plain, "attn_k_b", keys, h->nope));
  return add_head_stack(m, plain, "attn_v_b", values, h->latent);
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
  GA_TRY(check_expert_scales(s, d[0], d[1]));
  const bool is_fp8 = first->view.dtype == GA_E4M3;
  made->order = is_fp8 ? GA_MADE_E4M3 : GA_MADE_ROWS;
  made->n_sources = (int32_t)(is_fp8 ? 2 * n : n);
  made->rows = made->source_rows = d[0];
  made->source_cols = d[1];
  made->step = 1;
  t->source_name = first->source_name;
  return ga_tensor_describe(t, is_fp8 ? GA_BF16 : first->view.dtype, 3, (const int64_t[]){n, d[0], d[1]});
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

/* Reads the source's dimensions: one matrix [rows, cols]. */
static ga_status open_matrix(const ga_model_tensor *source, ga_made *made) {
  const ga_tensor *v = &source->view;
  GA_REQUIRE(v->n_dims == 2, GA_ERR_SHAPE, "tensor '%s' has %d dimensions; must be a matrix", source->source_name,
             v->n_dims);
  made->matrices = 1;
  made->source_rows = v->dim[0];
  made->source_cols = v->dim[1];
  return GA_OK;
}

/* Sets the sizes of a made tensor whose source is a stack: matrices one after the other. A vector of an expert is a
 * matrix of one column. */
static ga_status open_stack(const ga_model_tensor *source, ga_made *made) {
  const ga_tensor *v = &source->view;
  const bool is_mx = made->order == GA_MADE_MXFP4, is_turned = made->order == GA_MADE_COLUMNS;
  GA_REQUIRE(is_mx || v->n_dims == 3 || (v->n_dims == 2 && !is_turned), GA_ERR_SHAPE,
             "tensor '%s' has %d dimensions; must have %s", source->source_name, v->n_dims,
             is_turned ? "3" : "3, or 2 for biases");
  GA_REQUIRE(!is_turned || !ga_dtype_info(v->dtype)->is_quant, GA_ERR_UNSUPPORTED,
             "tensor '%s' is %s; must be of plain numbers", source->source_name, ga_dtype_name(v->dtype));
  made->matrices = v->dim[0];
  made->source_rows = made->taken = v->dim[1];
  made->source_cols = is_mx ? v->dim[2] * MX_BLOCK : v->n_dims == 3 ? v->dim[2] : 1;
  return GA_OK;
}

static ga_status open_source(maker *m, const ga_model_tensor *source, const ga_hf_form *form, ga_made *made) {
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
  GA_TRY(form->take & GA_HF_TAKE_MATRIX ? open_matrix(source, made) : open_stack(source, made));
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
  if (form->take & GA_HF_TAKE_MATRIX) return ga_tensor_describe(t, dtype, 2, (const int64_t[]){made->rows, cols});
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
  if (is_of_expert(t->name, stack, &expert, false)) return note_expert(m, t, stack, expert);
  if (is_of_expert(t->name, stack, &expert, true)) GA_TRY(note_scale(m, t, stack, expert, &found));
  if (found) return GA_OK;
  if (is_kv_matrix(&m->kv, t)) return add_kv_stacks(m, &m->kv, t);
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
  const size_t most = 3 * (size_t)file->n_tensors; /* made: two and a matrix in bf16 */
  void *p;
  GA_TRY(find_stacks(&m));
  GA_TRY(read_split_heads(file, arch, &m.kv));
  GA_TRY(find_forms(&m, &has_forms));
  if (!m.n_stacks && !has_forms && !m.kv.n) return GA_OK;
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
