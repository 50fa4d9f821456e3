/* KERNEL    attn_fwd, sched short, sm90a: short sequences; no producer, every warp computes
 * COMPUTES  as attn_fwd_sm90a.cu, without its features
 * CONTRACT  as there, and rows_k <= BN * STAGES: K and V of one head stay in shared memory for all rows of a unit.
 *           Tensor maps: rows per box: q 64, k and v BN. O leaves by 16-byte stores.
 * DATA      gmem -TMA-> smem (Q, and all of K and V at once); Q smem x K smem -wgmma-> S regs -exp2-> P regs;
 *           P regs x V smem -wgmma-> O regs -> gmem
 * WORK      A warpgroup takes 64 rows. A unit is unit_tiles passes of BM rows of one head; a block takes unit after
 *           unit, and whoever is the last to use a stage asks for the next unit's K or V there: nobody waits to load.
 * SOFTMAX   As attn_fwd_sm90a.cu: the first block's maximum (STAGES 1: the row's), and a vote on the partial sums of
 *           the other blocks.
 * BARRIERS  name     arrivals    waiter            orders
 *           q_full   1+tx        its warpgroup     TMA write of 64 rows of Q -> wgmma read; two buffers a warpgroup
 *           k_full   1+tx        all               TMA write of K[n] -> wgmma read
 *           k_empty  warps       the last arrival  wgmma (and recomputing) reads of K[n] -> next TMA write
 *           v_full   1+tx        all               TMA write of V[n] -> wgmma read
 *           v_empty  warpgroups  the last arrival  wgmma reads of V[n] -> next TMA write
 *           turn w   named 1+w   warpgroup w       its turn to issue products (TURN 1)
 *           Q's buffer is taken again a pass after its last use: that pass's last PV, which needs all four warps, is
 *           complete.
 * BUDGET    2 BM threads, 65536 / (2 BM BLOCKS) registers; smem: OFF_*
 * LATENCY   A grid of one wave lasts two to five microseconds, so what stands between launches counts: everything that
 *           does not touch the inputs comes before grid_dependency_wait, under the end of the grid before; dependents
 *           are let go once this grid's loads are on their way (before, their blocks would take the place of blocks
 *           that can work); addresses of the results are worked out under the loads or the last product.
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
  AHEAD = GA_P_TURN == 4,         /* all blocks written out, S of the next under the softmax of this one */
  TURN = GA_P_TURN == 1 && !CAUSAL, /* warpgroups issue products in turn; under a causal mask their counts differ */
  ROOMY = ST <= 2, /* registers are left in the loop: addresses of the results are worked out under the loads */
  WGS = BM / 64,
  WARPS = 4 * WGS,
  PANELS_K = (D + 63) / 64,
  PANELS_V = (DV + 63) / 64,
  BLOCK_PANEL = BN * PANEL_ROW_BYTES,
  Q_PANEL = 64 * PANEL_ROW_BYTES,
  NS = BN / 2,
  NO = DV / 2,
  NP = BN / 4 /* registers of S, O, P per lane */
};
enum { /* shared memory, bytes */
       Q_BYTES = PANELS_K * Q_PANEL,
       K_BYTES = PANELS_K * BLOCK_PANEL,
       V_BYTES = PANELS_V * BLOCK_PANEL,
       OFF_K = 0,
       OFF_V = OFF_K + ST * K_BYTES,
       OFF_Q = OFF_V + ST * V_BYTES,
       OFF_QF = OFF_Q + 2 * WGS * Q_BYTES,
       OFF_KF = OFF_QF + 8 * 2 * WGS,
       OFF_VF = OFF_KF + 8 * ST,
       OFF_KE = OFF_VF + 8 * ST,
       OFF_VE = OFF_KE + 8 * ST,
       SMEM_BYTES = OFF_VE + 8 * ST
};
static_assert(BM % 64 == 0 && WGS >= 1 && WGS <= 4, "one warpgroup per 64 rows");
static_assert(BN % 16 == 0 && D % 16 == 0 && DV % 32 == 0 && BLOCK_PANEL % 1024 == 0, "tiles");
static_assert(!AHEAD || (ST >= 2 && !CAUSAL), "ahead: of another block, and every block for every row");
#ifdef GA_P_SMEM
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");
#endif

#define QK_SS    GA_CAT5(wgmma_m64n, GA_P_BN, k16_, GA_P_DTYPE, _ss)
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

/* A unit's head (of Q, of K and V) and batch. */
typedef struct {
  int head, head_k, batch;
} place;
GA_DEV place place_of(args a, int unit) {
  const int pair = unit / a->tiles_per_head, batch = pair / a->heads_q, head = pair - batch * a->heads_q;
  const place p = {head, head / a->group, batch};
  return p;
}
/* A warp and what it works on. */
typedef struct {
  args a;
  uint32_t sb;
  int warp, lane;
  int unit, pass;  /* work item, pass of it */
  int next;        /* the unit that wants a stage after this pass, or -1 */
  place at, then;  /* of unit, of next */
  uint32_t parity; /* of the stages' barriers: one turn a unit */
  uint32_t passes; /* passes done: buffer and parity of Q */
} worker;

/* ------------------------------------------------------------------ loads */
GA_DEV void expect_k(const worker *c, int n) {
  mbar_arrive_expect(c->sb + OFF_KF + 8 * n, K_BYTES);
}
GA_DEV void load_k(const worker *c, const place *p, int n) {
  GA_UNROLL for (int i = 0; i < PANELS_K; i++)
      bulk_load_4d(c->sb + OFF_K + n * K_BYTES + i * BLOCK_PANEL, &c->a->k, c->sb + OFF_KF + 8 * n, i * PANEL_COLS, n * BN, p->head_k,
                   p->batch, L2_EVICT_LAST);
}
GA_DEV void expect_v(const worker *c, int n) {
  mbar_arrive_expect(c->sb + OFF_VF + 8 * n, V_BYTES);
}
GA_DEV void load_v(const worker *c, const place *p, int n) {
  GA_UNROLL for (int i = 0; i < PANELS_V; i++)
      bulk_load_4d(c->sb + OFF_V + n * V_BYTES + i * BLOCK_PANEL, &c->a->v, c->sb + OFF_VF + 8 * n, i * PANEL_COLS, n * BN, p->head_k,
                   p->batch, L2_EVICT_LAST);
}
/* Warpgroup w's first row in a pass of a unit. Odd passes run backwards, so that under a causal mask every warpgroup has
 * its share of long and short rows. */
GA_DEV int row_of(args a, int unit, int pass, int w) {
  const int first = unit % a->tiles_per_head * a->unit_tiles;
  return (first + pass) * BM + 64 * (pass & 1 ? WGS - 1 - w : w);
}
GA_DEV void expect_q(const worker *c, int w, int buffer) {
  mbar_arrive_expect(c->sb + OFF_QF + 8 * (2 * w + buffer), Q_BYTES);
}
GA_DEV void load_q(const worker *c, const place *p, int w, int buffer, int row) {
  GA_UNROLL for (int i = 0; i < PANELS_K; i++)
      bulk_load_4d(c->sb + OFF_Q + (2 * w + buffer) * Q_BYTES + i * Q_PANEL, &c->a->q, c->sb + OFF_QF + 8 * (2 * w + buffer),
                   i * PANEL_COLS, row, p->head, p->batch, L2_EVICT_FIRST);
}
/* Blocks that the unit's rows see; when units follow one another, all, so that every stage turns with the units. */
GA_DEV int unit_blocks(args a, int unit) {
  const int rows = (unit % a->tiles_per_head + 1) * a->unit_tiles * BM + a->rows_k - a->rows_q;
  const int end = CAUSAL && block_count() == a->tiles ? imin(a->rows_k, imax(rows, 1)) : a->rows_k;
  return AHEAD ? ST : (end + BN - 1) / BN;
}
/* Which warp asks for K[n] and V[n] first. Many stages: one for all of K, one for all of V, so that they arrive in the
 * order of need; few: each its own. */
GA_DEV int loader_of_k(int n) {
  return ST > 2 || n == 0 ? 0 : (WGS + n) % WARPS;
}
GA_DEV int loader_of_v(int n) {
  return (ST > 2 ? WGS + 1 : WGS + ST + n) % WARPS;
}
/* The first unit's loads, one lane a warp: warp 0 begins with K, the next ones with their warpgroup's Q. */
GA_DEV void load_first(const worker *c) {
  const int blocks = unit_blocks(c->a, c->unit), w = c->warp - 1, row = row_of(c->a, c->unit, 0, w);
  const int is_q = w >= 0 && w < WGS;
  if (is_q) expect_q(c, w, 0);
  GA_ROLL for (int n = 0; n < blocks; n++) {
    if (c->warp == loader_of_k(n)) expect_k(c, n);
    if (c->warp == loader_of_v(n)) expect_v(c, n);
  }
  grid_dependency_wait(); /* the inputs may be the previous kernel's outputs; everything else follows from here */
  if (is_q) load_q(c, &c->at, w, 0, row);
  GA_ROLL for (int n = 0; n < blocks; n++) if (c->warp == loader_of_k(n)) load_k(c, &c->at, n);
  GA_ROLL for (int n = 0; n < blocks; n++) if (c->warp == loader_of_v(n)) load_v(c, &c->at, n);
  if (c->warp == 0) grid_launch_dependents();
}
/* This warp has read K[n] for the last time in this unit; the last warp asks for the next unit's. */
GA_DEV void release_k(const worker *c, int n) {
  const uint32_t bar = c->sb + OFF_KE + 8 * n;
  if (c->lane || c->next < 0 || !mbar_arrive_last(bar)) return;
  mbar_wait(bar, c->parity);
  expect_k(c, n);
  load_k(c, &c->then, n);
}
GA_DEV void release_v(const worker *c, int n) {
  const uint32_t bar = c->sb + OFF_VE + 8 * n;
  if (c->lane || c->warp & 3 || c->next < 0 || !mbar_arrive_last(bar)) return;
  mbar_wait(bar, c->parity);
  expect_v(c, n);
  load_v(c, &c->then, n);
}

/* ------------------------------------------------------------------ one block of columns */
/* Warpgroups issue their products in turn: left alone they fall into step, and the tensor cores idle while all take
 * exponentials. */
GA_DEV void turn_begin(const worker *c) {
  if (TURN && WGS > 1) bar_sync(1 + (c->warp >> 2), 256);
}
GA_DEV void turn_end(const worker *c) {
  if (TURN && WGS > 1) bar_arrive(1 + ((c->warp >> 2) + 1) % WGS, 256);
}
GA_DEV uint32_t q_buffer(const worker *c) {
  return 2 * (c->warp >> 2) + (c->passes & 1);
}
GA_DEV void wait_k(const worker *c, int n) {
  mbar_wait(c->sb + OFF_KF + 8 * n, c->parity);
}
GA_DEV void wait_v(const worker *c, int n) {
  mbar_wait(c->sb + OFF_VF + 8 * n, c->parity);
}
GA_DEV void issue_qk(const worker *c, float *s, int n) {
  const uint32_t dk = desc_k_major(c->sb + OFF_K) + n * (K_BYTES >> 4); /* low words: the upper ones are constants */
  const uint32_t dq = desc_k_major(c->sb + OFF_Q) + q_buffer(c) * (Q_BYTES >> 4);
  pin_f32(s, NS);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < D / 16; k++)
      QK_SS(s, desc(dq + (k / 4) * (Q_PANEL >> 4) + 2 * (k % 4)), desc(dk + (k / 4) * (BLOCK_PANEL >> 4) + 2 * (k % 4)), k != 0);
  wgmma_commit();
}
GA_DEV void issue_pv(const worker *c, float *o, uint32_t *p, int n) {
  const uint32_t dv = desc_n_major(c->sb + OFF_V, BLOCK_PANEL) + n * (V_BYTES >> 4);
  pin_u32(p, NP);
  pin_f32(o, NO);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < BN / 16; k++) PV_RST(o, p + 4 * k, desc(dv + k * 128), k || n > 0);
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
    tile_mask_above(s, BN, last, last, (c->lane & 3) * 2);
    return;
  }
  const int row = row_of(a, c->unit, c->pass, c->warp >> 2) + (c->warp & 3) * 16 + (c->lane >> 2) + a->rows_k - a->rows_q - n * BN;
  tile_mask_above(s, BN, imin(last, row), imin(last, row + 8), (c->lane & 3) * 2);
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
/* This warp's 16 rows of S again, by warp-level products, in the same layout. */
GA_DEV void recompute_s(const worker *c, float *s, int n) {
  const int lane = thread_index_anew() & 31;
  const uint32_t row = (uint32_t)((lane & 7) + ((lane >> 4) << 3)), chunk = (uint32_t)((lane >> 3) & 1);
  const uint32_t k0 = c->sb + OFF_K + n * K_BYTES, q0 = c->sb + OFF_Q + q_buffer(c) * Q_BYTES;
  GA_UNROLL for (int i = 0; i < NS; i++) s[i] = 0.f;
  GA_ROLL for (int k = 0; k < D / 16; k++) {
    uint32_t q[4], b[4];
    ldmatrix_x4(q, panel_chunk(q0 + (uint32_t)(k / 4) * Q_PANEL, (uint32_t)((c->warp & 3) * 16 + (lane & 15)),
                               (uint32_t)((k % 4) * 2 + (lane >> 4))));
    GA_UNROLL for (int j = 0; j < BN / 16; j++) {
      ldmatrix_x4(b, panel_chunk(k0 + (uint32_t)(k / 4) * BLOCK_PANEL, (uint32_t)(j * 16) + row, (uint32_t)(k % 4) * 2 + chunk));
      MMA_WARP(s + 8 * j, q, b[0], b[1]);
      MMA_WARP(s + 8 * j + 4, q, b[2], b[3]);
    }
  }
  warp_sync(); /* all lanes have read K, which lane 0 gives away */
}
GA_DEV void to_p(const float *s, uint32_t *p) {
  GA_UNROLL for (int i = 0; i < NP; i++) p[i] = PACK(s[2 * i], s[2 * i + 1]);
}
/* A block that is masked in part: a running maximum. */
GA_DEV void step_masked(const worker *c, float *s, float *o, uint32_t *p, float *m, float *l, int n) {
  finish_pv(o, p); /* early: P's registers are needed here, and such blocks are few */
  apply_mask(c, s, n);
  add_running(c, s, o, m, l);
}
/* A block that every row sees in full: the reference stays, the vote guards it. The pin keeps the exponentials above the
 * wait for the products in flight: the compiler would sink them, and nothing would overlap. */
GA_DEV void step_free(const worker *c, float *s, float *o, uint32_t *p, float *m, float *l, int n) {
  float sum[2];
  tile_exp2(s, BN, c->a->scale_log2, m, sum);
  const int bad = warp_any(!(fmaxf(sum[0], sum[1]) < SUM_LIMIT));
  if (!bad) {
    l[0] += sum[0];
    l[1] += sum[1];
  }
  pin_f32(s, NS);
  finish_pv(o, p);
  if (bad) {
    recompute_s(c, s, n);
    add_running(c, s, o, m, l);
  }
}
GA_DEV void step(const worker *c, float *s, float *o, uint32_t *p, float *m, float *l, int n, int free) {
  if (n < free)
    step_free(c, s, o, p, m, l, n);
  else
    step_masked(c, s, o, p, m, l, n);
  if (c->next >= 0) {
    release_k(c, n);
    release_v(c, n - 1);
  }
  to_p(s, p);
}

/* ------------------------------------------------------------------ results */
typedef struct {
  char *o;    /* this lane's 16 bytes of the first of its two rows */
  float *lse; /* null: not this lane */
  int row;
} target;
GA_DEV target target_of(const worker *c) {
  args a = c->a;
  const int row = row_of(a, c->unit, c->pass, c->warp >> 2) + (c->warp & 3) * 16 + (c->lane >> 2);
  const target t = {(char *)a->o_base + 2 * (c->at.batch * a->o_stride_batch + c->at.head * a->o_stride_head +
                                             (int64_t)row * a->o_stride_row + 8 * (c->lane & 3)),
                    a->lse && (c->lane & 3) == 0 ? a->lse + c->at.batch * a->lse_stride_batch + c->at.head * a->lse_stride_head + row : 0,
                    row};
  return t;
}
/* Row sums, log-sum-exp; v: what O is to be multiplied with. Under the last PV. */
GA_DEV void finish_rows(const worker *c, const target *t, const float *m, float *l, float *v) {
  float ref[2];
  reference(m, ref);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    l[i] = quad_sum(l[i]);
    v[i] = l[i] == 0.f ? 0.f : rcp(l[i]);
  }
  if (!t->lse) return;
  if (t->row < c->a->rows_q) stg_f32(t->lse, log_sum(c->a, ref[0], l[0]));
  if (t->row + 8 < c->a->rows_q) stg_f32(t->lse + 8, log_sum(c->a, ref[1], l[1]));
}
/* O straight from registers, 16 bytes per lane; only rows and columns that exist are written. */
GA_DEV void store_o(const worker *c, const target *t, const float *o, const float *v) {
  args a = c->a;
  const int q = c->lane & 3;
  GA_UNROLL for (int j = 0; j < DV / 32; j++) {
    uint32_t x[4], y[4];
    GA_UNROLL for (int i = 0; i < 4; i++) {
      x[i] = PACK(o[16 * j + 4 * i] * v[0], o[16 * j + 4 * i + 1] * v[0]) & keep_bits(v[0]);
      y[i] = PACK(o[16 * j + 4 * i + 2] * v[1], o[16 * j + 4 * i + 3] * v[1]) & keep_bits(v[1]);
    }
    quad_transpose(x, q);
    quad_transpose(y, q);
    const int in = 32 * j + 8 * q < a->cols_v;
    if (in && t->row < a->rows_q) stg_u4(t->o + 64 * j, x[0], x[1], x[2], x[3]);
    if (in && t->row + 8 < a->rows_q) stg_u4(t->o + 16 * a->o_stride_row + 64 * j, y[0], y[1], y[2], y[3]);
  }
}

/* ------------------------------------------------------------------ work */
/* The next pass's Q is asked for, into the buffer of the pass before. */
GA_DEV void prefetch_q(const worker *c) {
  const int w = c->warp >> 2, buffer = (c->passes & 1) ^ 1, more = c->pass + 1 < c->a->unit_tiles;
  if (c->lane || c->warp & 3 || (!more && c->next < 0)) return;
  expect_q(c, w, buffer);
  if (more)
    load_q(c, &c->at, w, buffer, row_of(c->a, c->unit, c->pass + 1, w));
  else
    load_q(c, &c->then, w, buffer, row_of(c->a, c->next, 0, w));
}
/* Stages that only other rows of the unit see. They are released once they are full, so that no warp's release of one
 * unit counts for the unit before. */
GA_DEV void skip(const worker *c, int from) {
  if (!CAUSAL || ST == 1 || c->next < 0 || c->lane) return;
  GA_ROLL for (int n = from; n < unit_blocks(c->a, c->unit); n++) {
    mbar_wait(c->sb + OFF_KF + 8 * n, c->parity);
    release_k(c, n);
    if (c->warp & 3) continue; /* one warp releases V for its warpgroup: the others may not wait, it may be full again */
    mbar_wait(c->sb + OFF_VF + 8 * n, c->parity);
    release_v(c, n);
  }
}
/* All blocks but the last PV, one after the other. */
GA_DEV void blocks_in_turn(const worker *c, float *o, uint32_t *p, float *m, float *l, int blocks, int free) {
  float s[NS];
  wait_k(c, 0);
  turn_begin(c);
  issue_qk(c, s, 0);
  turn_end(c);
  wgmma_wait(0);
  pin_f32(s, NS);
  release_k(c, 0);
  softmax_first(c, s, m, l, free);
  to_p(s, p);
  if (ST > 1)
    GA_ROLL for (int n = 1; n < blocks; n++) {
      wait_k(c, n);
      wait_v(c, n - 1);
      turn_begin(c);
      issue_qk(c, s, n);
      issue_pv(c, o, p, n - 1);
      turn_end(c);
      wgmma_wait(1);
      pin_f32(s, NS);
      step(c, s, o, p, m, l, n, free);
    }
}
/* The same with S one block ahead: while one warpgroup is alone on its multiprocessor, nothing else hides the products. */
GA_DEV void blocks_ahead(const worker *c, float *o, uint32_t *p, float *m, float *l, int free) {
  float s[2][NS];
  wait_k(c, 0);
  issue_qk(c, s[0], 0);
  wait_k(c, 1);
  issue_qk(c, s[1], 1);
  wgmma_wait(1);
  pin_f32(s[0], NS);
  GA_UNROLL for (int n = 0; n < ST; n++) {
    float *x = s[n % 2];
    if (n == 0) {
      release_k(c, 0);
      softmax_first(c, x, m, l, free);
      pin_f32(x, NS);
      wgmma_wait(0);
      to_p(x, p);
    } else {
      step(c, x, o, p, m, l, n, free);
    }
    pin_f32(s[(n + 1) % 2], NS);
    if (n + 2 < ST) {
      wait_k(c, n + 2);
      issue_qk(c, x, n + 2);
    }
    if (n + 1 < ST) {
      wait_v(c, n);
      issue_pv(c, o, p, n);
    }
  }
}
/* 64 rows of the warpgroup against all they see. */
GA_DEV void run_pass(worker *c) {
  float o[NO], m[2], l[2], v[2];
  uint32_t p[NP];
  args a = c->a;
  const int sees = CAUSAL ? row_of(a, c->unit, c->pass, c->warp >> 2) + 1 + a->rows_k - a->rows_q : a->rows_k; /* columns that all rows see */
  const int blocks = ST == 1 ? 1 : AHEAD ? ST : (imin(a->rows_k, imax(CAUSAL ? sees + 63 : sees, 1)) + BN - 1) / BN;
  const int free = imin(sees, a->rows_k) / BN;
  target t;
  if (ROOMY) t = target_of(c);
  prefetch_q(c);
  skip(c, blocks);
  mbar_wait(c->sb + OFF_QF + 8 * q_buffer(c), c->passes >> 1 & 1);
  if (AHEAD)
    blocks_ahead(c, o, p, m, l, free);
  else
    blocks_in_turn(c, o, p, m, l, blocks, free);
  wait_v(c, blocks - 1);
  turn_begin(c);
  issue_pv(c, o, p, blocks - 1);
  turn_end(c);
  if (!ROOMY) t = target_of(c);
  finish_rows(c, &t, m, l, v);
  finish_pv(o, p);
  release_v(c, blocks - 1);
  store_o(c, &t, o, v);
  c->passes++;
}
GA_DEV void work(worker *c) {
  args a = c->a;
  GA_ROLL for (;;) {
    const int after = c->unit + block_count() < a->tiles ? c->unit + block_count() : -1;
    if (after >= 0) c->then = place_of(a, after);
    GA_ROLL for (c->pass = 0; c->pass < a->unit_tiles; c->pass++) {
      c->next = c->pass + 1 == a->unit_tiles ? after : -1;
      run_pass(c);
    }
    if (after < 0) return;
    c->unit = after;
    c->at = c->then;
    c->parity ^= 1;
  }
}

GA_KERNEL(2 * GA_P_BM, GA_P_BLOCKS) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_fwd a) {
  const uint32_t sb = smem_base();
  const int warp = warp_uniform(thread_index() >> 5), lane = thread_index() & 31;
  if (lane == 0) {
    if (warp == 0) tmap_prefetch(&a.k);
    if (warp == 1) tmap_prefetch(&a.q);
    if (warp == 2) tmap_prefetch(&a.v);
    if (warp < 2 * WGS) mbar_init(sb + OFF_QF + 8 * warp, 1);
    GA_ROLL for (int i = warp; i < ST; i += WARPS) {
      mbar_init(sb + OFF_KF + 8 * i, 1);
      mbar_init(sb + OFF_VF + 8 * i, 1);
      mbar_init(sb + OFF_KE + 8 * i, WARPS);
      mbar_init(sb + OFF_VE + 8 * i, WGS);
    }
    mbar_init_fence();
  }
  worker c = {&a, sb, warp, lane, block_index(), 0, -1, place_of(&a, block_index()), {0, 0, 0}, 0, 0};
  block_sync();
  if (TURN && WGS > 1 && warp >= WARPS - 4) bar_arrive(1, 256); /* warpgroup 0 starts */
  if (lane == 0) load_first(&c);
  work(&c);
}
