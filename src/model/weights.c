/* Weights: from the file to the device (weight_spec.h has the tensors, arch/ says who has which).
 *
 * Matrices are packed for the device and the file's pages are given back; vectors become f32; the embedding table stays
 * as the file has it, and where device memory is host memory it stays in the map, of which only looked-up rows cost
 * memory. With no_mmap nothing stays there: all is read into memory of our own. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/kv_split.h"
#include "model/pass/shard.h"
#include "model/promote.h"
#include "model/upload.h"

typedef struct loader {
  ga_model *model;
  ga_placement *placement; /* that weights go to at the moment */
  ga_uploader *uploader;   /* of that placement; NULL: its memory is host memory */
  ga_progress_fn progress;
  void *user;
  uint64_t done, total;
  bool norm_plus_one, is_transposed, qkv_by_head; /* see ga/model_file.h */
  ga_pool *threads;                               /* made for a GPU where no context has some; else NULL */
} loader;

/* How a matrix lies in the file. */
typedef enum matrix_change { CHANGE_NONE, CHANGE_TRANSPOSED, CHANGE_HEADS } matrix_change;

/* Weights of small models are smaller than a huge page each (see ga_mem_alloc): they share buffers of this size. */
#define SLAB_BYTES    ((size_t)16 << 20)
#define SHARES(bytes) ((bytes) <= SLAB_BYTES / 4)

static ga_status own_buffer(ga_placement *placement, size_t bytes, void **out) {
  *out = NULL;
  if (placement->n_buffers == placement->buffers_capacity) {
    size_t capacity = placement->buffers_capacity ? placement->buffers_capacity * 2 : 256;
    void *p;
    GA_TRY(ga_mem_zalloc(capacity, sizeof(void *), "model", &p));
    if (placement->n_buffers) memcpy(p, placement->buffers, placement->n_buffers * sizeof(void *));
    ga_mem_free(placement->buffers);
    placement->buffers = p;
    placement->buffers_capacity = capacity;
  }
  GA_TRY(ga_buffer_alloc_for(placement->ctx, bytes, "weights", out));
  placement->buffers[placement->n_buffers++] = *out;
  return GA_OK;
}

ga_status ga_placement_alloc(ga_placement *placement, size_t bytes, void **out) {
  *out = NULL;
  if (!SHARES(bytes)) return own_buffer(placement, bytes, out);
  size_t need = ga_round_up(bytes ? bytes : 1, 256);
  if (need > placement->slab_bytes) {
    void *p;
    GA_TRY(own_buffer(placement, SLAB_BYTES, &p));
    placement->slab = p;
    placement->slab_bytes = SLAB_BYTES;
  }
  *out = placement->slab;
  placement->slab += need;
  placement->slab_bytes -= need;
  return GA_OK;
}

void ga_placement_free(ga_placement *placement) {
  for (size_t i = 0; i < placement->n_buffers; i++) ga_buffer_free(placement->ctx, placement->buffers[i]);
  ga_mem_free(placement->buffers);
  placement->buffers = NULL;
  placement->n_buffers = placement->buffers_capacity = placement->slab_bytes = 0;
}

/* A shared buffer that is left has less free than its next tensor takes: less than a quarter. */
uint64_t ga_weights_shared(uint64_t small) {
  return (small + SLAB_BYTES / 4 * 3 - 1) / (SLAB_BYTES / 4 * 3) * SLAB_BYTES;
}

static bool is_host(const loader *l) { return ga_device_in_host_memory(l->placement->ctx->device); }
/* Is a tensor used where it lies in the map? */
static bool in_map(const ga_model *model, const ga_ctx *ctx, const ga_model_tensor *t) {
  return ga_device_in_host_memory(ctx->device) && t->is_aligned && !model->no_mmap;
}

static ga_weight weight_vector(const void *data, int64_t n) {
  return (ga_weight){.data = data, .dims = {n}, .n_dims = 1, .dtype = GA_F32, .layout = GA_LAYOUT_NATIVE};
}
static ga_weight weight_matrix(int64_t rows, int64_t cols, ga_dtype dtype) {
  return (ga_weight){.dims = {rows, cols}, .n_dims = 2, .dtype = dtype};
}
static int64_t weight_elements(const ga_weight *w) {
  int64_t n = 1;
  for (int32_t i = 0; i < w->n_dims; i++) n *= w->dims[i];
  return n;
}

/* Bytes from host memory on the device in a new buffer of the placement. */
static ga_status upload(loader *l, const void *bytes, uint64_t n, void **out) {
  GA_TRY(ga_placement_alloc(l->placement, n, out));
  if (!l->uploader) return ga_copy_to_device(l->placement->ctx, *out, bytes, n, NULL);
  return ga_upload(l->uploader, &(ga_upload_source){.bytes = bytes, .n = n}, *out);
}

/* After each piece of what is long. */
static ga_status tell(loader *l, uint64_t more) {
  l->done += more;
  if (l->progress && l->progress(l->user, ga_min_u64(l->done, l->total), l->total))
    return ga_fail(GA_ERR_CANCELLED, "loading was stopped");
  return GA_OK;
}
static ga_status tell_piece(void *user, uint64_t bytes) { return tell(user, bytes); }

/* [in, out] as stored to [out, in]: plain types only (gpt2 in safetensors). *copy is released by the caller. */
static ga_status transpose(const ga_model_tensor *t, const char *src, void **copy) {
  const int64_t rows = t->view.dim[0], cols = t->view.dim[1];
  const ga_dtype_traits *traits = ga_dtype_info(t->view.dtype);
  GA_REQUIRE(!traits->is_quant, GA_ERR_UNSUPPORTED, "%s: cannot transpose %s", t->name, traits->name);
  const size_t each = (size_t)traits->block_bytes;
  GA_TRY(ga_mem_alloc(t->bytes, "transpose", copy));
  char *dst = *copy;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      memcpy(dst + (size_t)(c * rows + r) * each, src + (size_t)(r * cols + c) * each, each);
  return GA_OK;
}

/* Rows packed at a time: file pages are given back slice by slice, so that a matrix is never held twice. */
#define SLICE_ROWS (16 * GA_PACK_ROWS)

/* t: the tensor whose pages to give back, NULL when src is a copy of it. */
static ga_status pack_on_host(loader *l, const ga_model_tensor *t, const char *src, const ga_weight *m, char *dst) {
  ga_ctx *ctx = l->placement->ctx;
  ga_pack_desc desc = GA_PACK_DESC_INIT;
  desc.k = ga_weight_cols(m);
  desc.w_dtype = (int32_t)m->dtype;
  desc.w_layout = (int32_t)m->layout;
  for (int64_t row = 0; row < ga_weight_rows(m); row += desc.n) {
    uint64_t native, packed;
    desc.n = ga_min_i64(SLICE_ROWS, ga_weight_rows(m) - row);
    GA_TRY(ga_dtype_bytes(m->dtype, desc.n * ga_weight_cols(m), &native));
    GA_TRY(ga_pack_bytes(ctx, &desc, &packed));
    GA_TRY(ga_pack(ctx, &desc, src, dst, NULL));
    if (t) ga_model_file_forget_shard(l->model->file, t, (uint64_t)(src - (const char *)t->view.data), native);
    src += native;
    dst += packed;
  }
  return GA_OK;
}

/* To a device: from the file, or from a copy of it, to where it stays or to where it is packed from. */
static ga_status upload_matrix(loader *l, const ga_model_tensor *t, const void *copy, ga_weight *m, void *dst) {
  ga_upload_source from = {
      .n = t->bytes, .bytes = copy, .file = l->model->file, .tensor = t, .tell = tell_piece, .user = l};
  GA_TRY(ga_dtype_bytes(m->dtype, ga_weight_rows(m) * ga_weight_cols(m), &from.n));
  if (from.n != t->bytes) { /* progress counts the file's bytes */
    from.tell = NULL;
    GA_TRY(tell(l, t->bytes));
  }
  if (m->layout == GA_LAYOUT_NATIVE) return ga_upload(l->uploader, &from, dst);
  void *staged;
  ga_pack_desc desc = GA_PACK_DESC_INIT;
  desc.n = ga_weight_rows(m);
  desc.k = ga_weight_cols(m);
  desc.w_dtype = (int32_t)m->dtype;
  desc.w_layout = (int32_t)m->layout;
  GA_TRY(ga_uploader_staging(l->uploader, from.n, &staged));
  GA_TRY(ga_upload(l->uploader, &from, staged));
  return ga_pack(l->placement->ctx, &desc, staged, dst, NULL);
}

/* Packs native weights or leaves them native; copy: of the tensor, where it cannot be used as it lies in the file, else
 * NULL. */
static ga_status store_matrix(loader *l, const ga_model_tensor *t, const void *copy, ga_weight *m) {
  uint64_t bytes;
  void *dst;
  GA_TRY(ga_pack_choose(l->placement->ctx, m->dtype, ga_weight_rows(m), ga_weight_cols(m), &m->layout, &bytes));
  if (m->layout == GA_LAYOUT_NATIVE && !copy && is_host(l)) {
    m->data = t->view.data;
    return GA_OK;
  }
  GA_TRY(ga_placement_alloc(l->placement, bytes, &dst));
  m->data = dst;
  if (!is_host(l)) return upload_matrix(l, t, copy, m, dst);
  if (m->layout == GA_LAYOUT_NATIVE) return ga_copy_to_device(l->placement->ctx, dst, copy, bytes, NULL);
  return pack_on_host(l, copy ? NULL : t, copy ? copy : t->view.data, m, dst);
}

/* The part of a tensor that this rank has. */
static shard_cut weight_cut(const ga_model *model, weight_id id, int32_t il) {
  const bool is_split = model->comm != NULL;
  return shard_cut_of(&model->whole, &model->hparams, is_split ? ga_comm_rank(model->comm) : 0,
                      is_split ? ga_comm_size(model->comm) : 1, id, il);
}

/* *copy, a whole matrix of `cols` columns, becomes the rank's part of it. */
static ga_status cut_matrix(const ga_model_tensor *t, ga_dtype dtype, int64_t cols, const shard_cut *c, void **copy) {
  const int64_t block = ga_dtype_info(dtype)->block_elems;
  uint64_t whole, before, row;
  void *part;
  GA_REQUIRE(c->first_col % block == 0 && c->cols % block == 0, GA_ERR_SHAPE,
             "%s: columns %lld to %lld of %s are a rank's part; must be multiples of %lld", t->name,
             (long long)c->first_col, (long long)(c->first_col + c->cols), ga_dtype_name(dtype), (long long)block);
  GA_TRY(ga_dtype_bytes(dtype, cols, &whole));
  GA_TRY(ga_dtype_bytes(dtype, c->first_col, &before));
  GA_TRY(ga_dtype_bytes(dtype, c->cols, &row));
  GA_TRY(ga_mem_alloc((size_t)c->rows * row, t->name, &part));
  const char *src = (const char *)*copy + (size_t)c->first_row * whole + before;
  for (int64_t r = 0; r < c->rows; r++) memcpy((char *)part + (size_t)r * row, src + (size_t)r * whole, row);
  ga_mem_free(*copy);
  *copy = part;
  return GA_OK;
}

/* The tensor's bytes in memory of their own. *copy: ga_mem_free. */
static ga_status read_copy(const loader *l, const ga_model_tensor *t, void **copy) {
  GA_TRY(ga_mem_alloc(t->bytes, t->name, copy));
  const ga_status status = ga_model_file_read(l->model->file, t, 0, *copy, t->bytes);
  if (status == GA_OK) return status;
  ga_mem_free(*copy);
  *copy = NULL;
  return status;
}

static ga_status read_transposed(const loader *l, const ga_model_tensor *t, void **copy) {
  void *raw;
  GA_TRY(read_copy(l, t, &raw));
  const ga_status status = transpose(t, raw, copy);
  ga_mem_free(raw);
  return status;
}

/* Rows of `bytes` each, q, k and v of each head side by side, to those of all q, all k and all v. */
static void split_heads(const ga_hparams *p, const unsigned char *src, size_t bytes, unsigned char *dst) {
  const size_t part = (size_t)p->head_dim * bytes;
  for (size_t h = 0; h < (size_t)p->n_heads; h++)
    for (size_t i = 0; i < 3; i++) memcpy(dst + (i * (size_t)p->n_heads + h) * part, src + (h * 3 + i) * part, part);
}

static ga_status read_split(const loader *l, const ga_model_tensor *t, void **copy) {
  const ga_hparams *p = &l->model->hparams;
  void *raw;
  GA_TRY(read_copy(l, t, &raw));
  const ga_status status = ga_mem_alloc(t->bytes, t->name, copy);
  if (status == GA_OK) split_heads(p, raw, t->bytes / (size_t)ga_weight_dim(p, DIM_QKV, 0), *copy);
  ga_mem_free(raw);
  return status;
}

/* Threads that convert weights: those of the context, or of the CPU that helps a GPU out, or all CPUs'. */
static ga_status converters(loader *l, ga_pool **out) {
  *out = l->placement->ctx->device->pool;
  if (!*out && l->model->cpu) *out = l->model->cpu->device->pool;
  if (!*out && !l->threads) GA_TRY(ga_pool_create(ga_cpu_count(), &l->threads));
  if (!*out) *out = l->threads;
  return GA_OK;
}

static ga_status read_promoted(loader *l, const ga_model_tensor *t, const ga_weight *m, void **copy, uint64_t *bytes) {
  ga_pool *pool;
  GA_TRY(converters(l, &pool));
  if (t->view.dtype == GA_E4M3)
    return ga_promote_e4m3(pool, l->model->file, t, ga_weight_rows(m), ga_weight_cols(m), m->dtype, copy, bytes);
  return ga_promote_q8_0(pool, l->model->file, t, copy, bytes);
}

/* Reads a matrix into memory of its own where it cannot be used as it lies in the file; else *copy is NULL. whole: its
 * shape and type before it is cut. */
static ga_status read_matrix(loader *l, const ga_model_tensor *t, matrix_change change, const ga_weight *whole,
                             const shard_cut *cut, void **copy) {
  uint64_t bytes;
  *copy = NULL;
  if (t->view.dtype == GA_E4M3 || whole->dtype != t->view.dtype) return read_promoted(l, t, whole, copy, &bytes);
  if (change == CHANGE_TRANSPOSED) return read_transposed(l, t, copy);
  if (change == CHANGE_HEADS) return read_split(l, t, copy);
  return cut->is_cut || (is_host(l) && !in_map(l->model, l->placement->ctx, t)) ? read_copy(l, t, copy) : GA_OK;
}

static ga_status load_matrix(loader *l, const ga_model_tensor *t, matrix_change change, const shard_cut *cut,
                             ga_weight *m) {
  void *copy = NULL;
  ga_status status = read_matrix(l, t, change, m, cut, &copy);
  if (status == GA_OK && cut->is_cut) status = cut_matrix(t, m->dtype, ga_weight_cols(m), cut, &copy);
  if (status == GA_OK && cut->is_cut) *m = weight_matrix(cut->rows, cut->cols, m->dtype);
  if (status == GA_OK) status = store_matrix(l, t, copy, m);
  ga_mem_free(copy);
  if (status == GA_OK && is_host(l) && m->data != t->view.data) ga_model_file_forget(l->model->file, t);
  return status;
}

static ga_status load_promoted_table(loader *l, const ga_model_tensor *t, ga_weight *m) {
  void *copy, *dst;
  uint64_t bytes;
  GA_TRY(read_promoted(l, t, m, &copy, &bytes));
  ga_status status = upload(l, copy, bytes, &dst);
  ga_mem_free(copy);
  if (status != GA_OK) return status;
  m->data = dst;
  return l->uploader ? tell(l, t->bytes) : GA_OK;
}

/* Tables, and stacks that stay native: as they are on the device; in the map where that is host memory. */
static ga_status load_table(loader *l, const ga_model_tensor *t, ga_weight *m) {
  m->layout = GA_LAYOUT_NATIVE;
  if (m->dtype != t->view.dtype) return load_promoted_table(l, t, m);
  if (in_map(l->model, l->placement->ctx, t)) {
    m->data = t->view.data;
    return GA_OK;
  }
  void *dst;
  GA_TRY(ga_placement_alloc(l->placement, t->bytes, &dst));
  m->data = dst;
  if (is_host(l)) return ga_model_file_read(l->model->file, t, 0, dst, t->bytes);
  return ga_upload(
      l->uploader,
      &(ga_upload_source){.n = t->bytes, .file = l->model->file, .tensor = t, .tell = tell_piece, .user = l}, dst);
}

/* Stacks are packed as one matrix with the rows of all their matrices. */
static ga_status load_stack(loader *l, const ga_model_tensor *t, ga_weight *m) {
  const shard_cut whole = {.is_cut = false};
  const int64_t rows = graph_packs_stacks(l->model->graph) ? ga_weight_pack_rows(m) : 0;
  if (!rows) return load_table(l, t, m);
  ga_weight all = weight_matrix(rows, ga_weight_cols(m), m->dtype);
  GA_TRY(load_matrix(l, t, CHANGE_NONE, &whole, &all));
  m->data = all.data;
  m->layout = all.layout;
  return GA_OK;
}

/* Of a checked shape. */
static int64_t tensor_elements(const ga_model_tensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->view.n_dims; i++) n *= t->view.dim[i];
  return n;
}

ga_status ga_vector_to_f32(const ga_model_tensor *t, const unsigned char *src, float add, float *out) {
  const int64_t n = tensor_elements(t);
  for (int64_t i = 0; i < n; i++) {
    uint16_t h;
    switch (t->view.dtype) {
    case GA_F32: memcpy(&out[i], src + 4 * i, 4); break;
    case GA_F16:
      memcpy(&h, src + 2 * i, 2);
      out[i] = ga_f16_to_f32(h);
      break;
    case GA_BF16:
      memcpy(&h, src + 2 * i, 2);
      out[i] = ga_bf16_to_f32(h);
      break;
    default:
      return ga_fail(GA_ERR_UNSUPPORTED, "%s is %s; vectors must be f32, f16 or bf16", t->name,
                     ga_dtype_name(t->view.dtype));
    }
    out[i] += add;
  }
  return GA_OK;
}

static ga_status split_vector(const loader *l, void *values, size_t bytes) {
  void *copy;
  GA_TRY(ga_mem_alloc(bytes, "bias", &copy));
  memcpy(copy, values, bytes);
  split_heads(&l->model->hparams, copy, sizeof(float), values);
  ga_mem_free(copy);
  return GA_OK;
}

static ga_status load_vector(loader *l, const ga_model_tensor *t, bool is_norm, bool is_qkv, const shard_cut *cut,
                             ga_weight *out) {
  void *host, *device = NULL;
  const uint64_t bytes = (uint64_t)tensor_elements(t) * sizeof(float);
  GA_TRY(ga_mem_alloc(bytes + t->bytes, t->name, &host));
  unsigned char *raw = (unsigned char *)host + bytes;
  ga_status status = ga_model_file_read(l->model->file, t, 0, raw, t->bytes);
  if (status == GA_OK) status = ga_vector_to_f32(t, raw, is_norm && l->norm_plus_one ? 1.0f : 0.0f, host);
  if (status == GA_OK && is_qkv) status = split_vector(l, host, bytes);
  const int64_t n = cut->is_cut ? cut->cols : tensor_elements(t);
  const float *first = (const float *)host + (cut->is_cut ? cut->first_col : 0);
  if (status == GA_OK) status = upload(l, first, (uint64_t)n * sizeof(float), &device);
  ga_mem_free(host);
  if (status == GA_OK) *out = weight_vector(device, n);
  return status;
}

static ga_status check_shape(const ga_hparams *p, const weight_spec *spec, int32_t il, const ga_model_tensor *t,
                             bool is_transposed) {
  const int64_t rows = ga_weight_dim(p, spec->rows, il), cols = ga_weight_dim(p, spec->cols, il),
                dim = ga_weight_dim(p, DIM_HEAD, il);
  if (spec->kind == KIND_VECTOR && spec->rows == DIM_EXPERTS) {
    GA_REQUIRE(t->view.n_dims == 2 && t->view.dim[0] == rows && t->view.dim[1] == cols, GA_ERR_SHAPE,
               "%s has %d dimensions, the first %lld; must be [%lld, %lld]", t->name, t->view.n_dims,
               (long long)(t->view.n_dims ? t->view.dim[0] : 0), (long long)rows, (long long)cols);
    return GA_OK;
  }
  if (spec->kind == KIND_VECTOR) {
    const bool is_row_each =
        spec->rows == DIM_HEAD && t->view.n_dims == 2 && t->view.dim[1] == dim && t->view.dim[0] * dim == cols;
    const bool is_vector = /* files of llama.cpp may have dimensions of 1 before that of the vector */
        t->view.n_dims >= 1 && t->view.dim[t->view.n_dims - 1] == cols && tensor_elements(t) == cols;
    GA_REQUIRE(is_row_each || is_vector, GA_ERR_SHAPE, "%s: %d dimensions, the last %lld; must be [%lld]", t->name,
               t->view.n_dims, (long long)(t->view.n_dims ? t->view.dim[t->view.n_dims - 1] : 0), (long long)cols);
    return GA_OK;
  }
  const int64_t *d = t->view.dim;
  /* A single row may come as a vector: token types, gates. */
  bool one_row = t->view.n_dims == 1 && (spec->rows == DIM_TYPES || spec->rows == DIM_ONE) && d[0] == cols;
  bool fits = t->view.n_dims == 2 && (is_transposed ? d[0] == cols && d[1] == rows : d[0] == rows && d[1] == cols);
  if (spec->rows == DIM_TYPES) fits = t->view.n_dims == 2 && d[0] >= 1 && d[1] == cols;
  GA_REQUIRE(fits || one_row, GA_ERR_SHAPE, "%s has %d dimensions, the first %lld and %lld; must be [%lld, %lld]",
             t->name, t->view.n_dims, (long long)d[0], (long long)(t->view.n_dims > 1 ? d[1] : 0),
             (long long)(is_transposed ? cols : rows), (long long)(is_transposed ? rows : cols));
  return GA_OK;
}

static ga_status check_stack_shape(const ga_hparams *p, weight_id id, int32_t il, const ga_model_tensor *t) {
  int64_t dims[GA_WEIGHT_DIMS];
  const int32_t n = ga_weight_dims(p, id, il, dims);
  GA_REQUIRE(t->view.n_dims == n && !memcmp(t->view.dim, dims, (size_t)n * sizeof *dims), GA_ERR_SHAPE,
             "%s has %d dimensions, the first %lld; must be [%lld, %lld, %lld]", t->name, t->view.n_dims,
             (long long)(t->view.n_dims ? t->view.dim[0] : 0), (long long)dims[0], (long long)dims[1],
             (long long)dims[2]);
  return GA_OK;
}

/* Types that products and look-ups take; vectors have ga_vector_to_f32. */
static ga_status check_weight_dtype(const weight_spec *spec, const ga_model_tensor *t) {
  const ga_dtype d = t->view.dtype;
  const bool scaled = d == GA_E4M3 && spec->kind == KIND_MATRIX;
  GA_REQUIRE(spec->kind == KIND_VECTOR || scaled || d == GA_F32 || d == GA_F16 || d == GA_BF16 ||
                 ga_dtype_info(d)->is_quant,
             GA_ERR_UNSUPPORTED, "%s is %s; %s must be f32, f16, bf16 or quantised", t->name, ga_dtype_name(d),
             d == GA_E4M3 ? "tables and stacks" : "weights");
  return GA_OK;
}

/* Weights of heads, for each of which a folder has a tensor; *found is false where it lacks the first. */
static ga_status load_heads(loader *l, const weight_spec *spec, const shard_cut *cut, int32_t il, ga_weight *out,
                            bool *found) {
  const int32_t dim = (int32_t)ga_weight_dim(&l->model->hparams, DIM_HEAD, il), heads = (int32_t)(cut->cols / dim),
                first = (int32_t)(cut->first_col / dim);
  const int stem = (int)(strlen(spec->name) - strlen(".weight"));
  unsigned char raw[1024 * sizeof(float)]; /* head_dim is at most 1024 */
  void *host, *device = NULL;
  *found = false;
  GA_TRY(ga_mem_alloc((size_t)heads * (size_t)dim * sizeof(float), spec->name, &host));
  ga_status status = GA_OK;
  for (int32_t h = 0; h < heads && status == GA_OK; h++) {
    char name[GA_WEIGHT_NAME_BYTES + 16];
    (void)snprintf(name, sizeof name, "blk.%d.%.*s.%d.weight", il, stem, spec->name, first + h);
    const ga_model_tensor *t = ga_model_file_find(l->model->file, name);
    if (!t && h == 0) break;
    *found = true;
    if (!t || t->view.n_dims != 1 || t->view.dim[0] != dim || t->bytes > sizeof raw)
      status = ga_fail(GA_ERR_SHAPE, "tensor %s is %s; must be [%d]", name, t ? "of another shape" : "missing", dim);
    if (status == GA_OK) status = ga_model_file_read(l->model->file, t, 0, raw, t->bytes);
    if (status == GA_OK) status = ga_vector_to_f32(t, raw, 0, (float *)host + (size_t)h * (size_t)dim);
  }
  if (status == GA_OK && *found) status = upload(l, host, (size_t)heads * (size_t)dim * sizeof(float), &device);
  ga_mem_free(host);
  if (device) *out = weight_vector(device, (int64_t)heads * dim);
  return status;
}

/* Loads the matrices of all heads from attn_kv_b. *found is false where the file lacks it. */
static ga_status load_split_heads(loader *l, weight_id id, int32_t il, ga_weight *slot, bool *found) {
  const ga_hparams *p = &l->model->hparams;
  ga_model_tensor all;
  void *copy;
  GA_TRY(kv_split_check(l->model, il));
  *found = kv_split_describe(l->model, id, il, &all);
  if (!*found) return GA_OK;
  GA_TRY(check_stack_shape(p, id, il, &all));
  GA_TRY(check_weight_dtype(&ga_weight_specs[id], &all));
  GA_REQUIRE(!ga_dtype_is_read_only(all.view.dtype), GA_ERR_UNSUPPORTED,
             "%s is %s, which becomes q8_0; GA does that for whole stacks alone", all.name,
             ga_dtype_name(all.view.dtype));
  *slot = ga_weight_of(p, id, il, all.view.dtype);
  const int64_t rows = graph_packs_stacks(l->model->graph) ? ga_weight_pack_rows(slot) : 0;
  ga_weight matrix = weight_matrix(slot->dims[0] * ga_weight_rows(slot), ga_weight_cols(slot), slot->dtype);
  GA_TRY(kv_split_read(l->model, is_host(l) ? l->placement->ctx : l->model->cpu, id, il, &all, &copy));
  ga_status status = GA_OK;
  if (rows) {
    status = store_matrix(l, &all, copy, &matrix);
    slot->data = matrix.data;
    slot->layout = matrix.layout;
  } else {
    void *device;
    status = upload(l, copy, all.bytes, &device);
    if (status == GA_OK) slot->data = device;
  }
  ga_mem_free(copy);
  return status == GA_OK ? tell(l, all.bytes) : status;
}

static ga_status load_one(loader *l, const weight_use *use, int32_t il) {
  const ga_hparams *p = &l->model->whole;
  const weight_spec *spec = &ga_weight_specs[use->id];
  const shard_cut cut = weight_cut(l->model, use->id, il);
  char name[GA_WEIGHT_NAME_BYTES];
  const ga_model_tensor *t = ga_model_file_find(l->model->file, ga_weight_name(use->id, il, name));
  if (!t) {
    bool found = false;
    if (spec->kind == KIND_VECTOR && spec->rows == DIM_HEAD)
      GA_TRY(load_heads(l, spec, &cut, il, ga_weight_slot(l->model, use->id, il), &found));
    if (spec->kind == KIND_HEADS)
      GA_TRY(load_split_heads(l, use->id, il, ga_weight_slot(l->model, use->id, il), &found));
    GA_REQUIRE(found || use->optional, GA_ERR_FORMAT, "tensor %s is missing; %s needs it", name, p->arch->name);
    return GA_OK;
  }
  const bool is_qkv = l->qkv_by_head && (use->id == W_QKV || use->id == W_QKV_B);
  const bool is_transposed = l->is_transposed && spec->kind == KIND_MATRIX && spec->rows != DIM_VOCAB;
  const matrix_change change = is_transposed ? CHANGE_TRANSPOSED : is_qkv ? CHANGE_HEADS : CHANGE_NONE;
  GA_REQUIRE(!is_qkv || (p->n_kv_heads == p->n_heads && p->v_dim == p->head_dim), GA_ERR_SHAPE,
             "%s by head: %d heads of %d, %d kv heads of %d; must be as many, of one size", t->name, p->n_heads,
             p->head_dim, p->n_kv_heads, p->v_dim);
  GA_TRY(weight_is_stack(spec->kind) ? check_stack_shape(p, use->id, il, t)
                                     : check_shape(p, spec, il, t, is_transposed));
  GA_TRY(check_weight_dtype(spec, t));
  GA_REQUIRE(change == CHANGE_NONE || t->view.dtype != GA_E4M3, GA_ERR_UNSUPPORTED,
             "%s is e4m3; %s has no scales for that", t->name, p->arch->name);
  ga_weight *slot = ga_weight_slot(l->model, use->id, il);
  if (spec->kind == KIND_VECTOR)
    GA_TRY(load_vector(l, t, spec->is_norm, is_qkv, &cut, slot));
  else {
    const ga_dtype dtype =
        change == CHANGE_NONE ? ga_weight_dtype(l->model, l->placement->ctx, spec->kind, t) : t->view.dtype;
    *slot = ga_weight_of(p, use->id, il, dtype);
    GA_TRY(spec->kind == KIND_MATRIX     ? load_matrix(l, t, change, &cut, slot)
           : weight_is_stack(spec->kind) ? load_stack(l, t, slot)
                                         : load_table(l, t, slot));
  }
  return l->uploader && spec->kind != KIND_VECTOR ? GA_OK : tell(l, t->bytes); /* uploads tell of each piece */
}

/* Tied head: the embedding again, packed. Its native pages are then needed for looked-up rows alone. */
static ga_status tie_output(loader *l) {
  ga_model *model = l->model;
  ga_weight *output = ga_weight_slot(model, W_OUTPUT, model->hparams.n_layers);
  if (output->data || !ga_arch_weight(model->hparams.arch, W_OUTPUT)) return GA_OK;
  const ga_model_tensor *t = ga_model_file_find(model->file, "token_embd.weight");
  *output = weight_matrix(model->hparams.vocab, model->hparams.width, ga_table_dtype(t));
  const shard_cut cut = weight_cut(model, W_OUTPUT, 0);
  return load_matrix(l, t, CHANGE_NONE, &cut, output);
}

/* Frequencies of rotary embedding, at each placement. Local layers have divisors only where they are all of one kind
 * with the others (rope_freqs.weight). */
static ga_status load_rope(loader *l) {
  ga_model *model = l->model;
  const ga_hparams *p = &model->hparams;
  if (!p->rot_dim) return GA_OK;
  float factors[512], freq[512];
  GA_TRY(ga_rope_short_context(model->file, p, &model->short_context));
  for (int i = 0; i < ROPE_TABLES; i++) {
    const rope_table table = (rope_table)i;
    bool found;
    void *device;
    if (table == ROPE_LONG && !model->short_context) continue;
    GA_TRY(ga_rope_factors(model->file, p, table, factors, &found));
    GA_TRY(ga_hparams_rope(model->file, p, table, found ? factors : NULL, freq, &model->rope_magnitude[table]));
    GA_TRY(upload(l, freq, sizeof(float) * (size_t)ga_rope_dims(p, table) / 2, &device));
    l->placement->rope_freq[table] = device;
  }
  return GA_OK;
}

/* Slopes of ALiBi (arXiv 2108.12409): with n heads, a power of two, 2^(-8 h / n) of head h from 1 on; with more, those
 * between them follow, of every other of twice as many heads. */
static ga_status load_alibi(loader *l) {
  const ga_hparams *p = &l->model->hparams;
  float slope[1024]; /* as many heads as there may be */
  int32_t n = 1;
  void *device;
  if (!p->has_alibi) return GA_OK;
  while (2 * n <= p->n_heads) n *= 2;
  for (int32_t h = 0; h < p->n_heads; h++)
    slope[h] = (float)exp2(h < n ? -8.0 * (h + 1) / n : -4.0 * (2 * (h - n) + 1) / n);
  GA_TRY(upload(l, slope, sizeof(float) * (size_t)p->n_heads, &device));
  l->placement->alibi = device;
  return GA_OK;
}

/* What a spec's tensor takes at ctx. */
static ga_status need_of(const ga_model *model, ga_ctx *ctx, weight_id id, int32_t il, const char *name,
                         ga_weight_need *need) {
  const weight_spec *spec = &ga_weight_specs[id];
  const bool is_cut = weight_cut(model, id, il).is_cut;
  const ga_model_tensor *t = ga_model_file_find(model->file, name);
  ga_model_tensor split;
  ga_layout layout = GA_LAYOUT_NATIVE;
  if (!t && spec->kind == KIND_HEADS && kv_split_describe(model, id, il, &split)) t = &split;
  if (!t) return GA_OK; /* loading says whether it may be missing */
  const ga_dtype stored = spec->kind == KIND_VECTOR ? t->view.dtype : ga_weight_dtype(model, ctx, spec->kind, t);
  const ga_weight w = ga_weight_of(&model->hparams, id, il, stored);
  uint64_t bytes = spec->kind == KIND_VECTOR ? (uint64_t)ga_weight_cols(&w) * sizeof(float) : t->bytes;
  if (spec->kind != KIND_VECTOR) GA_TRY(check_weight_dtype(spec, t));
  const bool may_pack = spec->kind == KIND_MATRIX || (weight_is_stack(spec->kind) && graph_packs_stacks(model->graph));
  const bool is_packed = may_pack && ga_weight_pack_rows(&w);
  if (is_packed) GA_TRY(ga_pack_choose(ctx, stored, ga_weight_pack_rows(&w), ga_weight_cols(&w), &layout, &bytes));
  uint64_t staged = t->bytes;
  if (stored != t->view.dtype) GA_TRY(ga_dtype_bytes(stored, weight_elements(&w), &staged));
  if (!is_packed && spec->kind != KIND_VECTOR) bytes = staged;
  const bool mapped = layout == GA_LAYOUT_NATIVE && !is_cut && spec->kind != KIND_VECTOR && stored == t->view.dtype &&
                      in_map(model, ctx, t);
  if (!mapped || spec->kind != KIND_TABLE) need->held += bytes; /* of tables in the map few rows are read */
  if (!mapped && SHARES(bytes))
    need->small += ga_round_up(bytes, 256);
  else if (!mapped)
    need->taken += bytes;
  if (layout != GA_LAYOUT_NATIVE && !ga_device_in_host_memory(ctx->device) && staged > need->staged)
    need->staged = staged;
  return GA_OK;
}

/* Are tensors of that id among those of layer il; -1: what comes before the layers, n_layers: the head? */
static bool stands_at(const ga_hparams *p, weight_id id, int32_t il) {
  if (il >= 0 && il < p->n_layers) return ga_weight_specs[id].of_layer && ga_arch_has_weight(p, id, il);
  const bool is_head = id == W_OUTPUT_NORM || id == W_OUTPUT_NORM_B || id == W_OUTPUT || id == W_OUTPUT_B;
  return !ga_weight_specs[id].of_layer && is_head == (il >= 0) && ga_arch_has_weight(p, id, il);
}

ga_status ga_weights_need(const ga_model *model, ga_ctx *ctx, int32_t il, weight_group group, ga_weight_need *out) {
  const ga_hparams *p = &model->hparams;
  char name[GA_WEIGHT_NAME_BYTES];
  *out = (ga_weight_need){0};
  for (size_t i = 0; i < p->arch->n_weights; i++) {
    const weight_id id = p->arch->weights[i].id;
    if (weight_is_of_experts(id) != (group == GROUP_EXPERTS)) continue;
    if (stands_at(p, id, il)) GA_TRY(need_of(model, ctx, id, il, ga_weight_name(id, il, name), out));
  }
  if (group == GROUP_EXPERTS) return GA_OK;
  const bool tied = ga_arch_weight(p->arch, W_OUTPUT) && !ga_model_file_find(model->file, "output.weight");
  if (il < p->n_layers || !tied) return GA_OK;
  return need_of(model, ctx, W_OUTPUT, il, "token_embd.weight", out);
}

static void count_totals(ga_model *model, loader *l) {
  for (int64_t i = 0; i < ga_model_file_tensor_count(model->file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(model->file, i);
    uint64_t elems = 1;
    for (int d = 0; d < t->view.n_dims; d++) elems *= (uint64_t)t->view.dim[d];
    l->total += t->bytes;
    model->info.n_params += elems;
    model->info.file_bytes += t->bytes;
  }
  for (int32_t i = 0; i < model->n_placements; i++) {
    const ga_model_placement *plan = &model->placements[i].plan;
    model->info.weight_bytes += plan->weights + plan->host_experts;
  }
}

/* Loads a tensor of experts that the CPU multiplies by for a layer of a GPU. */
static ga_status load_to_host(loader *l, const weight_use *use, int32_t il) {
  ga_placement *gpu = l->placement;
  ga_uploader *uploader = l->uploader;
  l->placement = &l->model->host_experts;
  l->uploader = NULL;
  const ga_status status = load_one(l, use, il);
  l->placement = gpu;
  l->uploader = uploader;
  return status;
}

/* il: as ga_weights_need has it. */
static ga_status load_layer(loader *l, int32_t il) {
  const ga_hparams *p = &l->model->hparams;
  for (size_t i = 0; i < p->arch->n_weights; i++)
    if (stands_at(p, p->arch->weights[i].id, il)) {
      const weight_use *use = &p->arch->weights[i];
      const bool lends = weight_is_of_experts(use->id) && place_has_host_experts(l->model, l->placement, il);
      GA_TRY(lends ? load_to_host(l, use, il) : load_one(l, use, il));
    }
  return il == p->n_layers ? tie_output(l) : GA_OK;
}

static ga_status load_placement(loader *l) {
  const ga_model *model = l->model;
  if (place_begins(model, l->placement)) GA_TRY(load_layer(l, -1));
  for (int32_t il = l->placement->first; il < l->placement->end; il++) GA_TRY(load_layer(l, il));
  if (place_ends(model, l->placement)) GA_TRY(load_layer(l, model->hparams.n_layers));
  GA_TRY(load_alibi(l));
  return load_rope(l);
}

/* The uploader is closed whatever happened: its buffers are in use until then. */
static ga_status fill_placement(loader *l) {
  ga_uploader uploader = {0};
  l->uploader = NULL;
  if (is_host(l)) return load_placement(l);
  ga_status status = ga_uploader_open(l->placement->ctx, &uploader);
  l->uploader = &uploader;
  if (status == GA_OK) status = load_placement(l);
  const ga_status closed = ga_uploader_close(&uploader, status == GA_OK);
  return status == GA_OK ? closed : status;
}

static ga_status fill_placements(loader *l) {
  for (int32_t i = 0; i < l->model->n_placements; i++) {
    char plan[320];
    l->placement = &l->model->placements[i];
    const ga_status status = fill_placement(l);
    ga_placement_text(&l->placement->plan, plan, sizeof plan);
    if (status == GA_ERR_NOMEM && !is_host(l))
      return ga_fail_in(status, "the plan for %s was %s", l->placement->plan.device, plan);
    GA_TRY(status);
  }
  return GA_OK;
}

ga_status ga_weights_load(ga_model *model, const ga_model_options *options) {
  loader l = {.model = model, .progress = options ? options->progress : NULL, .user = options ? options->user : NULL};
  count_totals(model, &l);
  if (model->is_plan) return GA_OK;
  GA_TRY(ga_model_file_bool_or(model->file, "ga.norm_plus_one", false, &l.norm_plus_one));
  GA_TRY(ga_model_file_bool_or(model->file, "ga.gpt2_transposed", false, &l.is_transposed));
  GA_TRY(ga_model_file_bool_or(model->file, "ga.qkv_by_head", false, &l.qkv_by_head));
  GA_TRY(ga_weights_create(model->hparams.n_layers, &model->weights));
  const ga_status status = fill_placements(&l);
  ga_pool_destroy(l.threads);
  GA_TRY(status);
  if (l.progress && l.progress(l.user, l.total, l.total)) return ga_fail(GA_ERR_CANCELLED, "loading was stopped");
  return GA_OK;
}
