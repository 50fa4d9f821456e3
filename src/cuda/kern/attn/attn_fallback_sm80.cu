/* KERNEL    attn_fallback, any legal shape, sm_80 and newer: warp-level products, copies by cp.async
 * COMPUTES  O = softmax(Q K^T scale (+ soft-cap, alibi, mask)) V, lse, as ga/attn.h says; one block per (sequence, KV
 *           head, BM packed rows). Packed row r is token r / group, query head r % group: heads that share K and V
 *           share their loads.
 * CONTRACT  bf16 or f16; head dim and value dim 1 to D; any strides and pages; every mask and feature by arguments.
 *           `wide`: 16-byte copies and stores, else element by element. Rows that see no key: o = 0, lse = -inf.
 *           K and V in several segments, and sums (O, m, l) that are carried from launch to launch.
 *           Values that a row does not see cannot affect it. Rows of K and V that the tile does not see are never
 *           read. A row of O that is not finite is recomputed by its definition (row_again), which skips masked
 *           columns. Only such rows pay this cost, rows_k * (cols + cols_v) operations of a warp.
 * DATA      gmem -cp.async-> smem (Q; two blocks of K and V) -ldmatrix-> fragments -mma.sync-> S -> P -mma.sync-> O ->
 *           gmem
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     cp.async of a block of K and V -> its reads; reads of the block before -> the copy
 *                                    of the next over it, which overlaps the products
 * BUDGET    32 WARPS threads, registers for BLOCKS blocks a multiprocessor; smem (BM + 4 BN) D 2 bytes and a tile
 *           record a segment
 * MEASURED  docs/log/attention-sm80.md
 * REF       Dao 2023 (arXiv 2307.08691)
 */
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn/attn_fallback_sm80_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: columns of Q, K, V in shared memory: 64, 128, 256"
#endif
#ifndef GA_P_BM
#error "GA_P_BM: rows of Q per block"
#endif
#ifndef GA_P_BN
#error "GA_P_BN: rows of K and V per step"
#endif
#ifndef GA_P_WARPS
#error "GA_P_WARPS: warps of a block, which share its rows"
#endif
#ifndef GA_P_BLOCKS
#error "GA_P_BLOCKS: blocks per multiprocessor that registers must suffice for"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

enum {
  D = GA_P_D,
  BM = GA_P_BM,
  BN = GA_P_BN,
  THREADS = 32 * GA_P_WARPS,
  WM = BM / GA_P_WARPS / 16, /* 16-row tiles of a warp */
  NS = BN / 2,
  NO = D / 2, /* registers of S, O per 16-row tile */
  CHUNKS = D / 8,
  QREG = WM == 1 && D <= 128, /* Q stays in registers */
  Q_PANEL = BM * PANEL_ROW_BYTES,
  KV_PANEL = BN * PANEL_ROW_BYTES,
  OFF_Q = 0,
  TILE = BN * D * 2,
  OFF_KV = OFF_Q + BM * D * 2,  /* two stages of K and V */
  OFF_TILE = OFF_KV + 4 * TILE, /* a record for each part of K and V */
  TILE_BYTES = 48,
  SMEM_BYTES = OFF_TILE + GA_KATTN_KV_SEGMENTS * TILE_BYTES
};
static_assert(D % 64 == 0 && BN % 16 == 0 && BM == 16 * WM * GA_P_WARPS, "panels of 64 columns, products of 16 rows");
static_assert(THREADS % CHUNKS == 0 && BN % (THREADS / CHUNKS) == 0, "a thread copies one column of chunks");
static_assert(SMEM_BYTES <= 99 * 1024, "shared memory of a block on sm_86 and sm_89");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

#define MMA              GA_CAT(mma_m16n8k16_, GA_P_DTYPE)
#define PACK             GA_CAT(pack_, GA_P_DTYPE)
#define GET              GA_CAT(elem_get_, GA_P_DTYPE)
#define PUT              GA_CAT(elem_put_, GA_P_DTYPE)
#define LN2              0.693147181f /* ln 2 */
#define LOG2E            1.442695041f /* log2 e */
#define FLOAT_MIN_NORMAL 1.17549435e-38f
#define VANISHED         -512.f /* log2 of a weight that is 0 in every type */

typedef const ga_kargs_attn_fallback *args;

/* ------------------------------------------------------------------ the block's tile */
typedef struct {
  args a;
  uint32_t sb;
  int warp, lane, part;
  int batch, head_k, row0, rows; /* first packed row of the block, packed rows of the sequence */
  int rows_k, shift, start_q,
      start_k;                /* of the part; token i stands at key i + shift; first tokens in packed tensors */
  int lo, hi, all_lo, all_hi; /* keys that some row of the tile sees: [lo, hi); that all see */
} tile;

GA_DEV int imin(int a, int b) { return a < b ? a : b; }
GA_DEV int imax(int a, int b) { return a > b ? a : b; }

/* Keys that token i sees: [key_lo, key_hi). */
GA_DEV int key_lo(const tile *t, int i) { return t->a->window ? imax(0, i + t->shift - t->a->window + 1) : 0; }
GA_DEV int key_hi(const tile *t, int i) { return t->a->causal ? imin(t->rows_k, i + t->shift + 1) : t->rows_k; }

/* Block index -> tile, as one part of K and V has it; the tiles of a KV head are neighbours, the longest causal one
 * first. */
GA_DEV tile tile_of(args a, int block, int part) {
  tile t;
  t.a = a;
  const int pair = block / a->tiles;
  int rows_q = a->rows_q;
  t.batch = pair / a->heads_k;
  t.head_k = pair - t.batch * a->heads_k;
  t.row0 = (a->tiles - 1 - (block - pair * a->tiles)) * BM;
  t.rows_k = a->part[part].rows;
  t.start_q = t.start_k = 0;
  if (a->q_start) {
    t.start_q = ldg_i32(a->q_start + t.batch);
    rows_q = a->q_len ? ldg_i32(a->q_len + t.batch) : ldg_i32(a->q_start + t.batch + 1) - t.start_q;
  }
  if (a->kv_start) {
    t.start_k = ldg_i32(a->kv_start + t.batch);
    if (!a->kv_len) t.rows_k = ldg_i32(a->kv_start + t.batch + 1) - t.start_k;
  }
  if (a->kv_len) t.rows_k = ldg_i32(a->kv_len + t.batch);
  t.rows = rows_q * a->group;
  t.shift = t.rows_k - rows_q + a->part[part].shift;
  const int first = t.row0 / a->group, last = (imin(t.row0 + BM, t.rows) - 1) / a->group;
  t.lo = key_lo(&t, first);
  t.hi = key_hi(&t, last);
  t.all_lo = key_lo(&t, last);
  t.all_hi = key_hi(&t, first);
  return t;
}
/* The tile is kept in shared memory: beside O and S there are no registers for it. */
GA_DEV uint32_t part_record(uint32_t sb, int part) { return sb + OFF_TILE + (uint32_t)(part * TILE_BYTES); }
GA_DEV void tile_put(uint32_t at, const tile *t) {
  sts_i4(at, t->batch, t->head_k, t->row0, t->rows);
  sts_i4(at + 16, t->rows_k, t->shift, t->start_q, t->start_k);
  sts_i4(at + 32, t->lo, t->hi, t->all_lo, t->all_hi);
}
GA_DEV tile tile_get(args a, uint32_t sb, int part) {
  const uint32_t at = part_record(sb, part);
  const ga_i4 x = lds_i4(at), y = lds_i4(at + 16), z = lds_i4(at + 32);
  const tile t = {
      a,   sb, thread_index() >> 5, thread_index() & 31, part, x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w, z.x, z.y,
      z.z, z.w};
  return t;
}

/* A block of keys: where the stream of a tile's blocks is. */
typedef struct {
  int part, n, last; /* block n of the part, whose last is that; part == args.parts: behind the end */
} kv_iter;
/* The first block of the first part from `part` on that has one. */
GA_DEV kv_iter kv_iter_begin(args a, uint32_t sb, int part) {
  kv_iter p = {part, 0, -1};
  GA_ROLL for (; p.part < a->kv_segments; p.part++) {
    const ga_i4 seen = lds_i4(part_record(sb, p.part) + 32);
    p.n = seen.x / BN;
    p.last = seen.y > seen.x ? (seen.y - 1) / BN : -1;
    if (p.n <= p.last) break;
  }
  return p;
}
GA_DEV kv_iter kv_iter_next(args a, uint32_t sb, kv_iter p) {
  p.n++;
  return p.n <= p.last ? p : kv_iter_begin(a, sb, p.part + 1);
}

/* Elements from the tensor's start to a packed row of Q or O, to a row of K or V. */
GA_DEV int64_t q_at(const tile *t, const ga_kstrides *s, int row) {
  const int i = row / t->a->group, head = t->head_k * t->a->group + (row - i * t->a->group);
  return (t->a->q_start ? 0 : t->batch * s->batch) + (int64_t)(t->start_q + i) * s->token + head * s->head;
}
GA_DEV int64_t kv_at(const tile *t, const ga_kstrides *s, int j) {
  args a = t->a;
  if (a->page_size) {
    const int n = j / a->page_size;
    const int64_t page = ldg_i32(a->page_table + t->batch * a->page_table_stride + n);
    return page * s->batch + (j - n * a->page_size) * s->token + t->head_k * s->head;
  }
  return (a->kv_start ? 0 : t->batch * s->batch) + (int64_t)(t->start_k + j) * s->token + t->head_k * s->head;
}

/* ------------------------------------------------------------------ global to shared memory */
/* 8 columns from element `at` on, those from `cols` on zero; nothing is read unless `in`. */
GA_DEV void copy_chunk(args a, uint32_t dst, const void *base, int64_t at, int col, int cols, int in) {
  if (a->vec16) {
    const int bytes = in && col < cols ? 16 : 0;
    cp_async_16(dst, (const uint16_t *)base + (bytes ? at + col : 0), bytes);
    return;
  }
  uint32_t x[4] = {0, 0, 0, 0};
  GA_UNROLL for (int e = 0; e < 8; e++) {
    if (in && col + e < cols) x[e / 2] |= (uint32_t)ldg_u16((const uint16_t *)base + at + col + e) << 16 * (e % 2);
  }
  sts_i4(dst, (int)x[0], (int)x[1], (int)x[2], (int)x[3]);
}
GA_DEV void load_q(args a, uint32_t sb) {
  const tile t = tile_get(a, sb, 0);
  const int chunk = thread_index() % CHUNKS;
  const uint32_t panel = sb + OFF_Q + (uint32_t)(chunk / 8 * Q_PANEL);
  GA_ROLL for (int r = thread_index() / CHUNKS; r < BM; r += THREADS / CHUNKS) {
    const int in = t.row0 + r < t.rows;
    copy_chunk(a, panel_chunk(panel, (uint32_t)r, (uint32_t)(chunk % 8)), a->q,
               in ? q_at(&t, &a->q_stride, t.row0 + r) : 0, 8 * chunk, a->cols, in);
  }
}
GA_DEV uint32_t stage_k(uint32_t sb, int i) { return sb + OFF_KV + (uint32_t)((i & 1) * 2 * TILE); }
GA_DEV uint32_t stage_v(uint32_t sb, int i) { return stage_k(sb, i) + TILE; }
/* Block n of K or V. Rows that no row of the tile sees become zero: a product with 0 must be 0. */
GA_DEV void load_rows(const tile *t, uint32_t to, const void *base, const ga_kstrides *s, int cols, int n) {
  enum { STEP = THREADS / CHUNKS };
  args a = t->a;
  const int chunk = thread_index() % CHUNKS, r = thread_index() / CHUNKS, j = n * BN + r;
  const uint32_t panel = to + (uint32_t)(chunk / 8 * KV_PANEL);
  int64_t at = a->page_size ? 0 : kv_at(t, s, j);
  GA_UNROLL for (int i = 0; i < BN; i += STEP, at += STEP * s->token) {
    const int in = j + i >= t->lo && j + i < t->hi;
    if (a->page_size) at = in ? kv_at(t, s, j + i) : 0;
    copy_chunk(a, panel_chunk(panel, (uint32_t)(r + i), (uint32_t)(chunk % 8)), base, at, 8 * chunk, cols, in);
  }
}
/* To the stages of the i-th block of the stream. */
GA_DEV void load_kv(args a, uint32_t sb, kv_iter p, int i) {
  const tile t = tile_get(a, sb, p.part);
  load_rows(&t, stage_k(sb, i), a->part[p.part].k, &a->k_stride, a->cols, p.n);
  load_rows(&t, stage_v(sb, i), a->part[p.part].v, &a->v_stride, a->cols_v, p.n);
}

/* ------------------------------------------------------------------ products */
/* S = Q K^T of the warp's rows. */
GA_DEV void scores(uint32_t sb, uint32_t k0, int warp, int lane, const uint32_t *q, float *s) {
  const uint32_t row = (uint32_t)(lane & 15), half = (uint32_t)(lane >> 4);
  const uint32_t key = (uint32_t)((lane & 7) + (lane >> 4 << 3)), key_half = (uint32_t)(lane >> 3 & 1);
  GA_UNROLL for (int i = 0; i < WM * NS; i++) s[i] = 0.f;
  GA_UNROLL for (int k = 0; k < D / 16; k++) {
    uint32_t x[4 * WM], b[4];
    GA_UNROLL for (int w = 0; w < WM && !QREG; w++)
        ldmatrix_x4(x + 4 * w, panel_chunk(sb + OFF_Q + (uint32_t)(k / 4 * Q_PANEL),
                                           (uint32_t)((warp * WM + w) * 16) + row, (uint32_t)(k % 4 * 2) + half));
    GA_UNROLL for (int j = 0; j < BN / 16; j++) { /* 16 keys: two 8-column groups of S */
      ldmatrix_x4(b, panel_chunk(k0 + (uint32_t)(k / 4 * KV_PANEL), (uint32_t)(16 * j) + key,
                                 (uint32_t)(k % 4 * 2) + key_half));
      GA_UNROLL for (int w = 0; w < WM; w++) {
        MMA(s + w * NS + 8 * j, QREG ? q + 4 * k : x + 4 * w, b[0], b[1]);
        MMA(s + w * NS + 8 * j + 4, QREG ? q + 4 * k : x + 4 * w, b[2], b[3]);
      }
    }
  }
}
/* O += P V; P's fragments are the scores' registers, rounded. */
GA_DEV void weigh(uint32_t v0, int lane, float *o, const float *s) {
  const uint32_t row = (uint32_t)(lane & 15), half = (uint32_t)(lane >> 4);
  GA_UNROLL for (int k = 0; k < BN / 16; k++) {
    uint32_t p[4 * WM], b[4];
    GA_UNROLL for (int w = 0; w < WM; w++) GA_UNROLL for (int i = 0; i < 4; i++) p[4 * w + i] =
        PACK(s[w * NS + 8 * k + 2 * i], s[w * NS + 8 * k + 2 * i + 1]);
    GA_UNROLL for (int j = 0; j < D / 16; j++) {
      ldmatrix_x4_trans(
          b, panel_chunk(v0 + (uint32_t)(j / 4 * KV_PANEL), (uint32_t)(16 * k) + row, (uint32_t)(j % 4 * 2) + half));
      GA_UNROLL for (int w = 0; w < WM; w++) {
        MMA(o + w * NO + 8 * j, p + 4 * w, b[0], b[1]);
        MMA(o + w * NO + 8 * j + 4, p + 4 * w, b[2], b[3]);
      }
    }
  }
}

/* ------------------------------------------------------------------ softmax */
/* Packed row of the lane in 16-row tile w: of its upper half, h = 0, or its lower, h = 1. */
GA_DEV int row_of_warp(const tile *t, int w, int h) {
  return t->row0 + (t->warp * WM + w) * 16 + 8 * h + (t->lane >> 2);
}
/* Plain rows leave the scale to the exponential; others bring scores to their natural size first. */
GA_DEV int is_plain(args a) { return a->softcap == 0.f && !a->slope && a->scale > 0.f; }
GA_DEV float logit_unit(args a) { return is_plain(a) ? a->scale : 1.f; }       /* natural size of 1 */
GA_DEV float unit_log2(args a) { return is_plain(a) ? a->scale_log2 : LOG2E; } /* the same times log2 e */
GA_DEV float natural_score(args a, float x, float slope, int distance) {
  x = a->softcap != 0.f ? tanhf(x * a->softcap_in) * a->softcap : x * a->scale;
  return x + slope * (float)distance;
}
GA_DEV float slope_of(const tile *t, int row) {
  args a = t->a;
  return a->slope ? ldg_f32(a->slope + t->head_k * a->group + row % a->group) : 0.f;
}
/* Soft-cap and alibi, then the mask, of a block whose first key is j0; s: a 16-row tile. */
GA_DEV void finish_scores(const tile *t, float *s, int w, int j0) {
  args a = t->a;
  const int q2 = 2 * (t->lane & 3), masked = j0 < t->all_lo || j0 + BN > t->all_hi;
  if (!masked && is_plain(a)) return;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const int row = row_of_warp(t, w, h), i = row / a->group;
    if (!is_plain(a)) {
      const float slope = slope_of(t, row);
      GA_UNROLL for (int n = 0; n < BN / 4; n++) {
        float *x = s + 4 * (n / 2) + 2 * h + n % 2;
        *x = natural_score(a, *x, slope, j0 + 8 * (n / 2) + q2 + n % 2 - i - t->shift);
      }
    }
    pin_f32(s, NS);
    if (masked) {
      const int lo = key_lo(t, i) - j0 - q2, hi = key_hi(t, i) - j0 - q2;
      GA_UNROLL for (int n = 0; n < BN / 4; n++) {
        const int j = 8 * (n / 2) + n % 2;
        if (j < lo || j >= hi) s[4 * (n / 2) + 2 * h + n % 2] = GA_NEG_INF;
      }
    }
  }
}
/* Weights are 2^(x f - reference); a row that has seen nothing has 0 there, so that 2^(-inf - 0) = 0. */
GA_DEV float reference(float m, float f) { return m == GA_NEG_INF ? 0.f : elem_mul(m, f); }
/* S becomes P; the running maximum m (of scores), the sum l and O follow. */
GA_DEV void softmax(float *s, float *o, float *m, float *l, float f) {
  float x[2], ref[2], factor[2], sum[2];
  tile_row_max(s, BN, x);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const float now = fmaxf(m[i], x[i]);
    ref[i] = reference(now, f);
    factor[i] = m[i] == GA_NEG_INF ? 0.f : ex2(elem_mul(m[i], f) - ref[i]);
    m[i] = now;
  }
  tile_exp2(s, BN, f, ref, sum);
  tile_scale_rows(o, D, factor);
  GA_UNROLL for (int i = 0; i < 2; i++) l[i] = l[i] * factor[i] + sum[i];
}

/* ------------------------------------------------------------------ results */
/* A row's end: weights are 2^(x f - ref), their sum is l, O is to be multiplied with v. base: ref in natural units. */
typedef struct {
  float ref, base, l, v;
} row_end;

/* Entries of a packed row in what is kept by rows of heads: lse, m, l; times cols_v, O. */
GA_DEV int64_t entry_of(const tile *t, int row) {
  args a = t->a;
  const int i = row / a->group, head = t->head_k * a->group + (row - i * a->group);
  return ((int64_t)t->batch * (a->heads_k * a->group) + head) * a->rows_q + i;
}
/* From a row's maximum m and this lane's part of the sum l. */
GA_DEV row_end end_row(args a, float m, float l) {
  const float f = unit_log2(a), ref = reference(m, f);
  row_end e;
  e.ref = m == GA_NEG_INF ? m : ref;
  e.base = m * logit_unit(a) - fmaf(m, f, -ref) * LN2; /* the reference is a rounded product: what it lost is in l */
  e.l = quad_sum(l);
  e.v = 1.f;
  return e;
}
/* Joins a row's sums with the state that earlier launches left. Returns the factor of the row's own O, and sets *old to
 * the factor of state_o. */
GA_DEV float join_sums(const tile *t, int row, row_end *e, float *old) {
  args a = t->a;
  const int64_t at = entry_of(t, row);
  const float m = ldg_f32(a->state_m + at), top = fmaxf(m, e->ref), ref = top == GA_NEG_INF ? 0.f : top;
  const float own = ex2(e->ref - ref);
  *old = ex2(m - ref);
  e->l = e->l * own + ldg_f32(a->state_l + at) * *old;
  e->ref = top;
  e->base = top * LN2;
  return own;
}
GA_DEV void join_state(const tile *t, int row, float *o, row_end *e) {
  args a = t->a;
  float old;
  const float own = join_sums(t, row, e, &old);
  const float *in = a->state_o + entry_of(t, row) * a->cols_v;
  GA_UNROLL for (int j = 0; j < D / 4; j++) {
    const int col = 8 * (j / 2) + 2 * (t->lane & 3) + j % 2;
    float *x = o + 4 * (j / 2) + j % 2;
    *x = *x * own + (col < a->cols_v ? ldg_f32(in + col) * old : 0.f);
  }
}
GA_DEV void store_state(const tile *t, int row, const float *o, const row_end *e) {
  args a = t->a;
  const int64_t at = entry_of(t, row);
  if ((t->lane & 3) == 0) {
    stg_f32(a->state_m + at, e->ref);
    stg_f32(a->state_l + at, e->l);
  }
  GA_UNROLL for (int j = 0; j < D / 4; j++) {
    const int col = 8 * (j / 2) + 2 * (t->lane & 3) + j % 2;
    if (col < a->cols_v) stg_f32(a->state_o + at * a->cols_v + col, e->l == 0.f ? 0.f : o[4 * (j / 2) + j % 2]);
  }
}
/* Returns the row's index in lse, whose heads may be lse_stride apart. */
GA_DEV int64_t lse_at(const tile *t, int row) {
  args a = t->a;
  const int i = row / a->group, head = t->head_k * a->group + (row - i * a->group);
  return a->lse_stride ? head * a->lse_stride + t->start_q + i : entry_of(t, row);
}
/* The factor of O; lse leaves. 0: the row saw nothing, sink or not. */
GA_DEV void finish_row(const tile *t, int row, row_end *e) {
  args a = t->a;
  float lse = e->l == 0.f ? GA_NEG_INF : e->base + logf(e->l), v = 1.f / e->l;
  const int in = row < t->rows;
  if (in && a->sink && e->l != 0.f) { /* one more key of that score, without a value */
    const float sink = ldg_f32(a->sink + t->head_k * a->group + row % a->group), d = sink - lse;
    lse = fmaxf(lse, sink) + log1pf(expf(-fabsf(d)));
    v = v / (1.f + expf(d));
  }
  if (in && a->lse && (t->lane & 3) == 0) stg_f32(a->lse + lse_at(t, row), lse);
  e->v = e->l == 0.f || e->l != e->l ? e->l : fmaxf(v, FLOAT_MIN_NORMAL); /* a sink may leave next to nothing */
}
/* One row of O, o[4j], o[4j + 1] the lane's columns of group j. */
GA_DEV void store_row(const tile *t, const float *o, int row, float v) {
  args a = t->a;
  const int q = t->lane & 3, in = row < t->rows;
  uint16_t *out = (uint16_t *)a->o + (in ? q_at(t, &a->o_stride, row) : 0);
  GA_UNROLL for (int j = 0; j < D / 32; j++) {
    uint32_t r[4];
    GA_UNROLL for (int i = 0; i < 4; i++) r[i] = v == 0.f ? 0u : PACK(o[16 * j + 4 * i] * v, o[16 * j + 4 * i + 1] * v);
    quad_transpose(r, q);
    const int col = 32 * j + 8 * q;
    if (a->vec16 && in && col < a->cols_v) stg_u4(out + col, r[0], r[1], r[2], r[3]);
    if (!a->vec16 && in) {
      GA_UNROLL for (int e = 0; e < 8; e++) if (col + e < a->cols_v)
          stg_u16(out + col + e, (uint16_t)(r[e / 2] >> 16 * (e % 2)));
    }
  }
}
/* The weighted sum of a part's values, added to o: column lane + 32 e. A weight times an infinity is that infinity,
 * however small the weight is. */
GA_DEV void add_tile_part(const tile *t, int row, float ref, float *o) {
  args a = t->a;
  const int i = row / a->group, end = key_hi(t, i);
  const float slope = slope_of(t, row), f = unit_log2(a);
  const int64_t q = q_at(t, &a->q_stride, row);
  GA_ROLL for (int j = key_lo(t, i); j < end; j++) {
    const int64_t k = kv_at(t, &a->k_stride, j), u = kv_at(t, &a->v_stride, j);
    float x = 0.f;
    GA_ROLL for (int c = t->lane; c < a->cols; c += 32) x += GET(a->q, q + c) * GET(a->part[t->part].k, k + c);
    x = row_sum_warp(x);
    if (!is_plain(a)) x = natural_score(a, x, slope, j - i - t->shift);
    x = fmaf(x, f, -ref);
    const float p = ex2(x);
    GA_UNROLL for (int e = 0; e < D / 32; e++) {
      const int c = t->lane + 32 * e;
      const float y = c < a->cols_v ? GET(a->part[t->part].v, u + c) : 0.f;
      o[e] += fabsf(y) < __uint_as_float(0x7f800000u) ? p * y : x > VANISHED ? y : 0.f * y;
    }
  }
}
/* One row again, by its definition, by the whole warp. What it carried is still in its place. seen: a logit is not
 * -inf. */
GA_DEV void row_again(const tile *own, int row, const row_end *e, int seen) {
  args a = own->a;
  const int64_t at = entry_of(own, row), out = a->state_out ? at * a->cols_v : q_at(own, &a->o_stride, row);
  float o[D / 32], old = a->state_in ? ex2(ldg_f32(a->state_m + at) - e->ref) : 0.f;
  GA_UNROLL for (int i = 0; i < D / 32; i++) o[i] = 0.f;
  GA_ROLL for (int part = 0; part < a->kv_segments && seen; part++) {
    const tile t = tile_get(a, own->sb, part);
    add_tile_part(&t, row, e->ref, o);
  }
  warp_sync(); /* all have read the state's m */
  if (a->state_out && own->lane == 0) {
    stg_f32(a->state_m + at, e->ref);
    stg_f32(a->state_l + at, e->l);
  }
  GA_UNROLL for (int i = 0; i < D / 32; i++) {
    const int c = own->lane + 32 * i;
    if (c >= a->cols_v) continue;
    if (a->state_in) o[i] += ldg_f32(a->state_o + at * a->cols_v + c) * old;
    if (a->state_out)
      stg_f32(a->state_o + out + c, o[i]);
    else
      PUT(a->o, out + c, o[i] * e->v);
  }
}
/* An O that is no number although the sum l is one: an infinity or a NaN in V met a weight of 0. */
GA_DEV int is_bad(const float *o, float l) {
  float zero = 0.f;
  GA_UNROLL for (int j = 0; j < D / 8; j++) zero += 0.f * o[4 * j] + 0.f * o[4 * j + 1];
  return quad_sum(zero) != 0.f && l == l && l != 0.f;
}
/* The rows of the lane's 16-row tiles: all of the state is read before any of it is written, which may be in its place.
 * */
GA_DEV void store_results(const tile *t, float *o, const float *m, const float *l) {
  args a = t->a;
  row_end e[2 * WM];
  int bad = 0; /* a bit each */
  GA_UNROLL for (int i = 0; i < 2 * WM; i++) {
    const int row = row_of_warp(t, i / 2, i % 2);
    float *x = o + i / 2 * NO + i % 2 * 2;
    e[i] = end_row(a, m[i], l[i]);
    if (a->state_in && row < t->rows) join_state(t, row, x, &e[i]);
    if (!a->state_out) finish_row(t, row, &e[i]);
    bad |= (is_bad(x, e[i].l) && row < t->rows) << i;
  }
  warp_sync();
  GA_UNROLL for (int i = 0; i < 2 * WM; i++) {
    const int row = row_of_warp(t, i / 2, i % 2);
    const float *x = o + i / 2 * NO + i % 2 * 2;
    if (!a->state_out)
      store_row(t, x, row, e[i].v);
    else if (row < t->rows && !(bad >> i & 1))
      store_state(t, row, x, &e[i]);
  }
  if (!warp_any(bad)) return;
  warp_sync(); /* behind the stores of these rows */
  GA_UNROLL for (int i = 0; i < 2 * WM; i++) GA_ROLL for (int g = 0; g < 8; g++) {
    const row_end x = {shfl_idx_f32(e[i].ref, 4 * g), 0.f, shfl_idx_f32(e[i].l, 4 * g), shfl_idx_f32(e[i].v, 4 * g)};
    const int again = shfl_idx_u32((uint32_t)bad, 4 * g) >> i & 1, seen = shfl_idx_f32(m[i], 4 * g) != GA_NEG_INF;
    if (again) row_again(t, row_of_warp(t, i / 2, i % 2) - (t->lane >> 2) + g, &x, seen);
  }
}

/* ------------------------------------------------------------------ the kernel */
GA_KERNEL(THREADS, GA_P_BLOCKS) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_fallback a) {
  const uint32_t sb = smem_base();
  const int warp = thread_index() >> 5, lane = thread_index() & 31;
  const float f = unit_log2(&a);
  float s[WM * NS], o[WM * NO], m[2 * WM], l[2 * WM];
  uint32_t q[QREG ? D / 4 : 1];
  if (thread_index() < a.kv_segments) {
    const tile own = tile_of(&a, block_index(), thread_index());
    tile_put(part_record(sb, thread_index()), &own);
  }
  block_sync();
  const ga_i4 own = lds_i4(part_record(sb, 0));
  if (own.z >= own.w) return; /* a shorter sequence than the longest */
  kv_iter p = kv_iter_begin(&a, sb, 0);
  GA_UNROLL for (int i = 0; i < WM * NO; i++) o[i] = 0.f;
  GA_UNROLL for (int i = 0; i < 2 * WM; i++) {
    m[i] = GA_NEG_INF;
    l[i] = 0.f;
  }
  if (p.part < a.kv_segments) {
    load_q(&a, sb);
    load_kv(&a, sb, p, 0);
    cp_async_commit();
    if (QREG) {
      cp_async_wait(0);
      block_sync();
      load_a(q, sb + OFF_Q, Q_PANEL, warp * 16, D / 16, lane);
    }
  }
  GA_ROLL for (int i = 0; p.part < a.kv_segments; i++) {
    cp_async_wait(0);
    block_sync(); /* block i has come; nobody reads block i - 1 any more */
    const kv_iter then = kv_iter_next(&a, sb, p);
    if (then.part < a.kv_segments) load_kv(&a, sb, then, i + 1);
    cp_async_commit();
    scores(sb, stage_k(sb, i), warp, lane, q, s);
    const tile t = tile_get(&a, sb, p.part);
    GA_UNROLL for (int w = 0; w < WM; w++) {
      finish_scores(&t, s + w * NS, w, p.n * BN);
      pin_f32(s + w * NS, NS); /* one loop after the other: merged, they keep two copies of S */
      softmax(s + w * NS, o + w * NO, m + 2 * w, l + 2 * w, f);
    }
    weigh(stage_v(sb, i), lane, o, s);
    p = then;
  }
  const tile t = tile_get(&a, sb, 0);
  store_results(&t, o, m, l);
}
