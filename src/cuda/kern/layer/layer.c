#include "cuda/kern/layer/layer.h"

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/layer/layer_args.h"
#include "cuda/rt/cuda.h"

#define WIDE_BYTES    16 /* what a lane moves at once */
#define BLOCKS_PER_SM 8  /* of 256 threads: a full multiprocessor */

static size_t bytes_of(ga_dtype dtype) { return (size_t)ga_dtype_info(dtype)->block_bytes; }

static bool wide(const void *p, int64_t stride, int64_t rows, size_t each) {
  return (uintptr_t)p % WIDE_BYTES == 0 && (rows <= 1 || (uint64_t)stride * each % WIDE_BYTES == 0);
}

/* One-dimensional: blocks take units of work round-robin. */
static ga_status enqueue(const ga_kernel *k, ga_stream *stream, int64_t units, const void *args) {
  const cuda_variant *v = k->impl;
  int64_t most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_launch l = {
      .grid = {(uint32_t)ga_min_i64(units, most), 1, 1}, .block = {v->threads, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, args);
}

/* Units of an elementwise kernel: a row is cut into pieces of 16 bytes a thread. */
static int64_t pieces(const ga_kernel *k, int64_t rows, int64_t width) {
  const cuda_variant *v = k->impl;
  return rows * ga_div_up(width, (int64_t)(WIDE_BYTES / bytes_of(k->dtype[0]) * v->threads));
}

#define CHECK(name, dtype) GA_TRY(cuda_check_pointer(stream, k, #name, a->name, bytes_of(dtype)))

/* --- add --- */

const char *cuda_add_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  return ((const ga_add_desc *)desc)->dtype == (int32_t)k->dtype[0] ? NULL : "dtype is another";
}

ga_status cuda_add(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_add_desc *d = desc;
  const ga_add_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  CHECK(x, k->dtype[0]);
  CHECK(b, k->dtype[0]);
  CHECK(y, k->dtype[0]);
  size_t each = bytes_of(k->dtype[0]);
  const ga_kargs_add args = {.x = a->x,
                             .b = a->b,
                             .y = a->y,
                             .rows = d->rows,
                             .width = d->width,
                             .x_stride = d->x_stride,
                             .b_stride = d->b_rows == 1 ? 0 : d->b_stride,
                             .y_stride = d->y_stride,
                             .scale = d->scale,
                             .wide = wide(a->x, d->x_stride, d->rows, each) &&
                                     wide(a->b, d->b_stride, d->b_rows, each) &&
                                     wide(a->y, d->y_stride, d->rows, each)};
  return enqueue(k, stream, pieces(k, d->rows, d->width), &args);
}

/* --- act --- */

const char *cuda_act_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  return ((const ga_act_desc *)desc)->dtype == (int32_t)k->dtype[0] ? NULL : "dtype is another";
}

ga_status cuda_act(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_act_desc *d = desc;
  const ga_act_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  CHECK(x, k->dtype[0]);
  CHECK(g, k->dtype[0]);
  CHECK(y, k->dtype[0]);
  size_t each = bytes_of(k->dtype[0]);
  const ga_kargs_act args = {.x = a->x,
                             .g = a->g,
                             .y = a->y,
                             .rows = d->rows,
                             .width = d->width,
                             .x_stride = d->x_stride,
                             .g_stride = d->g_stride,
                             .y_stride = d->y_stride,
                             .act = d->act,
                             .wide = wide(a->x, d->x_stride, d->rows, each) && wide(a->g, d->g_stride, d->rows, each) &&
                                     wide(a->y, d->y_stride, d->rows, each)};
  return enqueue(k, stream, pieces(k, d->rows, d->width), &args);
}

/* --- norm --- */

const char *cuda_norm_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_norm_desc *d = desc;
  if (d->x_dtype != (int32_t)k->dtype[0]) return "x_dtype is another";
  return d->y_dtype == (int32_t)k->dtype[1] ? NULL : "y_dtype is another";
}

ga_status cuda_norm(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_norm_desc *d = desc;
  const ga_norm_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  CHECK(x, k->dtype[0]);
  CHECK(y, k->dtype[1]);
  CHECK(weight, GA_F32);
  CHECK(bias, GA_F32);
  CHECK(residual, k->dtype[1]);
  const ga_kargs_norm args = {.x = a->x,
                              .y = a->y,
                              .weight = a->weight,
                              .bias = a->bias,
                              .residual = a->residual,
                              .rows = d->rows,
                              .width = d->width,
                              .x_stride = d->x_stride,
                              .y_stride = d->y_stride,
                              .residual_stride = d->residual_stride,
                              .eps = d->eps,
                              .kind = d->kind};
  return enqueue(k, stream, d->rows, &args);
}

/* --- softmax --- */

const char *cuda_softmax_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

ga_status cuda_softmax(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_softmax_desc *d = desc;
  const ga_softmax_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  CHECK(x, GA_F32);
  CHECK(y, GA_F32);
  const ga_kargs_softmax args = {.x = a->x,
                                 .y = a->y,
                                 .rows = d->rows,
                                 .width = d->width,
                                 .x_stride = d->x_stride,
                                 .y_stride = d->y_stride,
                                 .scale = d->scale,
                                 .log = d->log};
  return enqueue(k, stream, d->rows, &args);
}

/* --- embed --- */

/* Bytes that an element, or a byte of a block, must lie at. */
static size_t align_of(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t->is_quant ? 1 : (size_t)t->block_bytes;
}

/* Rows of pieces of `each` elements a thread. */
static ga_status enqueue_rows(const ga_kernel *k, ga_stream *stream, int64_t rows, int64_t pieces, const void *args) {
  return enqueue(k, stream, rows * ga_div_up(pieces, ((const cuda_variant *)k->impl)->threads), args);
}

const char *cuda_embed_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

ga_status cuda_embed(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_embed_desc *d = desc;
  const ga_embed_io *a = io;
  if (d->tokens == 0 || d->width == 0) return GA_OK;
  CHECK(ids, GA_I32);
  GA_TRY(cuda_check_pointer(stream, k, "table", a->table, align_of(d->w_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, align_of(d->y_dtype)));
  const ga_kargs_embed args = {.ids = a->ids,
                               .table = a->table,
                               .y = a->y,
                               .tokens = d->tokens,
                               .vocab = d->vocab,
                               .width = d->width,
                               .y_stride = d->y_stride,
                               .w_dtype = d->w_dtype,
                               .y_dtype = d->y_dtype,
                               .scale = d->scale};
  return enqueue_rows(k, stream, d->tokens, d->width, &args);
}

/* --- rope --- */

const char *cuda_rope_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

ga_status cuda_rope(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_rope_desc *d = desc;
  const ga_rope_io *a = io;
  if (d->tokens == 0 || d->rot_dim == 0 || d->heads == 0) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, align_of(d->x_dtype)));
  CHECK(positions, GA_I32);
  CHECK(inv_freq, GA_F32);
  const ga_kargs_rope args = {.x = a->x,
                              .positions = a->positions,
                              .inv_freq = a->inv_freq,
                              .tokens = d->tokens,
                              .x_stride = d->x_stride,
                              .heads = d->heads,
                              .head_dim = d->head_dim,
                              .rot_dim = d->rot_dim,
                              .pairs = d->pairs,
                              .x_dtype = d->x_dtype,
                              .magnitude = d->magnitude};
  return enqueue_rows(k, stream, d->tokens, (int64_t)d->heads * (d->rot_dim / 2), &args);
}

/* --- kv_store --- */

#define MANY_TOKENS 32
#define MAX_SCALED  256 /* elements of a head in e4m3: a warp has them all at once */

static const char *cache_ok(const ga_kv_store_desc *d) {
  const bool known = d->kv_dtype == GA_F32 || d->kv_dtype == GA_F16 || d->kv_dtype == GA_BF16 ||
                     d->kv_dtype == GA_E4M3 || d->kv_dtype == GA_Q8_0 || d->kv_dtype == GA_Q4_0;
  if (!known) return "kv_dtype must be f32, f16, bf16, e4m3, q8_0 or q4_0";
  return d->kv_dtype == GA_E4M3 && (d->head_dim > MAX_SCALED || d->v_dim > MAX_SCALED)
             ? "head_dim or v_dim is above 256, in e4m3"
             : NULL;
}

const char *cuda_kv_store_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_kv_store_desc *d = desc;
  if (d->head_norm) return "it does not norm heads";
  return d->kv_dtype == GA_E4M3 ? "a row of its own writes e4m3" : cache_ok(d);
}

const char *cuda_kv_store_scaled_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_kv_store_desc *d = desc;
  if (d->head_norm) return "it does not norm heads";
  return d->kv_dtype != GA_E4M3 ? "it writes e4m3" : cache_ok(d);
}

static int32_t threads_of(const ga_kernel *k) { return (int32_t)((const cuda_variant *)k->impl)->threads; }

/* Lanes that an element each of a head of Q, K or V take: whole warps. */
static int32_t lanes_of_head(const ga_kv_store_desc *d) {
  return (int32_t)ga_round_up((size_t)(d->v_dim > d->head_dim ? d->v_dim : d->head_dim), 32);
}

const char *cuda_kv_store_normed_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_kv_store_desc *d = desc;
  if (!d->head_norm) return "it is for heads that are normed";
  if (d->kv_dtype == GA_E4M3) return "it does not write e4m3 caches";
  return lanes_of_head(d) <= threads_of(k) ? cache_ok(d) : "a block is smaller than head_dim or v_dim";
}

ga_status cuda_kv_store(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_kv_store_desc *d = desc;
  const ga_kv_store_io *a = io;
  const int64_t k_width = (int64_t)d->heads * d->head_dim, v_width = (int64_t)d->heads * d->v_dim;
  const int32_t chunk = d->tokens >= MANY_TOKENS ? 8 : 1; /* few tokens: all warps there are */
  const bool scaled = d->kv_dtype == GA_E4M3;
  if (d->tokens == 0 || k_width + v_width == 0) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "k", a->k, align_of(d->x_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "v", a->v, align_of(d->x_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "k_cache", a->k_cache, align_of(d->kv_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "v_cache", a->v_cache, align_of(d->kv_dtype)));
  CHECK(slot, GA_I32);
  if (scaled) {
    CHECK(k_scale, GA_F32);
    CHECK(v_scale, GA_F32);
  }
  if (d->rot_dim) {
    GA_TRY(cuda_check_pointer(stream, k, "q", a->q, align_of(d->x_dtype)));
    CHECK(positions, GA_I32);
    CHECK(inv_freq, GA_F32);
  }
  if (d->head_norm) {
    CHECK(q_norm, GA_F32);
    CHECK(k_norm, GA_F32);
  }
  const ga_kargs_kv_store args = {.k = a->k,
                                  .v = a->v,
                                  .slot = a->slot,
                                  .k_cache = a->k_cache,
                                  .v_cache = a->v_cache,
                                  .tokens = d->tokens,
                                  .slots = d->slots,
                                  .k_stride = d->k_stride,
                                  .v_stride = d->v_stride,
                                  .k_width = (int32_t)k_width,
                                  .v_width = (int32_t)v_width,
                                  .x_dtype = d->x_dtype,
                                  .kv_dtype = d->kv_dtype,
                                  .q = a->q,
                                  .positions = a->positions,
                                  .inv_freq = a->inv_freq,
                                  .q_stride = d->q_stride,
                                  .q_heads = d->q_heads,
                                  .head_dim = d->head_dim,
                                  .rot_dim = d->rot_dim,
                                  .pairs = d->pairs,
                                  .magnitude = d->magnitude,
                                  .chunk = chunk,
                                  .k_scale = a->k_scale,
                                  .v_scale = a->v_scale,
                                  .q_norm = a->q_norm,
                                  .k_norm = a->k_norm,
                                  .norm_eps = d->norm_eps,
                                  .lanes = lanes_of_head(d)};
  if (d->head_norm) /* a block takes as many heads as it has lanes for, `chunk` times */
    return enqueue(k, stream,
                   d->tokens * ga_div_up(d->q_heads + 2 * (int64_t)d->heads, threads_of(k) / args.lanes * chunk),
                   &args);
  /* A warp takes 32 elements of K or V (in e4m3 a head of them), or 32 pairs of Q, in `chunk` heads. */
  const int64_t kv = scaled ? 2 * d->heads : ga_div_up(k_width, 32) + ga_div_up(v_width, 32);
  const int64_t warps = ga_div_up(kv + ga_div_up(d->rot_dim / 2, 32) * d->q_heads, chunk);
  return enqueue_rows(k, stream, 1, d->tokens * warps * 32, &args);
}
