#include "cuda/kern/attn_fp8/attn_fp8_sm90a.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"
#include "opdef/attn.h"
#include "opdef/attn_fp8.h"

#define ALIGN_BYTES   16 /* of addresses and strides, for tensor maps and 16-byte stores */
#define PANEL_BYTES   128
#define Q_BOX_ROWS    64
#define SCALE_STEP    64 /* tokens by which kernels count scales; those of an i8 q by one */
#define LONG_KEYS     4096
#define SECTION_BYTES ((int64_t)16 << 20)
#define SECTION_HEADS 64
#define MOST_SCALES   ((int64_t)1 << 31) /* offsets of scales are 32-bit */

const char *cuda_attn_fp8_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_attn_desc *d = desc;
  const cuda_attn_variant *v = k->impl;
  if (d->q_dtype != (int32_t)k->dtype[0] || d->o_dtype != (int32_t)k->dtype[2]) return "q_dtype or o_dtype is another";
  if (d->kv_dtype != GA_E4M3) return "kv_dtype must be e4m3";
  if (d->head_dim != v->d || d->v_dim != v->d) return "head_dim or v_dim is another";
  if (k->op_flags & GA_ATTN_ROW_FAST_SUM && !(d->flags & GA_ATTN_FAST_SUM))
    return "it sums all keys in the tensor cores, which was not asked for";
  if (!(d->scale > 0)) return "scale must be positive";
  if (!cuda_attn_small(d)) return "too many rows: at most 2^28 of q, of kv, of batch * q_heads, of 64-row tiles";
  if (d->window) return "compiled without windows";
  if (d->flags &
          (GA_ATTN_SINKS | GA_ATTN_ALIBI | GA_ATTN_VARLEN | GA_ATTN_PAGED | GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT) ||
      d->kv_segments || d->softcap > 0)
    return "compiled without sinks, ALiBi, soft-cap, packed sequences, pages, carried state and KV segments";
  return v->mask == (d->flags & GA_ATTN_CAUSAL ? CUDA_ATTN_MASK_CAUSAL : CUDA_ATTN_MASK_FULL)
             ? NULL
             : "compiled for another mask";
}

/* --- arguments --- */

static ga_status check_tensor(ga_stream *stream, const ga_kernel *k, const char *name, const void *p,
                              const ga_attn_strides *s, int64_t step) {
  const int64_t all[3] = {s->batch, s->token, s->head};
  static const char *const names[3] = {"batch", "token", "head"};
  GA_TRY(cuda_check_pointer(stream, k, name, p, ALIGN_BYTES));
  for (int i = 0; i < 3; i++)
    GA_REQUIRE(all[i] >= 0 && all[i] % step == 0 && all[i] < (int64_t)1 << 38, GA_ERR_ARG,
               "%s: %s_stride.%s is %lld; must be a multiple of %lld, 0 to 2^38", k->id, name, names[i],
               (long long)all[i], (long long)step);
  return GA_OK;
}

/* Doublings from `step` tokens to a block; with one scale for all it does not matter. */
static int32_t scale_shift(int32_t scale_tokens, int32_t step) {
  int32_t shift = 0;
  while (step << shift < scale_tokens) shift++;
  return shift;
}

static ga_status fill_scale(ga_stream *stream, const ga_kernel *k, const char *name, const ga_attn_scale *s,
                            int64_t batch, int64_t heads, int64_t tokens, int32_t scale_tokens, int32_t step,
                            ga_kattn_scales *out) {
  const int64_t blocks = scale_tokens && tokens ? ga_div_up(tokens, scale_tokens) : 1;
  GA_TRY(cuda_check_pointer(stream, k, name, s->data, sizeof(float)));
  const double last = (double)(batch - 1) * (double)s->batch + (double)(heads - 1) * (double)s->head +
                      (double)(blocks - 1) * (double)s->block;
  GA_REQUIRE(s->batch >= 0 && s->head >= 0 && s->block >= 0 && last < (double)MOST_SCALES, GA_ERR_ARG,
             "%s: %s has strides %lld, %lld, %lld; must not be negative, nor reach over 2^31 elements", k->id, name,
             (long long)s->batch, (long long)s->head, (long long)s->block);
  *out = (ga_kattn_scales){.data = s->data,
                           .batch = s->batch,
                           .head = s->head,
                           .block = s->block,
                           .shift = scale_shift(scale_tokens, step),
                           .last = (int32_t)blocks - 1};
  return GA_OK;
}

static ga_status check_tensors(ga_stream *stream, const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a,
                               ga_kargs_attn_fp8 *out) {
  GA_TRY(check_tensor(stream, k, "q", a->q, &a->q_stride, ALIGN_BYTES));
  GA_TRY(check_tensor(stream, k, "k", a->k, &a->k_stride, ALIGN_BYTES));
  GA_TRY(check_tensor(stream, k, "v", a->v, &a->v_stride, ALIGN_BYTES));
  GA_TRY(check_tensor(stream, k, "o", a->o, &a->o_stride, ALIGN_BYTES / 2));
  GA_TRY(cuda_check_pointer(stream, k, "lse", a->lse, sizeof(float)));
  GA_TRY(fill_scale(stream, k, "q_scale", &a->q_scale, d->batch, d->q_heads, d->max_q, d->q_scale_tokens,
                    d->q_dtype == GA_I8 ? 1 : SCALE_STEP, &out->scale_q));
  GA_TRY(cuda_check_pointer(stream, k, "v_mean", a->v_mean, ALIGN_BYTES));
  out->v_mean = a->v_mean;
  out->scale_k = out->scale_v = (ga_kattn_scales){.data = a->q_scale.data}; /* without keys: any number */
  if (!d->max_kv) return GA_OK;
  GA_TRY(fill_scale(stream, k, "k_scale", &a->k_scale, d->batch, d->kv_heads, d->max_kv, d->kv_scale_tokens, SCALE_STEP,
                    &out->scale_k));
  return fill_scale(stream, k, "v_scale", &a->v_scale, d->batch, d->kv_heads, d->max_kv, d->kv_scale_tokens, SCALE_STEP,
                    &out->scale_v);
}

/* --- tensor maps: bytes as (column, row, head, batch) --- */

typedef struct view {
  const char *name;
  const void *data;
  const ga_attn_strides *stride;
  int64_t cols, rows, heads, batch;
  uint32_t box_cols, box_rows;
} view;

static ga_status encode_tensor(const cuda_device *d, const ga_kernel *k, const view *t, ga_tmap *out) {
  const uint64_t dims[4] = {(uint64_t)t->cols, (uint64_t)t->rows, (uint64_t)t->heads, (uint64_t)t->batch};
  const int64_t strides[3] = {t->stride->token, t->stride->head, t->stride->batch};
  const uint32_t box[4] = {t->box_cols, t->box_rows, 1, 1}, ones[4] = {1, 1, 1, 1};
  const int swizzle = t->box_cols == PANEL_BYTES ? CU_TMAP_SWIZZLE_128B : CU_TMAP_SWIZZLE_64B;
  uint64_t bytes[3];
  for (int i = 0; i < 3; i++)
    bytes[i] = dims[i + 1] == 1 ? ALIGN_BYTES : (uint64_t)strides[i]; /* of one element it is never used */
  void *base;
  memcpy(&base, &t->data, sizeof base); /* the driver's prototype lacks const */
  CUresult rc = d->cu->TensorMapEncodeTiled(out, CU_TMAP_UINT8, 4, base, dims, bytes, box, ones,
                                            CU_TMAP_INTERLEAVE_NONE, swizzle, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  if (rc == CUDA_SUCCESS) return GA_OK;
  return ga_fail_in(ga_cu_fail(d->cu, rc, "cuTensorMapEncodeTiled"), "%s: %s", k->id, t->name);
}

/* Without keys the maps of k and v are of the first 16 bytes of q, outside of which every box lies but one of finite
 * numbers. */
static ga_status encode_all(const cuda_device *d, const ga_kernel *k, const ga_attn_desc *p, const ga_attn_io *a,
                            ga_kargs_attn_fp8 *out) {
  const uint32_t bn = (uint32_t)((const cuda_attn_variant *)k->impl)->bn,
                 keys = bn % GA_ATTN_FP8_BLOCK ? SCALE_STEP : GA_ATTN_FP8_BLOCK;
  const uint32_t cols = (uint32_t)ga_min_i64(p->head_dim, PANEL_BYTES);
  const view q = {"q", a->q, &a->q_stride, p->head_dim, p->max_q, p->q_heads, p->batch, cols, Q_BOX_ROWS};
  view key = {"k", a->k, &a->k_stride, p->head_dim, p->max_kv, p->kv_heads, p->batch, cols, bn};
  view value = {"v",      a->v, &a->v_stride,      ga_attn_fp8_padded(p->max_kv), p->v_dim, p->kv_heads,
                p->batch, keys, (uint32_t)p->v_dim};
  if (!p->max_kv) {
    key.data = value.data = a->q;
    key.cols = value.cols = ALIGN_BYTES;
    key.rows = key.heads = key.batch = value.rows = value.heads = value.batch = 1;
  }
  GA_TRY(encode_tensor(d, k, &q, &out->fwd.q));
  GA_TRY(encode_tensor(d, k, &key, &out->fwd.k));
  return encode_tensor(d, k, &value, &out->fwd.v);
}

/* Causal order takes the longest tiles first inside a section of heads: all of long sequences, else as many as have 16
 * MiB of K and V, and 64 at most. Of sections with one or two heads at D = 256 the last one's long tiles ended alone:
 * 1025 TFLOP/s beside 1161 at 8192 keys. */
static int32_t heads_a_section(const ga_attn_desc *p, const ga_kargs_attn_fwd *a) {
  const int64_t head_bytes = ga_max_i64(p->max_kv, 1) * (p->head_dim + p->v_dim);
  if (p->max_kv > LONG_KEYS) return a->heads_total;
  const int64_t heads = ga_min_i64(SECTION_BYTES * a->group / head_bytes, SECTION_HEADS);
  return (int32_t)ga_min_i64(ga_max_i64(heads, 1), a->heads_total);
}

ga_status cuda_attn_fp8(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_attn_desc *p = desc;
  const ga_attn_io *a = io;
  const cuda_attn_variant *v = k->impl;
  const int32_t sms = stream->device->caps.sms;
  ga_kargs_attn_fp8 args;
  if (p->batch == 0 || p->max_q == 0) return GA_OK;
  memset(&args, 0, sizeof args);
  GA_TRY(check_tensors(stream, k, p, a, &args));
  cuda_attn_fill(v, p, a, sms, &args.fwd);
  args.fwd.chunks = 1;
  args.fwd.heads_per_section = heads_a_section(p, &args.fwd);
  args.fwd.rows_k = (int32_t)p->max_kv;
  GA_TRY(encode_all(cuda_device_of(stream), k, p, a, &args));
  args.fwd.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(args.fwd.tiles, sms), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
