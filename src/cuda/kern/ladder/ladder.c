#include "cuda/kern/ladder/ladder_host.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/ladder/ladder_args.h"

#define LOG2E       1.44269504f /* log2 e */
#define COLS        128
#define PANEL_COLS  64 /* columns of a box: 128 bytes, the width of the swizzle */
#define ALIGN_BYTES 16
#define ALIGN_ELEMS 8
#define Q_BOX_ROWS  64
#define KV_BOX_ROWS 128
#define MAX_BLOCKS  (((int64_t)1 << 31) - 1) /* of a grid */

const char *cuda_ladder_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  const int64_t most = (int64_t)1 << 28;
  (void)k, (void)caps;
  if (d->q_dtype != GA_BF16 || d->kv_dtype != GA_BF16 || d->o_dtype != GA_BF16) return "q, kv and o must be bf16";
  if (d->head_dim != COLS || d->v_dim != COLS) return "head_dim and v_dim must be 128";
  if (d->flags & ~(uint32_t)GA_ATTN_LSE || d->window || d->softcap > 0 || d->kv_segments || d->q_stretches)
    return "the ladder has no masks and no features";
  if (d->max_kv == 0) return "max_kv is 0";
  if (!(d->scale > 0)) return "scale must be positive";
  uint64_t heads, tiles;
  const bool small =
      d->max_q <= most && d->max_kv <= most && ga_mul_ok((uint64_t)d->batch, (uint64_t)d->q_heads, &heads) &&
      ga_mul_ok(heads, (uint64_t)ga_div_up(d->max_q, Q_BOX_ROWS), &tiles) && tiles <= (uint64_t)MAX_BLOCKS;
  return small ? NULL : "too many rows";
}

static ga_status check_tensor(ga_stream *stream, const ga_kernel *k, const char *name, const void *p,
                              const ga_attn_strides *s, ga_kstrides *out) {
  const int64_t all[3] = {s->batch, s->token, s->head};
  GA_TRY(cuda_check_pointer(stream, k, name, p, ALIGN_BYTES));
  for (int i = 0; i < 3; i++)
    GA_REQUIRE(all[i] >= 0 && all[i] % ALIGN_ELEMS == 0, GA_ERR_ARG,
               "%s: a stride of %s is %lld; must be a multiple of %d", k->id, name, (long long)all[i], ALIGN_ELEMS);
  *out = (ga_kstrides){.batch = s->batch, .token = s->token, .head = s->head};
  return GA_OK;
}

/* (column, row, head, batch). The stride of a dimension of one element is never used; it must be legal all the same. */
static ga_status encode_tensor(ga_stream *stream, const ga_kernel *k, const void *data, const ga_kstrides *s,
                               const uint64_t dims[4], uint32_t box_rows, ga_tmap *out) {
  const cuda_device *d = cuda_device_of(stream);
  const int64_t elems[3] = {s->token, s->head, s->batch};
  const uint32_t box[4] = {PANEL_COLS, box_rows, 1, 1}, ones[4] = {1, 1, 1, 1};
  uint64_t bytes[3];
  for (int i = 0; i < 3; i++) bytes[i] = dims[i + 1] == 1 ? ALIGN_BYTES : 2 * (uint64_t)elems[i];
  void *base;
  memcpy(&base, &data, sizeof base); /* the driver's prototype lacks const */
  CUresult rc =
      d->cu->TensorMapEncodeTiled(out, CU_TMAP_BFLOAT16, 4, base, dims, bytes, box, ones, CU_TMAP_INTERLEAVE_NONE,
                                  CU_TMAP_SWIZZLE_128B, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  if (rc == CUDA_SUCCESS) return GA_OK;
  return ga_fail_in(ga_cu_fail(d->cu, rc, "cuTensorMapEncodeTiled"), "%s", k->id);
}

static ga_status encode_all(ga_stream *stream, const ga_kernel *k, const ga_attn_desc *d, ga_kargs_ladder *a) {
  const uint64_t q[4] = {COLS, (uint64_t)d->max_q, (uint64_t)d->q_heads, (uint64_t)d->batch};
  const uint64_t kv[4] = {COLS, (uint64_t)d->max_kv, (uint64_t)d->kv_heads, (uint64_t)d->batch};
  GA_TRY(encode_tensor(stream, k, a->q, &a->q_stride, q, Q_BOX_ROWS, &a->q_map));
  GA_TRY(encode_tensor(stream, k, a->k, &a->k_stride, kv, KV_BOX_ROWS, &a->k_map));
  return encode_tensor(stream, k, a->v, &a->v_stride, kv, KV_BOX_ROWS, &a->v_map);
}

ga_status cuda_ladder(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_attn_desc *d = desc;
  const ga_attn_io *a = io;
  const cuda_ladder_variant *v = k->impl;
  ga_kargs_ladder args;
  if (d->batch == 0 || d->max_q == 0) return GA_OK;
  memset(&args, 0, sizeof args);
  GA_TRY(check_tensor(stream, k, "q", a->q, &a->q_stride, &args.q_stride));
  GA_TRY(check_tensor(stream, k, "k", a->k, &a->k_stride, &args.k_stride));
  GA_TRY(check_tensor(stream, k, "v", a->v, &a->v_stride, &args.v_stride));
  GA_TRY(check_tensor(stream, k, "o", a->o, &a->o_stride, &args.o_stride));
  GA_TRY(cuda_check_pointer(stream, k, "lse", a->lse, sizeof(float)));
  args.q = a->q;
  args.k = a->k;
  args.v = a->v;
  args.o = a->o;
  args.lse = d->flags & GA_ATTN_LSE ? a->lse : NULL;
  args.rows_q = (int32_t)d->max_q;
  args.rows_k = (int32_t)d->max_kv;
  args.heads_q = d->q_heads;
  args.group = d->q_heads / d->kv_heads;
  args.tiles = (int32_t)ga_div_up(d->max_q, v->bm);
  args.scale = d->scale;
  args.scale_log2 = d->scale * LOG2E;
  if (v->maps) GA_TRY(encode_all(stream, k, d, &args));
  const cuda_launch l = {.grid = {(uint32_t)(args.tiles * d->batch * d->q_heads), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .shared_bytes = v->base.shared_bytes};
  return cuda_enqueue(stream, k, &l, &args);
}
