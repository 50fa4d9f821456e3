/* ga_quantize_file: plan every tensor, then have the writer ask for their bytes. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "quant/output.h"
#include "quant/rewrite.h"

const char *ga_quantize_type_at(int32_t index) {
  const quant_mixture *mix = quant_mixture_at(index);
  return mix ? mix->name : NULL;
}

/* --- metadata ---------------------------------------------------------------------------------------------------- */

/* Keys that the new file says otherwise. */
static bool is_replaced(const char *key) {
  static const char *const keys[] = {"general.file_type", "general.quantization_version", "general.alignment"};
  for (size_t i = 0; i < GA_COUNT_OF(keys); i++)
    if (!strcmp(key, keys[i])) return true;
  return !strncmp(key, "split.", 6) || !strncmp(key, "quantize.imatrix.", 17);
}

static bool any_quantised(const rewrite *r) {
  for (int64_t i = 0; i < r->n_tensors; i++)
    if (!r->tensors[i].left_out && ga_dtype_info(r->tensors[i].view.dtype)->is_quant) return true;
  return false;
}

/* Of a copy: the source's number, or that of the type that most matrices have. */
static ga_status file_type(const rewrite *r, int64_t *out) {
  *out = r->mixture->file_type;
  if (*out >= 0) return GA_OK;
  if (ga_model_file_meta(r->file, "general.file_type"))
    return ga_model_file_int(r->file, "general.file_type", 0, UINT32_MAX, out);
  *out = 0;
  for (int64_t i = 0; i < r->n_tensors; i++) {
    const ga_dtype d = r->tensors[i].view.dtype;
    if (r->tensors[i].left_out || r->tensors[i].view.n_dims < 2) continue;
    if (d == GA_F16 || d == GA_BF16) *out = d == GA_F16 ? 1 : 32;
  }
  return GA_OK;
}

static void put_importance_keys(const rewrite *r, const char *path) {
  const ga_model_file *f = quant_importance_file(r->importance);
  const ga_meta *sets = ga_model_file_meta(f, "imatrix.datasets"),
                *chunks = ga_model_file_meta(f, "imatrix.chunk_count");
  char name[256] = "";
  ga_text text;
  int64_t n = 0;
  const char *slash = strrchr(path, '/');
  ga_gguf_put_text(r->writer, "quantize.imatrix.file", slash ? slash + 1 : path); /* no folders of one machine */
  if (sets && ga_meta_count(sets) > 0 && ga_meta_text(sets, 0, &text) == GA_OK) {
    (void)snprintf(name, sizeof name, "%.*s", (int)ga_min_u64(text.bytes, sizeof name - 1), text.data);
    ga_gguf_put_text(r->writer, "quantize.imatrix.dataset", name);
  }
  ga_gguf_put_int(r->writer, "quantize.imatrix.entries_count", GA_META_I32, quant_importance_count(r->importance));
  if (chunks && ga_meta_int(chunks, 0, &n) == GA_OK && n <= INT32_MAX)
    ga_gguf_put_int(r->writer, "quantize.imatrix.chunks_count", GA_META_I32, n);
}

static ga_status put_keys(rewrite *r, const char *importance_path) {
  int64_t type;
  if (ga_model_file_format(r->file) == GA_MODEL_GGUF) {
    for (int64_t i = 0; i < ga_model_file_meta_count(r->file); i++) {
      const ga_meta *meta = ga_model_file_meta_at(r->file, i);
      if (!is_replaced(ga_meta_key(meta))) ga_gguf_put_meta(r->writer, meta);
    }
  } else {
    GA_TRY(rewrite_put_folder_keys(r));
  }
  GA_TRY(file_type(r, &type));
  ga_gguf_put_int(r->writer, "general.file_type", GA_META_U32, type);
  if (any_quantised(r)) ga_gguf_put_int(r->writer, "general.quantization_version", GA_META_U32, 2);
  if (r->importance) put_importance_keys(r, importance_path);
  return GA_OK;
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

static ga_status read_model_facts(rewrite *r) {
  ga_text arch;
  char key[96];
  int64_t heads = 1, kv = 1;
  const ga_meta *meta;
  GA_TRY(ga_model_file_text(r->file, "general.architecture", &arch));
  GA_REQUIRE(arch.bytes > 0 && arch.bytes < sizeof r->model.arch, GA_ERR_FORMAT,
             "general.architecture has %zu bytes; must have 1 to 63", arch.bytes);
  memcpy(r->model.arch, arch.data, arch.bytes);
  (void)snprintf(key, sizeof key, "%s.block_count", r->model.arch);
  GA_TRY(ga_model_file_int_or(r->file, key, 0, 0, 1 << 20, &r->model.layers));
  (void)snprintf(key, sizeof key, "%s.attention.head_count", r->model.arch);
  if ((meta = ga_model_file_meta(r->file, key)) && ga_meta_count(meta)) GA_TRY(ga_meta_int(meta, 0, &heads));
  kv = heads;
  (void)snprintf(key, sizeof key, "%s.attention.head_count_kv", r->model.arch);
  if ((meta = ga_model_file_meta(r->file, key)) && ga_meta_count(meta)) GA_TRY(ga_meta_int(meta, 0, &kv));
  (void)snprintf(key, sizeof key, "%s.expert_count", r->model.arch);
  GA_TRY(ga_model_file_int_or(r->file, key, 0, 0, 1 << 20, &r->model.experts));
  r->model.heads_per_kv = kv > 0 ? heads / kv : 1;
  r->model.has_output = ga_model_file_find(r->file, "output.weight") != NULL;
  r->model.has_importance = r->importance != NULL;
  return GA_OK;
}

enum { NAMED_EXPERTS = 12 /* the most that a warning names */ };

/* The type that a tensor gets. Vectors and the like stay; a folder's become f32, as llama.cpp wants them. */
static void choose_type(const rewrite *r, rewrite_tensor *t) {
  const ga_dtype from = t->from->view.dtype;
  const bool folder = ga_model_file_format(r->file) == GA_MODEL_SAFETENSORS;
  if (quant_is_matrix(t->name, t->view.n_dims)) {
    t->wanted = tensor_types_find(&r->types, t->name);
    if (t->wanted == GA_DTYPE_NONE) t->wanted = quant_wanted(r->mixture, &r->model, t->name, from);
  } else {
    t->wanted = folder ? GA_F32 : from;
  }
  t->view.dtype = t->wanted == from && t->change == CHANGE_NONE ? from : quant_fallback(t->wanted, t->cols);
}

/* Names the matrices of a stack that the importance matrix never saw. */
static void warn_unseen(const rewrite_tensor *t) {
  char text[128] = "";
  int64_t n = 0;
  for (int64_t m = 0; m < t->matrices; m++) {
    const size_t at = strlen(text);
    if (t->inputs[m] > 0) continue;
    if (n++ < NAMED_EXPERTS) (void)snprintf(text + at, sizeof text - at, "%s%lld", at ? ", " : "", (long long)m);
  }
  if (n)
    ga_log(GA_LOG_WARN,
           "%s: the importance matrix has no input of %s %s%s (%lld of %lld); errors there are not weighted", t->name,
           n == 1 ? "expert" : "experts", text, n > NAMED_EXPERTS ? ", ..." : "", (long long)n, (long long)t->matrices);
}

static ga_status find_weight(rewrite *r, rewrite_tensor *t) {
  void *p;
  bool found;
  if (!r->importance || !ga_dtype_info(t->view.dtype)->is_quant || t->view.dtype == t->from->view.dtype) return GA_OK;
  GA_TRY(ga_arena_alloc(&r->arena, (size_t)t->matrices * sizeof(float), &p));
  t->inputs = p;
  GA_TRY(ga_arena_alloc(&r->arena, (size_t)(t->matrices * t->cols) * sizeof(float), &p));
  GA_TRY(quant_importance_of(r->importance, t->name, t->matrices, t->cols, t->inputs, p, &found));
  if (!found) return GA_OK;
  t->weight = p;
  if (t->matrices > 1) warn_unseen(t);
  return GA_OK;
}

static ga_status plan_tensor(rewrite *r, const ga_model_tensor *from) {
  rewrite_tensor *t = &r->tensors[r->n_tensors++];
  *t = (rewrite_tensor){.all = r, .from = from, .name = from->name, .view = from->view};
  GA_REQUIRE(from->view.n_dims >= 1, GA_ERR_UNSUPPORTED, "a tensor without dimensions");
  if (ga_model_file_format(r->file) == GA_MODEL_SAFETENSORS) GA_TRY(rewrite_layout(r, t));
  const int32_t n = t->view.n_dims;
  t->rows = 1;
  t->cols = t->view.dim[n - 1];
  for (int32_t i = 0; i < n - 1; i++) t->rows *= t->view.dim[i];
  t->matrices = n == 3 && t->view.dim[0] > 0 ? t->view.dim[0] : 1;
  if (n == 1 && (t->change == CHANGE_PAIRS || t->change == CHANGE_SPLIT))
    t->rows = t->cols, t->cols = 1; /* a bias: one element for each row */
  if (t->left_out) return GA_OK;
  choose_type(r, t);
  t->view = ga_tensor_make(NULL, t->view.dtype, n, t->view.dim);
  GA_REQUIRE(t->view.dtype == from->view.dtype || ga_quantize_known(t->view.dtype), GA_ERR_UNSUPPORTED,
             "type %s cannot be written", ga_dtype_name(t->view.dtype));
  GA_TRY(ga_tensor_bytes(&t->view, &t->bytes_to));
  return find_weight(r, t);
}

static ga_status plan_tensors(rewrite *r) {
  void *p;
  const int64_t n = ga_model_file_tensor_count(r->file);
  GA_TRY(ga_arena_alloc(&r->arena, (size_t)(2 * n + REWRITE_MADE_TENSORS) * sizeof(rewrite_tensor), &p));
  r->tensors = p;
  for (int64_t i = 0; i < n; i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(r->file, i);
    const ga_status status = plan_tensor(r, t);
    if (status != GA_OK) return ga_fail_in(status, "tensor '%s'", ga_quote(t->name, strlen(t->name)).text);
    r->total += r->tensors[i].left_out ? 0 : t->bytes;
  }
  return ga_model_file_format(r->file) == GA_MODEL_SAFETENSORS ? rewrite_add_made(r) : GA_OK;
}

static void tell_tensor(const rewrite_tensor *t, const ga_quantize_options *o) {
  if (!o->tensor) return;
  o->tensor(o->user, &(ga_quantize_tensor){.name = t->name,
                                           .from = t->from ? (int32_t)t->from->view.dtype : GA_F32,
                                           .to = (int32_t)t->view.dtype,
                                           .wanted = (int32_t)t->wanted,
                                           .left_out = t->left_out,
                                           .rows = t->rows,
                                           .cols = t->cols,
                                           .bytes_from = t->from ? t->from->bytes : 0,
                                           .bytes_to = t->bytes_to,
                                           .weighted = t->weight != NULL});
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

static ga_status rewrite_file(rewrite *r, const char *in, const char *out, const ga_quantize_options *o) {
  GA_TRY(quant_mixture_find(o->type ? o->type : "copy", &r->mixture));
  r->model.pure = o->pure;
  GA_TRY(tensor_types_read(&r->arena, o->tensor_types, o->n_tensor_types, &r->types));
  GA_TRY(ga_model_file_open(in, &r->file));
  if (!o->dry_run) GA_TRY(quant_check_output(r->file, o->importance, out, o->overwrite));
  if (o->importance) GA_TRY(quant_importance_open(o->importance, &r->importance));
  GA_TRY(read_model_facts(r));
  GA_TRY(ga_quantizer_create(o->n_threads, &r->q));
  GA_TRY(ga_gguf_writer_create(3, 0, &r->writer));
  GA_TRY(plan_tensors(r));
  GA_TRY(tensor_types_all_used(&r->types));
  GA_TRY(put_keys(r, o->importance));
  for (int64_t i = 0; i < r->n_tensors; i++) {
    rewrite_tensor *t = &r->tensors[i];
    tell_tensor(t, o);
    if (!t->left_out) ga_gguf_put_tensor_from(r->writer, t->name, &t->view, rewrite_bytes, t);
  }
  if (o->dry_run) return GA_OK;
  return o->overwrite ? ga_gguf_writer_finish(r->writer, out) : ga_gguf_writer_finish_new(r->writer, out);
}

ga_status ga_quantize_file(const char *in, const char *out, const ga_quantize_options *options) {
  ga_quantize_options o;
  GA_REQUIRE(in && out && options, GA_ERR_ARG, "quantize: in, out or options is NULL");
  GA_REQUIRE(*out, GA_ERR_ARG, "quantize: out is empty; must name a file");
  GA_TRY(GA_SIZED_TAKE("quantize: options", ga_quantize_options, options, &o));
  rewrite r = {.progress = o.progress, .user = o.user};
  ga_arena_init(&r.arena, (size_t)1 << 34); /* importance of all experts */
  const ga_status status = rewrite_file(&r, in, out, &o);
  ga_gguf_writer_destroy(r.writer);
  ga_quantizer_destroy(r.q);
  quant_importance_close(r.importance);
  ga_model_file_destroy(r.file);
  ga_arena_free(&r.arena);
  ga_mem_free(r.raw);
  ga_mem_free(r.values);
  ga_mem_free(r.piece);
  return status;
}
