/* KERNEL    attn_fwd, sched short, sm90a: short sequences; no producer, every warp computes
 * COMPUTES  as attn_fwd_sm90a.cu, without its features
 * CONTRACT  as there, and rows_k <= BN * STAGES: K and V of one head stay in shared memory for all rows of a unit.
 *           Tensor maps: rows per box: q 16, k and v BN. O leaves by 16-byte stores.
 * DATA      gmem -TMA-> smem (per warp its 16 rows of Q; all of K and V at once) -ldmatrix-> Q regs; Q regs x K smem
 *           -wgmma-> S regs -exp2-> P regs; P regs x V smem -wgmma-> O regs -> gmem
 * WORK      A warpgroup takes 64 rows. A unit is unit_tiles passes of BM rows of one head; a block takes unit after
 *           unit, and whoever is the last to use a stage asks for the next unit's K or V there: nobody waits to load.
 * SOFTMAX   One block of columns (STAGES 1): the row maximum. More: as attn_fwd_sm90a.cu, the first block's maximum and
 *           a vote on the partial sums of the others.
 * BARRIERS  name     arrivals    waiter            orders
 *           q_full   1+tx        its warp          TMA write of 16 rows of Q -> ldmatrix
 *           k_full   1+tx        all               TMA write of K[n] -> wgmma read
 *           k_empty  warps       the last arrival  wgmma (and recomputing) reads of K[n] -> next TMA write
 *           v_full   1+tx        all               TMA write of V[n] -> wgmma read
 *           v_empty  warpgroups  the last arrival  wgmma reads of V[n] -> next TMA write
 * BUDGET    2 BM threads, 65536 / (2 BM BLOCKS) registers; smem: OFF_*
 * MEASURED  docs/perf/attention.md
 * REF       Dao et al. 2022; Shah et al. 2024
 */
#include "core/kargs_attn.h"
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn/attn_lse.h"

#define GA_MASK_full   0
#define GA_MASK_causal 1
#define GA_DT_bf16     0
#define GA_DT_f16      1

enum {
  CAUSAL = GA_CAT(GA_MASK_, GA_P_MASK),
  F16 = GA_CAT(GA_DT_, GA_P_DTYPE),
  D = GA_P_D,
  DV = GA_P_DV,
  BM = GA_P_BM,
  BN = GA_P_BN,
  ST = GA_P_STAGES,
  WGS = BM / 64,
  WARPS = 4 * WGS,
  PANELS_K = (D + 63) / 64,
  PANELS_V = (DV + 63) / 64,
  BLOCK_PANEL = BN * PANEL_ROW_BYTES,
  Q_PANEL = 16 * PANEL_ROW_BYTES,
  NS = BN / 2,
  NO = DV / 2,
  NP = BN / 4,
  NQ = D / 4 /* registers of S, O, P, Q per lane */
};
enum { /* shared memory, bytes */
       Q_BYTES = PANELS_K * Q_PANEL,
       K_BYTES = PANELS_K * BLOCK_PANEL,
       V_BYTES = PANELS_V * BLOCK_PANEL,
       OFF_K = 0,
       OFF_V = OFF_K + ST * K_BYTES,
       OFF_Q = OFF_V + ST * V_BYTES,
       OFF_ASIDE = OFF_Q + WARPS * Q_BYTES,
       OFF_QF = OFF_ASIDE + 16 * WARPS,
       OFF_KF = OFF_QF + 8 * WARPS,
       OFF_VF = OFF_KF + 8 * ST,
       OFF_KE = OFF_VF + 8 * ST,
       OFF_VE = OFF_KE + 8 * ST,
       SMEM_BYTES = OFF_VE + 8 * ST
};
static_assert(BM % 64 == 0 && WGS >= 1 && WGS <= 4, "one warpgroup per 64 rows");
static_assert(BN % 16 == 0 && D % 16 == 0 && DV % 32 == 0 && Q_PANEL % 1024 == 0 && BLOCK_PANEL % 1024 == 0, "tiles");
static_assert(ST <= 32, "one parity bit a stage");
#ifdef GA_P_SMEM
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");
#endif

#define QK_RS    GA_CAT5(wgmma_m64n, GA_P_BN, k16_, GA_P_DTYPE, _rs)
#define PV_RST   GA_CAT5(wgmma_m64n, GA_P_DV, k16_, GA_P_DTYPE, _rst)
#define MMA_WARP GA_CAT(mma_m16n8k16_, GA_P_DTYPE)
#define PACK     GA_CAT(pack_, GA_P_DTYPE)

#define SUM_LIMIT (F16 ? 32768.f : 1.152921504606846976e18f) /* 2^15, 2^60 */

typedef const ga_kargs_attn_fwd *args;

GA_DEV int imin(int a, int b) {
  return a < b ? a : b;
}
GA_DEV int imax(int a, int b) {
  return a > b ? a : b;
}

GA_DEV int lane_of(void) {
  return thread_index() & 31;
}
GA_DEV int warp_of(void) {
  return thread_index() >> 5;
}
/* What a warp works on. Registers are scarce in the loop over blocks: what it does not need waits in shared memory
 * (put_aside, take_back), and the rest is worked out again where it is used. */
typedef struct {
  args a;
  uint32_t sb;
  int unit, pass;    /* work item, pass of it */
  uint32_t parity_q; /* of q_full: one turn a pass */
  uint32_t parity;   /* of the stages' barriers: one turn a unit */
  int next;          /* the unit that wants a stage after this pass, or -1 */
} worker;

/* The (query head, batch) that a unit is of. */
typedef struct {
  int head, batch;
} place;
GA_DEV place place_of(args a, int unit) {
  const int pair = unit / a->tiles_per_head, batch = pair / a->heads_q;
  const place p = {pair - batch * a->heads_q, batch};
  return p;
}
GA_DEV void put_aside(const worker *c) {
  warp_sync(); /* the last record has been read */
  if (lane_of() == 0) sts_i4(c->sb + OFF_ASIDE + 16 * warp_of(), c->unit, c->pass, (int)c->parity_q, 0);
  warp_sync();
}
GA_DEV void take_back(worker *c) {
  const ga_i4 x = lds_i4(c->sb + OFF_ASIDE + 16 * warp_of());
  c->unit = x.x;
  c->pass = x.y;
  c->parity_q = (uint32_t)x.z;
}

/* ------------------------------------------------------------------ loads */
GA_DEV void load_k(const worker *c, int unit, int n) {
  args a = c->a;
  const place p = place_of(a, unit);
  const uint32_t bar = c->sb + OFF_KF + 8 * n;
  mbar_arrive_expect(bar, K_BYTES);
  GA_UNROLL for (int i = 0; i < PANELS_K; i++)
      bulk_load_4d(c->sb + OFF_K + n * K_BYTES + i * BLOCK_PANEL, &a->k, bar, i * PANEL_COLS, n * BN, p.head / a->group, p.batch,
                   L2_EVICT_LAST);
}
GA_DEV void load_v(const worker *c, int unit, int n) {
  args a = c->a;
  const place p = place_of(a, unit);
  const uint32_t bar = c->sb + OFF_VF + 8 * n;
  mbar_arrive_expect(bar, V_BYTES);
  GA_UNROLL for (int i = 0; i < PANELS_V; i++)
      bulk_load_4d(c->sb + OFF_V + n * V_BYTES + i * BLOCK_PANEL, &a->v, bar, i * PANEL_COLS, n * BN, p.head / a->group, p.batch,
                   L2_EVICT_LAST);
}
/* First row of the warpgroup in a pass of a unit. Odd passes run backwards, so that under a causal mask every warpgroup
 * has its share of long and short rows. */
GA_DEV int row_of(const worker *c, int unit, int pass) {
  const int first = unit % c->a->tiles_per_head * c->a->unit_tiles, w = warp_of() >> 2;
  return (first + pass) * BM + 64 * (pass & 1 ? WGS - 1 - w : w);
}
GA_DEV void load_q(const worker *c, int unit, int pass) {
  args a = c->a;
  const place p = place_of(a, unit);
  const uint32_t bar = c->sb + OFF_QF + 8 * warp_of(), dst = c->sb + OFF_Q + warp_of() * Q_BYTES;
  mbar_arrive_expect(bar, Q_BYTES);
  GA_UNROLL for (int i = 0; i < PANELS_K; i++)
      bulk_load_4d(dst + i * Q_PANEL, &a->q, bar, i * PANEL_COLS, row_of(c, unit, pass) + 16 * (warp_of() & 3), p.head, p.batch,
                   L2_EVICT_FIRST);
}
/* Blocks that the unit's rows see; when units follow one another, all, so that every stage turns with the units. */
GA_DEV int unit_blocks(args a, int unit) {
  const int rows = (unit % a->tiles_per_head + 1) * a->unit_tiles * BM + a->rows_k - a->rows_q;
  const int end = CAUSAL && block_count() == a->tiles ? imin(a->rows_k, imax(rows, 1)) : a->rows_k;
  return (end + BN - 1) / BN;
}
/* The first unit's loads, spread over the warps: one lane each. */
GA_DEV void load_first(const worker *c) {
  const int blocks = unit_blocks(c->a, c->unit);
  grid_dependency_wait(); /* the inputs may be the previous kernel's outputs; everything else follows from here */
  if (warp_of() == 0) load_k(c, c->unit, 0);
  load_q(c, c->unit, 0);
  GA_ROLL for (int n = warp_of() + (warp_of() ? 0 : WARPS); n < blocks; n += WARPS) load_k(c, c->unit, n);
  GA_ROLL for (int n = warp_of(); n < blocks; n += WARPS) load_v(c, c->unit, n);
}
/* This warp has read K[n] for the last time in this unit; the last warp asks for the next unit's. */
GA_DEV void release_k(const worker *c, int n) {
  const uint32_t bar = c->sb + OFF_KE + 8 * n;
  if (lane_of() || c->next < 0 || !mbar_arrive_last(bar)) return;
  mbar_wait(bar, c->parity);
  load_k(c, c->next, n);
}
GA_DEV void release_v(const worker *c, int n) {
  const uint32_t bar = c->sb + OFF_VE + 8 * n;
  if (lane_of() || warp_of() & 3 || c->next < 0 || !mbar_arrive_last(bar)) return;
  mbar_wait(bar, c->parity);
  load_v(c, c->next, n);
}

/* ------------------------------------------------------------------ one block of columns */
GA_DEV void issue_qk(const worker *c, float *s, const uint32_t *q, int n) {
  const uint64_t dk = desc(desc_k_major(c->sb + OFF_K) + n * (K_BYTES >> 4));
  mbar_wait(c->sb + OFF_KF + 8 * n, c->parity);
  pin_f32(s, NS);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < D / 16; k++)
      QK_RS(s, q + 4 * k, dk + (uint64_t)((k / 4) * (BLOCK_PANEL >> 4) + 2 * (k % 4)), k != 0);
  wgmma_commit();
}
GA_DEV void issue_pv(const worker *c, float *o, uint32_t *p, int n) {
  const uint64_t dv = desc(desc_n_major(c->sb + OFF_V, BLOCK_PANEL) + n * (V_BYTES >> 4));
  mbar_wait(c->sb + OFF_VF + 8 * n, c->parity);
  pin_u32(p, NP);
  pin_f32(o, NO);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < BN / 16; k++) PV_RST(o, p + 4 * k, dv + (uint64_t)(k * 128), 1);
  wgmma_commit();
}
GA_DEV void finish_pv(float *o, uint32_t *p) {
  wgmma_wait(0);
  pin_f32(o, NO);
  pin_u32(p, NP);
}
GA_DEV void apply_mask(const worker *c, float *s, int n) {
  args a = c->a;
  const int last = a->rows_k - 1 - n * BN;
  if (!CAUSAL) {
    tile_mask_above(s, BN, last, last, (lane_of() & 3) * 2);
    return;
  }
  const int row = row_of(c, c->unit, c->pass) + (warp_of() & 3) * 16 + (lane_of() >> 2) + a->rows_k - a->rows_q - n * BN;
  tile_mask_above(s, BN, imin(last, row), imin(last, row + 8), (lane_of() & 3) * 2);
}
/* Reference of the exponent from the row maximum m (log2 units); a row that has seen nothing yet gets 0, so that
 * 2^(-inf - 0) = 0. */
GA_DEV void reference(const float *m, float *ref) {
  ref[0] = m[0] == GA_NEG_INF ? 0.f : m[0];
  ref[1] = m[1] == GA_NEG_INF ? 0.f : m[1];
}
GA_DEV void softmax_first(const worker *c, float *s, float *m, float *l, int free) {
  const float f = c->a->scale_log2;
  float ref[2];
  if (free < 1) apply_mask(c, s, 0);
  tile_row_max(s, BN, m);
  m[0] *= f;
  m[1] *= f;
  reference(m, ref);
  tile_exp2(s, BN, f, ref, l);
}
/* A later block with a new maximum: m, exponentials, l and O brought to it. */
GA_DEV void add_running(const worker *c, float *s, float *o, float *m, float *l) {
  const float f = c->a->scale_log2;
  float x[2], ref[2], factor[2];
  tile_row_max(s, BN, x);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const float now = fmaxf(m[i], x[i] * f);
    factor[i] = now == GA_NEG_INF ? 1.f : ex2(m[i] - now);
    m[i] = now;
    l[i] *= factor[i];
  }
  tile_scale_rows(o, DV, factor);
  reference(m, ref);
  tile_exp2(s, BN, f, ref, x);
  l[0] += x[0];
  l[1] += x[1];
}
/* This warp's 16 rows of S again, by warp-level products, in the same layout. Q's registers go round once, so that the
 * loop need not be unrolled: it would take too many registers. */
GA_DEV void recompute_s(const worker *c, float *s, uint32_t *q, int n) {
  const int lane = thread_index_anew() & 31;
  const uint32_t row = (uint32_t)((lane & 7) + ((lane >> 4) << 3)), chunk = (uint32_t)((lane >> 3) & 1);
  const uint32_t k0 = c->sb + OFF_K + n * K_BYTES;
  GA_UNROLL for (int i = 0; i < NS; i++) s[i] = 0.f;
  GA_ROLL for (int k = 0; k < D / 16; k++) {
    GA_UNROLL for (int j = 0; j < BN / 16; j++) {
      uint32_t b[4];
      ldmatrix_x4(b, panel_chunk(k0 + (uint32_t)(k / 4) * BLOCK_PANEL, (uint32_t)(j * 16) + row, (uint32_t)(k % 4) * 2 + chunk));
      MMA_WARP(s + 8 * j, q, b[0], b[1]);
      MMA_WARP(s + 8 * j + 4, q, b[2], b[3]);
    }
    GA_UNROLL for (int e = 0; e < 4; e++) {
      const uint32_t first = q[e];
      GA_UNROLL for (int i = e; i + 4 < NQ; i += 4) q[i] = q[i + 4];
      q[NQ - 4 + e] = first;
    }
  }
}
GA_DEV void to_p(const float *s, uint32_t *p) {
  GA_UNROLL for (int i = 0; i < NP; i++) p[i] = PACK(s[2 * i], s[2 * i + 1]);
}
/* A block that is masked in part: a running maximum. */
GA_DEV void step_masked(worker *c, float *s, float *o, uint32_t *p, float *m, float *l, int n) {
  finish_pv(o, p); /* early: P's registers are needed here, and such blocks are few */
  take_back(c);
  apply_mask(c, s, n);
  add_running(c, s, o, m, l);
}
/* A block that every row sees in full: the reference stays, the vote guards it, and keeps the exponentials above the
 * wait for PV. */
GA_DEV void step_free(const worker *c, float *s, float *o, uint32_t *p, uint32_t *q, float *m, float *l, int n) {
  float sum[2];
  tile_exp2(s, BN, c->a->scale_log2, m, sum);
  const int bad = warp_any(!(fmaxf(sum[0], sum[1]) < SUM_LIMIT));
  if (!bad) {
    l[0] += sum[0];
    l[1] += sum[1];
  }
  finish_pv(o, p);
  if (bad) {
    recompute_s(c, s, q, n);
    add_running(c, s, o, m, l);
  }
}

/* ------------------------------------------------------------------ results */
/* O straight from registers, 16 bytes per lane; only rows and columns that exist are written. */
GA_DEV void store_o(const worker *c, const float *o, const float *v, int row) {
  args a = c->a;
  const int q = lane_of() & 3;
  const place p = place_of(a, c->unit);
  char *base = (char *)a->o_base + 2 * (p.batch * a->o_stride_batch + p.head * a->o_stride_head + (int64_t)row * a->o_stride_row + 8 * q);
  GA_UNROLL for (int j = 0; j < DV / 32; j++) {
    uint32_t x[4], y[4];
    GA_UNROLL for (int i = 0; i < 4; i++) {
      x[i] = PACK(o[16 * j + 4 * i] * v[0], o[16 * j + 4 * i + 1] * v[0]) & keep_bits(v[0]);
      y[i] = PACK(o[16 * j + 4 * i + 2] * v[1], o[16 * j + 4 * i + 3] * v[1]) & keep_bits(v[1]);
    }
    quad_transpose(x, q);
    quad_transpose(y, q);
    const int in = 32 * j + 8 * q < a->cols_v;
    if (in && row < a->rows_q) stg_u4(base + 64 * j, x[0], x[1], x[2], x[3]);
    if (in && row + 8 < a->rows_q) stg_u4(base + 16 * a->o_stride_row + 64 * j, y[0], y[1], y[2], y[3]);
  }
}
GA_DEV void epilogue(const worker *c, const float *o, const float *m, float *l) {
  args a = c->a;
  const int row = row_of(c, c->unit, c->pass) + (warp_of() & 3) * 16 + (lane_of() >> 2);
  float v[2], ref[2];
  reference(m, ref);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    l[i] = quad_sum(l[i]);
    v[i] = l[i] == 0.f ? 0.f : rcp(l[i]);
  }
  if (a->lse && (lane_of() & 3) == 0) {
    const place p = place_of(a, c->unit);
    float *lse = a->lse + p.batch * a->lse_stride_batch + p.head * a->lse_stride_head;
    if (row < a->rows_q) stg_f32(lse + row, log_sum(a, ref[0], l[0]));
    if (row + 8 < a->rows_q) stg_f32(lse + row + 8, log_sum(a, ref[1], l[1]));
  }
  store_o(c, o, v, row);
}

/* ------------------------------------------------------------------ work */
/* Q to registers; its buffer takes the next pass's. */
GA_DEV void take_q(worker *c, uint32_t *q) {
  mbar_wait(c->sb + OFF_QF + 8 * warp_of(), c->parity_q);
  load_a(q, c->sb + OFF_Q + warp_of() * Q_BYTES, Q_PANEL, 0, D / 16, lane_of());
  c->parity_q ^= 1;
  put_aside(c);
  if (lane_of()) return;
  if (c->pass + 1 < c->a->unit_tiles)
    load_q(c, c->unit, c->pass + 1);
  else if (c->next >= 0)
    load_q(c, c->next, 0);
}
/* Stages that only other rows of the unit see. They are released once they are full, so that no warp's release of one
 * unit counts for the unit before. */
GA_DEV void skip(const worker *c, int from) {
  if (!CAUSAL || ST == 1 || c->next < 0) return;
  GA_ROLL for (int n = from; n < unit_blocks(c->a, c->unit); n++) {
    mbar_wait(c->sb + OFF_KF + 8 * n, c->parity);
    release_k(c, n);
    if (warp_of() & 3) continue; /* one warp releases V for its warpgroup: the others may not wait, it may be full again */
    mbar_wait(c->sb + OFF_VF + 8 * n, c->parity);
    release_v(c, n);
  }
}
/* 64 rows of the warpgroup against all they see. */
GA_DEV void run_pass(worker *c) {
  float s[NS], o[NO], m[2], l[2];
  uint32_t p[NP], q[NQ];
  args a = c->a;
  take_q(c, q);
  const int sees = CAUSAL ? row_of(c, c->unit, c->pass) + 1 + a->rows_k - a->rows_q : a->rows_k; /* columns that all rows see */
  const int blocks = ST == 1 ? 1 : (imin(a->rows_k, imax(CAUSAL ? sees + 63 : sees, 1)) + BN - 1) / BN;
  const int free = imin(sees, a->rows_k) / BN;
  skip(c, blocks);
  issue_qk(c, s, q, 0);
  wgmma_wait(0);
  pin_f32(s, NS);
  release_k(c, 0);
  softmax_first(c, s, m, l, free);
  to_p(s, p);
  GA_UNROLL for (int i = 0; i < NO; i++) o[i] = 0.f;
  if (ST > 1)
    GA_ROLL for (int n = 1; n < blocks; n++) {
      issue_qk(c, s, q, n);
      issue_pv(c, o, p, n - 1);
      wgmma_wait(1);
      pin_f32(s, NS);
      if (n < free)
        step_free(c, s, o, p, q, m, l, n);
      else
        step_masked(c, s, o, p, m, l, n);
      release_k(c, n);
      release_v(c, n - 1);
      to_p(s, p);
    }
  issue_pv(c, o, p, blocks - 1);
  finish_pv(o, p);
  release_v(c, blocks - 1);
  take_back(c);
  epilogue(c, o, m, l);
}
GA_DEV void work(worker *c) {
  GA_ROLL for (; c->unit < c->a->tiles; c->unit += block_count()) {
    GA_ROLL for (c->pass = 0; c->pass < c->a->unit_tiles; c->pass++) {
      c->next = c->pass + 1 == c->a->unit_tiles && c->unit + block_count() < c->a->tiles ? c->unit + block_count() : -1;
      run_pass(c);
    }
    c->parity ^= 1;
  }
}

GA_KERNEL(2 * GA_P_BM, GA_P_BLOCKS) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_fwd a) {
  const uint32_t sb = smem_base();
  const int warp = warp_uniform(thread_index() >> 5), lane = thread_index() & 31;
  if (lane == 0) {
    mbar_init(sb + OFF_QF + 8 * warp, 1);
    GA_ROLL for (int i = warp; i < ST; i += WARPS) {
      mbar_init(sb + OFF_KF + 8 * i, 1);
      mbar_init(sb + OFF_VF + 8 * i, 1);
      mbar_init(sb + OFF_KE + 8 * i, WARPS);
      mbar_init(sb + OFF_VE + 8 * i, WGS);
    }
    mbar_init_fence();
    if (warp == 0) tmap_prefetch(&a.k);
    if (warp == 1) tmap_prefetch(&a.q);
    if (warp == 2) tmap_prefetch(&a.v);
  }
  block_sync();
  grid_launch_dependents();
  worker c = {&a, sb, block_index(), 0, 0, 0, -1};
  if (lane == 0) load_first(&c);
  work(&c);
}
