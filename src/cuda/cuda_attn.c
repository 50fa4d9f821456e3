#include "cuda/cuda_attn.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "core/kargs_attn.h"

#define LOG2E 1.44269504f /* log2 e */
#define PANEL_COLS 64     /* columns of a box: 128 bytes, the width of the swizzle */
#define ALIGN_BYTES 16    /* of addresses and strides, for tensor maps and 16-byte stores */
#define ALIGN_ELEMS 8
#define O_BOX_ROWS 16

/* --- what a row can do --- */

static const char *features_ok(const ga_attn_desc *d, const cuda_attn_variant *v) {
  if (d->flags & GA_ATTN_PAGED) return "pages are not supported";
  if (d->flags & GA_ATTN_VARLEN) return "packed sequences are not supported";
  if (d->flags & GA_ATTN_SINKS && !v->features) return "compiled without sinks";
  if (d->flags & GA_ATTN_ALIBI && !v->features) return "compiled without ALiBi";
  if (d->flags & GA_ATTN_ALIBI && !(d->flags & GA_ATTN_CAUSAL)) return "ALiBi needs a causal mask";
  if (d->softcap > 0 && !v->features) return "compiled without soft-cap";
  return NULL;
}

static const char *mask_ok(const ga_attn_desc *d, const cuda_attn_variant *v) {
  const cuda_attn_mask mask = d->window ? CUDA_ATTN_window : d->flags & GA_ATTN_CAUSAL ? CUDA_ATTN_causal : CUDA_ATTN_full;
  return mask == v->mask ? NULL : "compiled for another mask";
}

/* Row indices are 32-bit, with room for a tile and a window behind the last. */
static bool small(const ga_attn_desc *d) {
  const int64_t most = (int64_t)1 << 28;
  uint64_t heads, tiles;
  return d->max_q <= most && d->max_kv <= most && ga_mul_ok((uint64_t)d->batch, (uint64_t)d->q_heads, &heads) &&
         ga_mul_ok(heads, (uint64_t)d->max_q, &tiles) && heads <= (uint64_t)most && tiles / 64 <= (uint64_t)most;
}

const char *cuda_attn_fwd_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_attn_desc *d = desc;
  const cuda_attn_variant *v = k->impl;
  const int32_t dtype = (int32_t)k->dtype[0];
  if (d->q_dtype != dtype || d->kv_dtype != dtype || d->o_dtype != dtype) return "q, kv and o must be of its dtype";
  if (d->head_dim > v->d || d->v_dim > v->dv) return "head_dim or v_dim is larger";
  if (d->head_dim % ALIGN_ELEMS || d->v_dim % ALIGN_ELEMS) return "head_dim and v_dim must be multiples of 8";
  if (d->max_kv == 0) return "max_kv is 0";
  if (!(d->scale > 0)) return "scale must be positive";
  if (!small(d)) return "too many rows";
  if (v->resident && ga_div_up(d->max_kv, v->bn) > v->stages) return "max_kv is too long to stay in shared memory";
  const char *why = mask_ok(d, v);
  return why ? why : features_ok(d, v);
}

/* --- arguments --- */

static ga_status check_strides(const ga_kernel *k, const char *name, const ga_attn_strides *s) {
  const int64_t all[3] = {s->batch, s->token, s->head};
  static const char *const names[3] = {"batch", "token", "head"};
  for (int i = 0; i < 3; i++)
    GA_REQUIRE(all[i] >= 0 && all[i] % ALIGN_ELEMS == 0 && all[i] < (int64_t)1 << 38, GA_ERR_ARG,
               "%s: %s_stride.%s is %lld; must be a multiple of %d, 0 to 2^38", k->id, name, names[i], (long long)all[i], ALIGN_ELEMS);
  return GA_OK;
}

static ga_status check_tensor(ga_stream *stream, const ga_kernel *k, const char *name, const void *p, const ga_attn_strides *s) {
  GA_TRY(cuda_check_pointer(stream, k, name, p, ALIGN_BYTES));
  return check_strides(k, name, s);
}

static ga_status check_io(ga_stream *stream, const ga_kernel *k, const ga_attn_io *a) {
  GA_TRY(check_tensor(stream, k, "q", a->q, &a->q_stride));
  GA_TRY(check_tensor(stream, k, "k", a->k, &a->k_stride));
  GA_TRY(check_tensor(stream, k, "v", a->v, &a->v_stride));
  GA_TRY(check_tensor(stream, k, "o", a->o, &a->o_stride));
  GA_TRY(cuda_check_pointer(stream, k, "lse", a->lse, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "sinks", a->sinks, sizeof(float)));
  return cuda_check_pointer(stream, k, "alibi", a->alibi, sizeof(float));
}

typedef struct view {
  const char *name;
  const void *data;
  const ga_attn_strides *stride;
  int64_t cols, rows, heads, batch;
  uint32_t box_rows;
} view;

/* (column, row, head, batch). The stride of a dimension of one element is never used; it must be legal all the same. */
static ga_status encode(const cuda_device *d, const ga_kernel *k, const view *t, ga_tmap *out) {
  const uint64_t dims[4] = {(uint64_t)t->cols, (uint64_t)t->rows, (uint64_t)t->heads, (uint64_t)t->batch};
  const int64_t elems[3] = {t->stride->token, t->stride->head, t->stride->batch};
  const uint32_t box[4] = {PANEL_COLS, t->box_rows, 1, 1}, ones[4] = {1, 1, 1, 1};
  const int type = k->dtype[0] == GA_F16 ? CU_TMAP_FLOAT16 : CU_TMAP_BFLOAT16;
  uint64_t bytes[3];
  for (int i = 0; i < 3; i++) bytes[i] = dims[i + 1] == 1 ? ALIGN_BYTES : 2 * (uint64_t)elems[i];
  void *base;
  memcpy(&base, &t->data, sizeof base); /* the driver's prototype lacks const */
  CUresult rc = d->cu->TensorMapEncodeTiled(out, type, 4, base, dims, bytes, box, ones, CU_TMAP_INTERLEAVE_NONE, CU_TMAP_SWIZZLE_128B,
                                            CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  if (rc == CUDA_SUCCESS) return GA_OK;
  return ga_fail_in(ga_cu_fail(d->cu, rc, "cuTensorMapEncodeTiled"), "%s: %s", k->id, t->name);
}

static ga_status encode_all(const cuda_device *d, const ga_kernel *k, const ga_attn_desc *p, const ga_attn_io *a,
                            ga_kargs_attn_fwd *out) {
  const cuda_attn_variant *variant = k->impl;
  const uint32_t q_rows = (uint32_t)variant->q_rows, kv_rows = (uint32_t)variant->bn;
  const view q = {"q", a->q, &a->q_stride, p->head_dim, p->max_q, p->q_heads, p->batch, q_rows};
  const view key = {"k", a->k, &a->k_stride, p->head_dim, p->max_kv, p->kv_heads, p->batch, kv_rows};
  const view value = {"v", a->v, &a->v_stride, p->v_dim, p->max_kv, p->kv_heads, p->batch, kv_rows};
  const view o = {"o", a->o, &a->o_stride, p->v_dim, p->max_q, p->q_heads, p->batch, O_BOX_ROWS};
  GA_TRY(encode(d, k, &q, &out->q));
  GA_TRY(encode(d, k, &key, &out->k));
  GA_TRY(encode(d, k, &value, &out->v));
  return encode(d, k, &o, &out->o);
}

/* --- work distribution --- */

/* Resident kernels: as many tiles of one head a unit as still fill three quarters of the machine. */
static int32_t tiles_a_unit(int32_t tiles, int32_t heads, int32_t blocks) {
  int32_t unit = tiles;
  while (unit > 1 && (int64_t)heads * (tiles / unit) < (int64_t)blocks * 3 / 4) do unit--;
    while (tiles % unit);
  return unit;
}

/* Causal order takes the longest tiles first inside a section of heads whose K and V stay in L2 together. */
static int32_t heads_a_section(const ga_attn_desc *p, int32_t group, int32_t heads) {
  const int64_t l2_share = (int64_t)(p->max_kv <= 1024 ? 8 : 32) << 20;
  const int64_t head_bytes = p->max_kv * (p->head_dim + p->v_dim) * 2;
  return (int32_t)ga_min_i64(ga_max_i64(l2_share * group / head_bytes, 1), heads);
}

static void fill_work(const cuda_attn_variant *v, const ga_attn_desc *p, int32_t sms, ga_kargs_attn_fwd *out) {
  out->heads_q = p->q_heads;
  out->group = p->q_heads / p->kv_heads;
  out->rows_q = (int32_t)p->max_q;
  out->rows_k = (int32_t)p->max_kv;
  out->heads_total = (int32_t)(p->batch * p->q_heads);
  out->unit_tiles = 1;
  out->tiles_per_head = (int32_t)ga_div_up(p->max_q, v->bm);
  if (v->resident) {
    out->unit_tiles = tiles_a_unit(out->tiles_per_head, out->heads_total, sms * v->blocks);
    out->tiles_per_head /= out->unit_tiles;
  }
  out->tiles = out->tiles_per_head * out->heads_total;
  out->heads_per_section = heads_a_section(p, out->group, out->heads_total);
}

static void fill_rest(const ga_attn_desc *p, const ga_attn_io *a, ga_kargs_attn_fwd *out) {
  out->o_base = a->o;
  out->o_stride_row = a->o_stride.token;
  out->o_stride_head = a->o_stride.head;
  out->o_stride_batch = a->o_stride.batch;
  out->lse = p->flags & GA_ATTN_LSE ? a->lse : NULL;
  out->lse_stride_head = p->max_q;
  out->lse_stride_batch = p->max_q * p->q_heads;
  out->slope = a->alibi;
  out->sink = a->sinks;
  out->cols_v = p->v_dim;
  out->window_left = p->window - 1;
  out->window_right = p->flags & GA_ATTN_CAUSAL ? 0 : (int32_t)(p->max_q + p->max_kv); /* right of it: everything */
  out->scale_log2 = p->scale * LOG2E;
  out->features = (p->flags & GA_ATTN_ALIBI ? GA_KATTN_ALIBI : 0) | (p->flags & GA_ATTN_SINKS ? GA_KATTN_SINK : 0);
  if (p->softcap > 0) {
    out->features |= GA_KATTN_SOFTCAP;
    out->softcap_in = p->scale / p->softcap;
    out->softcap_out = p->softcap * LOG2E;
  }
}

ga_status cuda_attn_fwd(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_attn_desc *p = desc;
  const ga_attn_io *a = io;
  const cuda_attn_variant *v = k->impl;
  const int32_t sms = stream->device->caps.sms;
  ga_kargs_attn_fwd args;
  if (p->batch == 0 || p->max_q == 0) return GA_OK;
  GA_TRY(check_io(stream, k, a));
  memset(&args, 0, sizeof args);
  GA_TRY(encode_all(cuda_device_of(stream), k, p, a, &args));
  fill_work(v, p, sms, &args);
  fill_rest(p, a, &args);
  args.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(args.tiles, (int64_t)sms * v->blocks), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .shared_bytes = v->base.shared_bytes};
  return cuda_enqueue(stream, k, &l, &args);
}
