#include "cuda/kern/attn_bwd/attn_bwd_sm90a.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "core/cost.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"
#include "cuda/rt/costs.h"
#include "opdef/attn.h"
#include "opdef/attn_rows.h"

#define LOG2E         1.44269504f /* log2 e */
#define FEW_KEYS      512         /* measured: docs/log/attention-bwd.md */
#define FEW_KEYS_GAIN 0.94
/* Rows that take all keys of a head: chosen before others where they pay. */
#define KV_RESIDENT_GAIN    0.92
#define MISFIT              1.5
#define MOVED               150 /* keys: see kv_resident_pays */
#define DETERMINISTIC_COSTS 8   /* a fixed order of blocks takes a part of this more */
#define UNEVEN              4   /* KV heads a multiprocessor from which sequences of different lengths even out */
#define TILE_ROWS           128 /* of K and V */
#define PANEL_COLS          64  /* columns of a box: 128 bytes, the width of the swizzle */
#define ACC_COLS            256 /* floats of a line of the accumulator's map */
#define ALIGN_BYTES         16  /* of addresses and strides, for tensor maps and 16-byte accesses */
#define ALIGN_ELEMS         8
#define WORKSPACE_ALIGN     256

/* --- what a row can do --- */

static const char *mask_ok(const ga_attn_bwd_desc *d, const cuda_attn_bwd_variant *v) {
  if (v->features & ATTN_BWD_SM90A_EXTRAS) return NULL; /* takes any mask as a window */
  if (d->flags & GA_ATTN_VARLEN) return "compiled without packed sequences";
  if (d->flags & GA_ATTN_ALIBI) return "compiled without ALiBi";
  if (d->softcap > 0) return "compiled without soft-cap";
  const cuda_attn_mask mask = d->window                   ? CUDA_ATTN_MASK_WINDOW
                              : d->flags & GA_ATTN_CAUSAL ? CUDA_ATTN_MASK_CAUSAL
                                                          : CUDA_ATTN_MASK_FULL;
  return mask == v->mask ? NULL : "compiled for another mask";
}

/* Row, block and tile indices are 32-bit, with room for a tile and a window behind the last. */
static bool fits_int32(const ga_attn_bwd_desc *d) {
  const int64_t most = (int64_t)1 << 28;
  uint64_t heads, rows;
  return d->max_q <= most && d->max_kv <= most && d->total_q <= most && d->total_kv <= most && d->window <= most &&
         ga_mul_ok((uint64_t)d->batch, (uint64_t)d->q_heads, &heads) && heads <= (uint64_t)most &&
         ga_mul_ok(heads, (uint64_t)ga_max_i64(d->max_q, d->max_kv), &rows) && rows / 64 <= (uint64_t)most;
}

const char *cuda_attn_bwd_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_attn_bwd_desc *d = desc;
  const cuda_attn_bwd_variant *v = k->impl;
  if (d->dtype != (int32_t)k->dtype[0]) return "dtype is another";
  if (d->head_dim > v->d || d->v_dim > v->dv) return "head_dim or v_dim is larger";
  if (d->head_dim % ALIGN_ELEMS || d->v_dim % ALIGN_ELEMS) return "head_dim and v_dim must be multiples of 8";
  if (!(d->scale > 0)) return "scale must be positive";
  if (!fits_int32(d)) return "too many rows";
  if (d->flags & GA_ATTN_BWD_DETERMINISTIC && !v->deterministic) return "adds dQ in no fixed order";
  return mask_ok(d, v);
}

/* KV heads one after the other on each multiprocessor take 1 / share of the time of even work; other forms move three
 * times dQ in f32 (zeros, the sum, its conversion), as much time as MOVED keys take (causal: twice; estimated by
 * bytes), and a fixed order of many blocks waits. The sums must stay in L2: of 50 MB, 17 did (D = 64, 512 keys: 1.23 x
 * other forms), 34 did not (D = 128, 512: 0.90 x), nor did 69 (D = 64, 2048: 0.70 x). */
static bool kv_resident_pays(const ga_attn_bwd_desc *d, const cuda_attn_bwd_variant *v, const ga_caps *caps) {
  const int64_t sms = caps->sms, units = d->batch * d->kv_heads, keys = ga_max_i64(1, d->max_kv);
  const int64_t more = (d->flags & GA_ATTN_CAUSAL ? 2 : 1) * MOVED +
                       (d->flags & GA_ATTN_BWD_DETERMINISTIC ? keys / DETERMINISTIC_COSTS : 0);
  const int64_t sums =
      ga_min_i64(sms, units) * (d->q_heads / d->kv_heads) * d->max_q * v->d * 4; /* bytes of dQ at a time */
  if (sums > (int64_t)(caps->l2_bytes / 8 * 3) || (v->features & ATTN_BWD_SM90A_EXTRAS && units < UNEVEN * sms))
    return false;
  return (double)units * (double)(keys + more) >= (double)(ga_div_up(units, sms) * sms) * (double)keys;
}

/* Heads of dim and v_dim. A tile of keys costs tile_us before and behind its
 * queries. */
static double bwd_us(const ga_attn_bwd_desc *d, int32_t dim, int32_t v_dim, double tile_us, const ga_caps *caps) {
  const cuda_costs *c = cuda_costs_of(caps);
  const double pair_us = 1e-3 * c->attn_bwd_pair_dim_ns * (dim + v_dim);
  const double heads = (double)d->batch * d->q_heads, tiles = heads * (double)ga_div_up(d->max_kv, TILE_ROWS);
  const double pairs = heads * ga_attn_pairs(d->max_q, d->max_kv, d->flags & GA_ATTN_CAUSAL, d->window);
  return c->attn_bwd_launches_us +
         (pairs * pair_us + tiles * (tile_us + c->attn_bwd_tile_dim_us * (dim + v_dim))) / fmax(caps->sms, 1);
}

double cuda_attn_bwd_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_bwd_desc *d = desc;
  const cuda_attn_bwd_variant *v = k->impl;
  const cuda_costs *c = cuda_costs_of(caps);
  const double us =
      bwd_us(d, v->d, v->dv, v->cluster2 ? c->attn_bwd_cluster_tile_us : c->attn_bwd_tile_us, caps) * 100 / k->speed;
  /* Forms that need neither zeros nor a conversion are faster where keys are few. */
  const bool few = d->max_kv <= FEW_KEYS && (ga_max_i64(d->head_dim, d->v_dim) > 64 || d->flags & GA_ATTN_CAUSAL);
  if (v->deterministic == CUDA_ATTN_BWD_KV_RESIDENT)
    return us * (kv_resident_pays(d, v, caps) ? KV_RESIDENT_GAIN : MISFIT);
  return v->deterministic && few && !v->cluster2 ? us * FEW_KEYS_GAIN : us;
}

double cuda_attn_bwd_fallback_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const int32_t dim = ((const cuda_attn_bwd_fallback_variant *)k->impl)->d;
  return bwd_us(desc, dim, dim, cuda_costs_of(caps)->attn_bwd_tile_us, caps) * 100 / k->speed;
}

/* --- workspace --- */

typedef struct bwd_space {
  int64_t pairs, blocks;                           /* (batch, query head); blocks of 64 rows of one */
  int64_t acc_blocks;                              /* blocks of dQ in f32 */
  uint64_t stat, acc, dq_semaphore, ticket, bytes; /* offsets, and all of it */
} bwd_space;

/* Blocks of threads of the main kernel. */
static int64_t blocks_of(const ga_attn_bwd_desc *d, const cuda_attn_bwd_variant *v, int32_t sms) {
  const int64_t heads = d->batch * d->kv_heads, tiles = heads * ga_div_up(d->max_kv, TILE_ROWS);
  if (v->cluster2) return 2 * tiles;
  return v->deterministic == CUDA_ATTN_BWD_KV_RESIDENT ? ga_min_i64(heads, sms) : tiles;
}

static int32_t dq_semaphores_of(const cuda_attn_bwd_variant *v) {
  return v->cluster2 ? GA_KBWD_CLUSTER2_SEMAPHORES : 1;
}

/* The main kernel itself: needs neither zeros nor attn_bwd_post. */
static bool writes_dq(const cuda_attn_bwd_variant *v) { return v->deterministic && !v->cluster2; }

static bwd_space space_of(const ga_attn_bwd_desc *d, const cuda_attn_bwd_variant *v, int32_t sms) {
  const int64_t steps = ga_max_i64(1, ga_div_up(d->max_q, v->rows)); /* whole ones: stat says which rows exist */
  bwd_space s = {.pairs = d->batch * d->q_heads, .blocks = steps * (v->rows / GA_KBWD_ROWS)};
  const uint64_t blocks = (uint64_t)(s.pairs * s.blocks), row = GA_KBWD_ROWS * sizeof(float);
  s.acc = ga_round_up(blocks * 2 * row, WORKSPACE_ALIGN);
  s.acc_blocks = v->deterministic == CUDA_ATTN_BWD_KV_RESIDENT
                     ? blocks_of(d, v, sms) * (d->q_heads / d->kv_heads) * s.blocks
                     : (int64_t)blocks;
  s.dq_semaphore = s.acc + ga_round_up((uint64_t)s.acc_blocks * row * (uint64_t)v->d, WORKSPACE_ALIGN);
  s.ticket =
      s.dq_semaphore + (v->deterministic == 1
                            ? ga_round_up(blocks * (uint64_t)dq_semaphores_of(v) * sizeof(int32_t), WORKSPACE_ALIGN)
                            : 0);
  s.bytes = s.ticket + (v->deterministic ? WORKSPACE_ALIGN : 0);
  return s;
}

/* --- arguments --- */

static ga_status check_tensor(ga_stream *stream, const ga_kernel *k, const char *name, const void *p,
                              const ga_attn_strides *s) {
  const int64_t all[3] = {s->batch, s->token, s->head};
  static const char *const names[3] = {"batch", "token", "head"};
  GA_TRY(cuda_check_pointer(stream, k, name, p, ALIGN_BYTES));
  for (int i = 0; i < 3; i++)
    GA_REQUIRE(all[i] >= 0 && all[i] % ALIGN_ELEMS == 0 && all[i] < (int64_t)1 << 38, GA_ERR_ARG,
               "%s: %s_stride.%s is %lld; must be a multiple of %d, 0 to 2^38", k->id, name, names[i],
               (long long)all[i], ALIGN_ELEMS);
  return GA_OK;
}

static ga_status check_tensors(ga_stream *stream, const ga_kernel *k, const ga_attn_bwd_io *a) {
#define TENSOR(name) GA_TRY(check_tensor(stream, k, #name, a->name, &a->name##_stride))
#define FLOATS(name) GA_TRY(cuda_check_pointer(stream, k, #name, a->name, sizeof(float)))
  TENSOR(q);
  TENSOR(k);
  TENSOR(v);
  TENSOR(o);
  TENSOR(dout);
  TENSOR(dq);
  TENSOR(dk);
  TENSOR(dv);
  FLOATS(lse);
  FLOATS(sinks);
  FLOATS(alibi);
  FLOATS(dsinks);
  FLOATS(q_start);
  FLOATS(kv_start);
  FLOATS(q_len);
  FLOATS(kv_len);
  return GA_OK;
}

typedef struct view {
  const char *name;
  const void *data;
  int type;
  uint64_t dims[4]; /* column, row, head, batch */
  int64_t strides[3];
  uint32_t box_cols, box_rows, swizzle;
} view;

/* A dimension of one element may have any stride in memory; the map's must be legal all the same. */
static ga_status encode_tensor(const cuda_device *d, const ga_kernel *k, const view *t, ga_tmap *out) {
  const uint32_t box[4] = {t->box_cols, t->box_rows, 1, 1}, ones[4] = {1, 1, 1, 1};
  const uint64_t each = t->type == CU_TMAP_FLOAT32 ? 4 : 2;
  uint64_t bytes[3];
  for (int i = 0; i < 3; i++) bytes[i] = t->dims[i + 1] == 1 ? ALIGN_BYTES : each * (uint64_t)t->strides[i];
  void *base;
  memcpy(&base, &t->data, sizeof base); /* the driver's prototype lacks const */
  CUresult rc = d->cu->TensorMapEncodeTiled(out, t->type, 4, base, t->dims, bytes, box, ones, CU_TMAP_INTERLEAVE_NONE,
                                            (int)t->swizzle, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  if (rc == CUDA_SUCCESS) return GA_OK;
  return ga_fail_in(ga_cu_fail(d->cu, rc, "cuTensorMapEncodeTiled"), "%s: %s", k->id, t->name);
}

static ga_status encode_rows(const cuda_device *d, const ga_kernel *k, const ga_attn_bwd_desc *p, const char *name,
                             const void *data, const ga_attn_strides *s, bool kv, int32_t cols, ga_tmap *out) {
  const bool varlen = p->flags & GA_ATTN_VARLEN;
  const int64_t rows = varlen ? kv ? p->total_kv : p->total_q : kv ? p->max_kv : p->max_q;
  const view t = {.name = name,
                  .data = data,
                  .type = p->dtype == GA_F16 ? CU_TMAP_FLOAT16 : CU_TMAP_BFLOAT16,
                  .dims = {(uint64_t)cols, (uint64_t)rows, (uint64_t)(kv ? p->kv_heads : p->q_heads),
                           varlen ? 1 : (uint64_t)p->batch},
                  .strides = {s->token, s->head, s->batch},
                  .box_cols = PANEL_COLS,
                  .box_rows = GA_KBWD_ROWS,
                  .swizzle = CU_TMAP_SWIZZLE_128B};
  return encode_tensor(d, k, &t, out);
}

static ga_status encode_all(const cuda_device *d, const ga_kernel *k, const ga_attn_bwd_desc *p,
                            const ga_attn_bwd_io *a, const bwd_space *s, const char *workspace,
                            ga_kargs_attn_bwd *out) {
  const int64_t padded = s->blocks * GA_KBWD_ROWS;
  const view stat = {.name = "stat",
                     .data = workspace + s->stat,
                     .type = CU_TMAP_FLOAT32,
                     .dims = {(uint64_t)padded, 2, (uint64_t)p->q_heads, (uint64_t)p->batch},
                     .strides = {padded, 2 * padded, 2 * padded * p->q_heads},
                     .box_cols = PANEL_COLS,
                     .box_rows = 2,
                     .swizzle = CU_TMAP_SWIZZLE_NONE};
  GA_TRY(encode_rows(d, k, p, "q", a->q, &a->q_stride, false, p->head_dim, &out->q));
  GA_TRY(encode_rows(d, k, p, "dout", a->dout, &a->dout_stride, false, p->v_dim, &out->dout));
  GA_TRY(encode_rows(d, k, p, "k", a->k, &a->k_stride, true, p->head_dim, &out->k));
  GA_TRY(encode_rows(d, k, p, "v", a->v, &a->v_stride, true, p->v_dim, &out->v));
  GA_TRY(encode_tensor(d, k, &stat, &out->stat));
  const cuda_attn_bwd_variant *v = k->impl;
  const view acc = {.name = "acc",
                    .data = workspace + s->acc,
                    .type = CU_TMAP_FLOAT32,
                    .dims = {ACC_COLS, (uint64_t)(s->acc_blocks * GA_KBWD_ROWS * v->d / ACC_COLS), 1, 1},
                    .strides = {ACC_COLS, 0, 0},
                    .box_cols = ACC_COLS,
                    .box_rows = (uint32_t)(v->rows * v->d / ACC_COLS),
                    .swizzle = CU_TMAP_SWIZZLE_NONE};
  return encode_tensor(d, k, &acc, &out->acc_map);
}

float cuda_attn_bwd_scale_alone(const ga_attn_bwd_desc *d) {
  const uint32_t more = (uint32_t)GA_ATTN_SINKS | GA_ATTN_BWD_ADDS;
  return d->flags & more ? d->scale : 0;
}

/* Returns the factor of dQ and dK of sequences with max_kv keys. */
static float scale_of_longest(const ga_attn_bwd_desc *d) {
  return d->max_kv == 1 ? cuda_attn_bwd_scale_alone(d) : d->scale;
}

ga_kbwd_tensor cuda_attn_bwd_tensor(const void *p, const ga_attn_strides *s) {
  ga_kbwd_tensor t = {.row = s->token, .head = s->head, .batch = s->batch};
  memcpy(&t.base, &p, sizeof p); /* inputs are read only */
  return t;
}

/* --- the steps --- */

typedef struct call {
  const ga_kernel *k;
  const ga_attn_bwd_desc *d;
  const ga_attn_bwd_io *a;
  bwd_space s;
  char *workspace;
  ga_stream *stream;
} call;

ga_status cuda_attn_bwd_step(const ga_kernel *step, int64_t blocks, bool dependent, const void *args,
                             ga_stream *stream) {
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1},
                         .block = {((const cuda_variant *)step->impl)->threads, 1, 1},
                         .dependent = dependent};
  return cuda_enqueue(stream, step, &l, args);
}

static call call_of(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  return (call){.k = k,
                .d = desc,
                .a = io,
                .s = space_of(desc, k->impl, stream->device->caps.sms),
                .workspace = workspace,
                .stream = stream};
}

const int32_t *cuda_attn_bwd_lengths(const ga_attn_bwd_desc *d, const int32_t *p) {
  return d->flags & GA_ATTN_LENGTHS ? p : NULL;
}

static const int32_t *starts(const ga_attn_bwd_desc *d, const int32_t *p) {
  return d->flags & GA_ATTN_VARLEN ? p : NULL;
}

static int32_t *ticket_of(const call *c) {
  const cuda_attn_bwd_variant *v = c->k->impl;
  return v->deterministic ? (int32_t *)(void *)(c->workspace + c->s.ticket) : NULL;
}

static ga_status run_pre(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                         ga_stream *stream) {
  const call all = call_of(step->chosen, desc, io, workspace, stream), *c = &all;
  const cuda_attn_bwd_variant *v = c->k->impl;
  GA_TRY(check_tensors(stream, c->k, c->a));
  const ga_kargs_attn_bwd_pre args = {
      .o = cuda_attn_bwd_tensor(c->a->o, &c->a->o_stride),
      .dout = cuda_attn_bwd_tensor(c->a->dout, &c->a->dout_stride),
      .lse = c->a->lse,
      .cu_q = starts(c->d, c->a->q_start),
      .stat = (float *)(void *)(c->workspace + c->s.stat),
      .cu_k = starts(c->d, c->a->kv_start),
      .acc = writes_dq(v) ? NULL : (float *)(void *)(c->workspace + c->s.acc),
      .dq_semaphore = v->deterministic == 1 ? (int32_t *)(void *)(c->workspace + c->s.dq_semaphore) : NULL,
      .ticket = ticket_of(c),
      .dq_semaphores = dq_semaphores_of(v),
      .heads_q = c->d->q_heads,
      .rows_q = (int32_t)c->d->max_q,
      .blocks_q = (int32_t)c->s.blocks,
      .cols_v = c->d->v_dim,
      .acc_cols = v->d,
      .dq = cuda_attn_bwd_tensor(c->a->dq, &c->a->dq_stride),
      .rows_k = (int32_t)c->d->max_kv,
      .window_right = c->d->flags & GA_ATTN_CAUSAL ? 0 : (int32_t)(c->d->max_q + c->d->max_kv),
      .cols_k = c->d->head_dim,
      .out_f32 = c->d->grad_dtype == GA_F32,
      .add_dq = (c->d->flags & GA_ATTN_BWD_ADD_DQ) != 0,
      .q_len = cuda_attn_bwd_lengths(c->d, c->a->q_len),
      .kv_len = cuda_attn_bwd_lengths(c->d, c->a->kv_len),
      .lse_stride = c->d->lse_stride};
  return cuda_attn_bwd_step(step->row, c->s.pairs * c->s.blocks, false, &args, stream);
}

static ga_status run_sink(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  const call all = call_of(step->chosen, desc, io, workspace, stream), *c = &all;
  if (c->d->batch == 0) GA_TRY(check_tensors(stream, c->k, c->a)); /* there is no pre */
  const ga_kargs_attn_bwd_sink args = {.stat = (const float *)(const void *)(c->workspace + c->s.stat),
                                       .cu_q = starts(c->d, c->a->q_start),
                                       .sink = c->a->sinks,
                                       .dsink = c->a->dsinks,
                                       .heads_q = c->d->q_heads,
                                       .rows_q = (int32_t)c->d->max_q,
                                       .blocks_q = (int32_t)c->s.blocks,
                                       .batch = (int32_t)c->d->batch,
                                       .add = (c->d->flags & GA_ATTN_BWD_ADD_DKV) != 0,
                                       .q_len = cuda_attn_bwd_lengths(c->d, c->a->q_len)};
  return cuda_attn_bwd_step(step->row, c->d->q_heads, true, &args, stream);
}

static ga_status run_post(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  const call all = call_of(step->chosen, desc, io, workspace, stream), *c = &all;
  const ga_kargs_attn_bwd_post args = {.acc = (const float *)(const void *)(c->workspace + c->s.acc),
                                       .dq = cuda_attn_bwd_tensor(c->a->dq, &c->a->dq_stride),
                                       .cu_q = starts(c->d, c->a->q_start),
                                       .heads_q = c->d->q_heads,
                                       .rows_q = (int32_t)c->d->max_q,
                                       .blocks_q = (int32_t)c->s.blocks,
                                       .cols_k = c->d->head_dim,
                                       .out_f32 = c->d->grad_dtype == GA_F32,
                                       .add_dq = (c->d->flags & GA_ATTN_BWD_ADD_DQ) != 0,
                                       .scale = scale_of_longest(c->d),
                                       .q_len = cuda_attn_bwd_lengths(c->d, c->a->q_len),
                                       .cu_k = starts(c->d, c->a->kv_start),
                                       .kv_len = cuda_attn_bwd_lengths(c->d, c->a->kv_len),
                                       .scale_alone = cuda_attn_bwd_scale_alone(c->d)};
  return cuda_attn_bwd_step(step->row, c->s.pairs * c->s.blocks, true, &args, stream);
}

/* --- the main kernel --- */

/* Causal order takes the longest tiles first inside a section of heads whose Q, dO and dQ stay in L2 together. */
static int32_t heads_a_section(const ga_attn_bwd_desc *p) {
  const int64_t l2_share = (int64_t)8 << 20, group = p->q_heads / p->kv_heads;
  const int64_t head_bytes = ga_max_i64(1, p->max_q * group * (p->head_dim * 6 + p->v_dim * 2));
  return (int32_t)ga_min_i64(ga_max_i64(l2_share / head_bytes, 1), ga_max_i64(1, p->batch * p->kv_heads));
}

/* Of the last section: with fewer heads its longest tile, taken first, would end behind all others (in a fixed order
 * the longest is taken last in any case). Whole sections come before. */
static int32_t heads_of_last(const ga_kargs_attn_bwd *a, const cuda_attn_bwd_variant *v, int32_t sms) {
  const int64_t together = v->cluster2 ? sms / 2 : sms,
                even = v->deterministic == 1 ? 1 : ga_div_up(2 * together, a->tiles_k + 1);
  const int64_t wanted = ga_min_i64(a->heads_total, even);
  return (int32_t)(a->heads_total - (a->heads_total - wanted) / a->heads_per_section * a->heads_per_section);
}

static void fill_masks(const ga_attn_bwd_desc *p, ga_kargs_attn_bwd *out) {
  const int32_t all = (int32_t)(p->max_q + p->max_kv);
  out->window_left = p->window ? p->window - 1 : all;
  out->window_right = p->flags & GA_ATTN_CAUSAL ? 0 : all;
  out->scale = scale_of_longest(p);
  out->scale_alone = cuda_attn_bwd_scale_alone(p);
  out->scale_log2 = p->scale * LOG2E;
  out->features = (p->flags & GA_ATTN_ALIBI ? GA_KATTN_ALIBI : 0) | (p->flags & GA_ATTN_VARLEN ? GA_KATTN_VARLEN : 0);
  if (p->softcap <= 0) return;
  out->features |= GA_KATTN_SOFTCAP;
  out->softcap_in = 2 * LOG2E * p->scale / p->softcap;
  out->softcap_out = p->softcap * LOG2E;
}

static void fill_work(const call *c, ga_kargs_attn_bwd *out) {
  const ga_attn_bwd_desc *p = c->d;
  const cuda_attn_bwd_variant *v = c->k->impl;
  out->dk = cuda_attn_bwd_tensor(c->a->dk, &c->a->dk_stride);
  out->dv = cuda_attn_bwd_tensor(c->a->dv, &c->a->dv_stride);
  out->dq = cuda_attn_bwd_tensor(c->a->dq, &c->a->dq_stride);
  out->acc = (float *)(void *)(c->workspace + c->s.acc);
  out->dq_semaphore = v->deterministic == 1 ? (int32_t *)(void *)(c->workspace + c->s.dq_semaphore) : NULL;
  out->ticket = ticket_of(c);
  out->cu_q = starts(p, c->a->q_start);
  out->cu_k = starts(p, c->a->kv_start);
  out->q_len = cuda_attn_bwd_lengths(p, c->a->q_len);
  out->kv_len = cuda_attn_bwd_lengths(p, c->a->kv_len);
  out->slope = c->a->alibi;
  out->heads_q = p->q_heads;
  out->heads_k = p->kv_heads;
  out->group = p->q_heads / p->kv_heads;
  out->rows_q = (int32_t)p->max_q;
  out->rows_k = (int32_t)p->max_kv;
  out->blocks_q = (int32_t)(c->s.blocks * GA_KBWD_ROWS / v->rows);
  out->tiles_k = (int32_t)ga_div_up(p->max_kv, TILE_ROWS);
  out->heads_total = (int32_t)(p->batch * p->kv_heads);
  out->heads_per_section = heads_a_section(p);
  out->heads_last = heads_of_last(out, v, c->stream->device->caps.sms);
  out->cols_k = p->head_dim;
  out->cols_v = p->v_dim;
  out->out_f32 = p->grad_dtype == GA_F32;
  out->add_dq = (p->flags & GA_ATTN_BWD_ADD_DQ) != 0;
  out->add_dkv = (p->flags & GA_ATTN_BWD_ADD_DKV) != 0;
}

static ga_status run_main(const call *c, const ga_kargs_attn_bwd *args) {
  const cuda_attn_bwd_variant *v = c->k->impl;
  const cuda_launch l = {.grid = {(uint32_t)blocks_of(c->d, v, c->stream->device->caps.sms), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .cluster = {v->cluster2 ? 2 : 0, v->cluster2 ? 1 : 0, v->cluster2 ? 1 : 0},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(c->stream, c->k, &l, args);
}

/* No keys or no queries: tensor maps take no empty dimension. Everything that exists is still to be written. */
static bool empty(const ga_attn_bwd_desc *d, bool kv) {
  const bool varlen = d->flags & GA_ATTN_VARLEN;
  return kv ? d->max_kv == 0 || (varlen && d->total_kv == 0) : d->max_q == 0 || (varlen && d->total_q == 0);
}

ga_status cuda_attn_bwd(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const call c = call_of(k, desc, io, workspace, stream);
  ga_kargs_attn_bwd args;
  memset(&args, 0, sizeof args);
  if (!empty(c.d, false)) GA_TRY(encode_all(cuda_device_of(stream), k, c.d, c.a, &c.s, workspace, &args));
  fill_work(&c, &args);
  fill_masks(c.d, &args);
  return run_main(&c, &args); /* without queries it writes zeros */
}

/* --- the plan --- */

const char *cuda_attn_bwd_first_steps(const ga_kernel *pre, const ga_kernel *sink, const ga_attn_bwd_desc *d,
                                      ga_plan_step_launch launch_pre, ga_plan_step_launch launch_sink,
                                      ga_plan_steps *steps) {
  const char *why = d->batch > 0 ? ga_plan_steps_add(steps, pre, launch_pre, 0) : NULL;
  if (!why && d->flags & GA_ATTN_SINKS) why = ga_plan_steps_add(steps, sink, launch_sink, 0);
  return why;
}

const char *cuda_attn_bwd_plan(const ga_kernel *k, const void *desc, ga_plan_steps *steps) {
  const ga_attn_bwd_desc *d = desc;
  const cuda_attn_bwd_variant *v = k->impl;
  steps->workspace_bytes = space_of(d, v, steps->device->caps.sms).bytes;
  const char *why = cuda_attn_bwd_first_steps(v->pre, v->sink, d, run_pre, run_sink, steps);
  if (!why && d->batch > 0 && !empty(d, true)) why = ga_plan_steps_add(steps, k, NULL, 0);
  if (!why && d->batch > 0 && !writes_dq(v)) why = ga_plan_steps_add(steps, v->post, run_post, 0);
  return why;
}
