/* KERNEL    attn_fwd, sched short, sm90a: short sequences; no producer, every warp computes
 * COMPUTES  as attn_fwd_sm90a.cu, without its features
 * CONTRACT  as there, and rows_k <= BN * STAGES: K and V of one head stay in shared memory for all rows of a unit.
 *           Tensor maps: rows per box: q 64, k and v BN. O is written by 16-byte stores.
 * DATA      gmem -TMA-> smem (Q, and all of K and V at once); Q smem x K smem -wgmma-> S regs -exp2-> P regs;
 *           P regs x V smem -wgmma-> O regs -> gmem
 * WORK      A warpgroup takes 64 rows. RESIDENT 1: a unit is unit_tiles passes of BM rows of one head; a block takes
 *           unit after unit, and its last warp to finish a unit issues the copies of the next unit's K and V.
 *           RESIDENT 2: a block has one tile of BM rows.
 * SOFTMAX   The reference of a row is the maximum of its first block (pipelined: of its first two); it moves where a
 *           lane's part of a block's sum is far above the mean of earlier ones (next_weights), as in
 *           attn_fwd_sm90a.cu. The sum of a finished row is checked: if it is not in (2^-60, 2^60), NaN included, the
 *           warp recomputes its 16 rows with a running maximum, by warp-level products. Both ways are exact.
 * BARRIERS  name          arrivals   waiter          orders
 *           q_full[b][w]  1+tx       warpgroup w     TMA write of 64 rows of Q -> wgmma read; b: of two buffers
 *                                                    (RESIDENT 1). A buffer is reused once the next pass's first
 *                                                    product, which needs all four warps, is complete
 *           k_full[n]     1+tx       all             TMA write of K[n] -> wgmma read
 *           v_full[n]     1+tx       all             TMA write of V[n] -> wgmma read
 *           done          warps      last to arrive  reads of K and V -> the next unit's TMA writes (RESIDENT 1)
 *           turn w        named 1+w  warpgroup w     its turn to issue products (PINGPONG 1)
 * BUDGET    2 BM threads, 65536 / (2 BM BLOCKS) registers; smem: OFF_*
 * LATENCY   A grid of one wave lasts two to five microseconds, so the time between launches matters. All work that
 *           does not touch the inputs precedes grid_dependency_wait and overlaps the end of the previous grid.
 *           Dependent grids may start once this grid's loads are in flight; earlier, their blocks would occupy the
 *           place of blocks that can work. Addresses of the results are computed during the loads or the last product.
 * MEASURED  docs/log/attention.md
 * REF       Dao et al. 2022; Shah et al. 2024
 */
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/dev/tile/reg_max.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"
#include "cuda/kern/attn/attn_lse.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: head dim of q and k, padded: 64"
#endif
#ifndef GA_P_DV
#error "GA_P_DV: head dim of v and o, padded: 64"
#endif
#ifndef GA_P_MASK
#error "GA_P_MASK: GA_P_MASK_FULL or GA_P_MASK_CAUSAL"
#endif
#ifndef GA_P_BM
#error "GA_P_BM: rows of Q per tile: 64 per warpgroup"
#endif
#ifndef GA_P_BN
#error "GA_P_BN: rows of K and V per block"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: blocks of K and V of a head"
#endif
#ifndef GA_P_PINGPONG
#error \
    "GA_P_PINGPONG: warpgroups take turns at: 0 nothing, 1 issuing products; 4: S a block ahead, all blocks written out"
#endif
#ifndef GA_P_RESIDENT
#error "GA_P_RESIDENT: K and V of a head stay for several tiles (1), or are for one (2)"
#endif
#ifndef GA_P_BLOCKS
#error "GA_P_BLOCKS: blocks per multiprocessor"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#define GA_DT_bf16 0
#define GA_DT_f16  1

enum {
  CAUSAL = GA_P_MASK == GA_P_MASK_CAUSAL,
  BF16 = GA_CAT(GA_DT_, GA_P_DTYPE) == GA_DT_bf16, /* f16 has not the range */
  D = GA_P_D,
  DV = GA_P_DV,
  BM = GA_P_BM,
  BN = GA_P_BN,
  ST = GA_P_STAGES,
  PIPELINED = GA_P_PINGPONG == 4, /* all blocks written out, S of the next under the exponentials of this one */
  PINGPONG =
      GA_P_PINGPONG == 1 && !CAUSAL, /* warpgroups issue products in turn; under a causal mask their counts differ */
  UNITS = GA_P_RESIDENT == 1,
  WGS = BM / 64,
  WARPS = 4 * WGS,
  QBUFS = UNITS ? 2 : 1,
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
       OFF_QF = OFF_Q + QBUFS * WGS * Q_BYTES,
       OFF_KF = OFF_QF + 8 * QBUFS * WGS,
       OFF_VF = OFF_KF + 8 * ST,
       OFF_DONE = OFF_VF + 8 * ST,
       SMEM_BYTES = OFF_DONE + 8
};
static_assert(BF16, "weights without a reference need the range of bf16");
static_assert(BM % 64 == 0 && WGS >= 1 && WGS <= 4, "one warpgroup per 64 rows");
static_assert(BN % 32 == 0 && D % 16 == 0 && DV % 32 == 0 && BLOCK_PANEL % 1024 == 0, "tiles");
static_assert(!PIPELINED || ((ST == 2 || ST == 4) && !CAUSAL && !UNITS),
              "ahead: every block for every row, of one tile");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

#define QK_SS    GA_CAT5(wgmma_m64n, GA_P_BN, k16_, GA_P_DTYPE, _ss)
#define PV_RST   GA_CAT5(wgmma_m64n, GA_P_DV, k16_, GA_P_DTYPE, _rst)
#define MMA_WARP GA_CAT(mma_m16n8k16_, GA_P_DTYPE)
#define PACK     GA_CAT(pack_, GA_P_DTYPE)

#define MOVES     6.f                       /* as in attn_fwd_sm90a.cu */
#define MOST_BY   125.f                     /* 2^-126 is the smallest number that is not flushed to 0 */
#define SUM_MOST  1.152921504606846976e18f  /* 2^60 */
#define SUM_LEAST 8.673617379884035472e-19f /* 2^-60 */

typedef const ga_kargs_attn_fwd *args;

GA_DEV int imin(int a, int b) { return a < b ? a : b; }
GA_DEV int imax(int a, int b) { return a > b ? a : b; }

/* A unit's head and batch. */
typedef struct {
  int head, batch;
} head_coord;
GA_DEV head_coord head_coord_of(args a, int unit) {
  const int pair = unit / a->tiles_per_head, batch = pair / a->heads_q, head = pair - batch * a->heads_q;
  const head_coord p = {head, batch};
  return p;
}
/* A warp and what it works on. */
typedef struct {
  args a;
  uint32_t sb;
  int warp, lane;
  int unit, pass; /* work item, pass of it */
  int next;       /* the unit that comes after this pass, or -1 */
  head_coord at;  /* of unit */
  uint32_t turns; /* bit 0: units done, parity of the stages' barriers; above: passes done, buffer and parity of Q */
} worker;

/* ------------------------------------------------------------------ loads */
GA_DEV void load_stage(const ga_tmap *map, uint32_t dst, uint32_t bar, int panels, int head, int batch, int n) {
  GA_UNROLL for (int i = 0; i < panels; i++)
      bulk_load_4d(dst + i * BLOCK_PANEL, map, bar, i * PANEL_COLS, n * BN, head, batch, L2_EVICT_LAST);
}
GA_DEV void expect_k(const worker *c, int n) { mbar_arrive_expect(c->sb + OFF_KF + 8 * n, K_BYTES); }
GA_DEV void load_k(const worker *c, int head, int batch, int n) {
  load_stage(&c->a->k, c->sb + OFF_K + n * K_BYTES, c->sb + OFF_KF + 8 * n, PANELS_K, head, batch, n);
}
GA_DEV void expect_v(const worker *c, int n) { mbar_arrive_expect(c->sb + OFF_VF + 8 * n, V_BYTES); }
GA_DEV void load_v(const worker *c, int head, int batch, int n) {
  load_stage(&c->a->v, c->sb + OFF_V + n * V_BYTES, c->sb + OFF_VF + 8 * n, PANELS_V, head, batch, n);
}
/* Warpgroup w's first row in a pass of a unit. Odd passes run backwards, so that under a causal mask every warpgroup
 * has its share of long and short rows. */
GA_DEV int row_of_pass(args a, int unit, int pass, int w) {
  if (!UNITS) return unit % a->tiles_per_head * BM + 64 * w;
  const int first = unit % a->tiles_per_head * a->unit_tiles;
  return (first + pass) * BM + 64 * (pass & 1 ? WGS - 1 - w : w);
}
GA_DEV uint32_t q_full(const worker *c, int w, int buffer) { return c->sb + OFF_QF + 8 * (QBUFS * w + buffer); }
GA_DEV void expect_q(const worker *c, int w, int buffer) { mbar_arrive_expect(q_full(c, w, buffer), Q_BYTES); }
GA_DEV void load_q(const worker *c, const head_coord *p, int w, int buffer, int row) {
  GA_UNROLL for (int i = 0; i < PANELS_K; i++)
      bulk_load_4d(c->sb + OFF_Q + (QBUFS * w + buffer) * Q_BYTES + i * Q_PANEL, &c->a->q, q_full(c, w, buffer),
                   i * PANEL_COLS, row, p->head, p->batch, L2_EVICT_FIRST);
}
/* Blocks that the unit's rows see; one without columns too, so that its rows are written. When units follow one
 * another, all, so that every stage turns with the units. */
GA_DEV int unit_blocks(args a, int unit) {
  if (PIPELINED) return ST;
  const int rows = (unit % a->tiles_per_head + 1) * (UNITS ? a->unit_tiles : 1) * BM + a->rows_k - a->rows_q;
  const int end = CAUSAL && block_count() == a->tiles ? imin(a->rows_k, imax(rows, 1)) : a->rows_k;
  return (imax(end, 1) + BN - 1) / BN;
}
/* Which warp asks for K[n] and V[n] of the first unit. Many stages: one for all of K, one for all of V, so that they
 * arrive in the order of need; few: each its own. */
GA_DEV int loader_of_k(int n) { return ST > 2 || n == 0 ? 0 : (WGS + n) % WARPS; }
GA_DEV int loader_of_v(int n) { return (ST > 2 ? WGS + 1 : WGS + ST + n) % WARPS; }
/* The first unit's loads, one lane a warp: warp 0 begins with K, the next ones with their warpgroup's Q. head: of K and
 * V, divided out before the wait. */
GA_DEV void load_first(const worker *c, int head) {
  const int blocks = unit_blocks(c->a, c->unit), w = c->warp - 1, row = row_of_pass(c->a, c->unit, 0, w);
  const int is_q = w >= 0 && w < WGS;
  if (is_q) expect_q(c, w, 0);
  GA_ROLL for (int n = 0; n < blocks; n++) {
    if (c->warp == loader_of_k(n)) expect_k(c, n);
    if (c->warp == loader_of_v(n)) expect_v(c, n);
  }
  grid_dependency_wait(); /* the inputs may be the previous kernel's outputs; everything else follows from here */
  if (is_q) load_q(c, &c->at, w, 0, row);
  GA_ROLL for (int n = 0; n < blocks; n++) if (c->warp == loader_of_k(n)) load_k(c, head, c->at.batch, n);
  GA_ROLL for (int n = 0; n < blocks; n++) if (c->warp == loader_of_v(n)) load_v(c, head, c->at.batch, n);
  if (c->warp == 0) grid_launch_dependents();
}
/* Starts the copy of the next pass's Q into the buffer of the pass before. */
GA_DEV void prefetch_q(const worker *c) {
  const int w = c->warp >> 2, buffer = (c->turns >> 1 & 1) ^ 1, more = c->pass + 1 < c->a->unit_tiles;
  if (thread_index_anew() & 31 || c->warp & 3 || (!more && c->next < 0)) return;
  expect_q(c, w, buffer);
  const head_coord then = more ? c->at : head_coord_of(c->a, c->next);
  load_q(c, &then, w, buffer, more ? row_of_pass(c->a, c->unit, c->pass + 1, w) : row_of_pass(c->a, c->next, 0, w));
}
/* This warp has done with the unit; the last one asks for the next unit's K and V. */
GA_DEV void hand_over(const worker *c) {
  const uint32_t bar = c->sb + OFF_DONE;
  if (c->lane || !mbar_arrive_last(bar)) return;
  mbar_wait(bar, c->turns & 1);
  const head_coord then = head_coord_of(c->a, c->next);
  const int head = then.head / c->a->group;
  GA_ROLL for (int n = 0; n < unit_blocks(c->a, c->next); n++) {
    expect_k(c, n);
    load_k(c, head, then.batch, n);
    expect_v(c, n);
    load_v(c, head, then.batch, n);
  }
}

/* ------------------------------------------------------------------ products */
/* Warpgroups issue their products in turn: left alone they fall into step, and the tensor cores idle while all take
 * exponentials. */
GA_DEV void pingpong_wait(const worker *c) {
  if (PINGPONG && WGS > 1) bar_sync(1 + (c->warp >> 2), 256);
}
GA_DEV void pingpong_signal(const worker *c) {
  if (PINGPONG && WGS > 1) bar_arrive(1 + ((c->warp >> 2) + 1) % WGS, 256);
}
GA_DEV uint32_t q_buffer(const worker *c) { return QBUFS * (c->warp >> 2) + (UNITS ? c->turns >> 1 & 1 : 0); }
GA_DEV void wait_k(const worker *c, int n) { mbar_wait(c->sb + OFF_KF + 8 * n, c->turns & 1); }
GA_DEV void wait_v(const worker *c, int n) { mbar_wait(c->sb + OFF_VF + 8 * n, c->turns & 1); }
/* Descriptors of Q, K[n], V[n]: low words (the upper ones are constants), uniform, as wgmma wants them; from a vector
 * register each of its steps would be carried over by itself. */
GA_DEV uint32_t desc_q(const worker *c) {
  return (uint32_t)warp_uniform((int)(desc_k_major(c->sb + OFF_Q) + q_buffer(c) * (Q_BYTES >> 4)));
}
GA_DEV uint32_t desc_k(const worker *c, int n) {
  return (uint32_t)warp_uniform((int)(desc_k_major(c->sb + OFF_K) + n * (K_BYTES >> 4)));
}
GA_DEV uint32_t desc_v(const worker *c, int n) {
  return (uint32_t)warp_uniform((int)(desc_n_major(c->sb + OFF_V, BLOCK_PANEL) + n * (V_BYTES >> 4)));
}
GA_DEV void issue_qk(float *s, uint32_t dq, uint32_t dk) {
  pin_f32(s, NS);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < D / 16; k++) QK_SS(s, desc(dq + (k / 4) * (Q_PANEL >> 4) + 2 * (k % 4)),
                                                   desc(dk + (k / 4) * (BLOCK_PANEL >> 4) + 2 * (k % 4)), k != 0);
  wgmma_commit();
}
/* O (+)= P V by columns [from, to) of the block. */
GA_DEV void issue_pv(float *o, uint32_t *p, uint32_t dv, int from, int to, int accumulate) {
  pin_u32(p + from / 4, (to - from) / 4);
  pin_f32(o, NO);
  wgmma_fence();
  GA_UNROLL for (int k = from / 16; k < to / 16; k++) PV_RST(o, p + 4 * k, desc(dv + k * 128), k ? 1 : accumulate);
  wgmma_commit();
}
/* ------------------------------------------------------------------ softmax */
GA_DEV void apply_mask(const worker *c, float *s, int n, int free) {
  args a = c->a;
  const int last = a->rows_k - 1 - n * BN;
  if (n < free) return;
  const int lane = thread_index_anew() & 31;
  if (!CAUSAL) {
    tile_mask_above(s, BN, last, last, (lane & 3) * 2);
    return;
  }
  const int row = row_of_pass(a, c->unit, c->pass, c->warp >> 2) + (c->warp & 3) * 16 + (lane >> 2) + a->rows_k -
                  a->rows_q - n * BN;
  tile_mask_above(s, BN, imin(last, row), imin(last, row + 8), (lane & 3) * 2);
}
/* The reference m (log2 units; 0 where the row sees nothing) is the maximum of a row's first columns, so that their
 * largest weight is 1, which P holds without rounding. */
GA_DEV void first_reference(float f, float *m) {
  GA_UNROLL for (int i = 0; i < 2; i++) m[i] = m[i] == GA_NEG_INF ? 0.f : m[i] * f;
}
/* Weights of `cols` columns that the reference was made of, and their sums, this lane's part. */
GA_DEV void add_weights(float *x, int cols, float f, const float *m, float *l) {
  float sum[2];
  tile_exp2(x, cols, f, m, sum);
  l[0] += sum[0];
  l[1] += sum[1];
}
/* Weights of `cols` further columns, of which `before` come before. Where a lane's part of their sum is MOVES times the
 * mean of such parts so far, and above 1.004, which is rounded to 1 as well, the reference moves to the largest; the
 * inverse is good to 12 %. Returns whether it has, and what O is to be multiplied with. An overflow makes NaN of l, and
 * so does a factor that would be flushed to 0. */
GA_DEV int next_weights(float *x, int cols, int before, float f, float *m, float *l, float *factor) {
  const float inverse = __uint_as_float(0x7ef311c7u - float_bits((float)before)); /* 1 / before */
  float sum[2], limit[2], most[2];
  GA_UNROLL for (int i = 0; i < 2; i++) limit[i] = fmaxf(l[i] * inverse * (MOVES * (float)cols), 1.004f);
  tile_exp2(x, cols, f, m, sum);
  const int grown = warp_any(!(sum[0] < limit[0] && sum[1] < limit[1]));
  if (grown) {
    tile_row_max_positive(x, cols, most);
    GA_UNROLL for (int i = 0; i < 2; i++) {
      const float by = fmaxf(lg2(most[i]), 0.f), now = m[i] + by; /* rounded: the factor is that of the step taken */
      factor[i] = by < MOST_BY ? ex2(m[i] - now) : __uint_as_float(0x7fffffffu);
      m[i] = now;
      l[i] *= factor[i];
      sum[i] *= factor[i];
    }
    tile_scale_rows(x, cols, factor);
  }
  l[0] += sum[0];
  l[1] += sum[1];
  return grown;
}
GA_DEV void to_p(const float *s, int cols, uint32_t *p) {
  GA_UNROLL for (int i = 0; i < cols / 4; i++) p[i] = PACK(s[2 * i], s[2 * i + 1]);
}

/* Every block in turn. P is packed at the head of the loop: ptxas puts a wait for products as early in its basic block
 * as it can, and would have the exponentials wait for the last PV. */
GA_DEV void blocks_pingpong(const worker *c, float *o, float *m, float *l, int blocks, int free) {
  const float f = c->a->scale_log2;
  float s[NS], factor[2] = {1.f, 1.f};
  int grown = 0;
  uint32_t p[NP], q = desc_q(c), k = desc_k(c, 0);
  wait_k(c, 0);
  pingpong_wait(c);
  issue_qk(s, q, k);
  pingpong_signal(c);
  wgmma_wait(0);
  pin_f32(s, NS);
  if (UNITS) prefetch_q(c);
  apply_mask(c, s, 0, free);
  tile_row_max(s, BN, m);
  first_reference(f, m);
  add_weights(s, BN, f, m, l);
  GA_ROLL for (int n = 1; n < blocks; n++) {
    k = desc_k(c, n);
    const uint32_t v = desc_v(c, n - 1);
    q = desc_q(c);
    wgmma_wait(0);
    pin_f32(o, NO);
    pin_u32(p, NP);
    if (grown) tile_scale_rows(o, DV, factor);
    to_p(s, BN, p);
    if (CAUSAL || c->pass == 0) { /* later passes that see no more find all there */
      wait_k(c, n);
      wait_v(c, n - 1);
    }
    pingpong_wait(c);
    issue_qk(s, q, k);
    issue_pv(o, p, v, 0, BN, n > 1);
    pingpong_signal(c);
    wgmma_wait(1);
    pin_f32(s, NS);
    apply_mask(c, s, n, free);
    grown = next_weights(s, BN, n * BN, f, m, l, factor);
  }
  const uint32_t v = desc_v(c, blocks - 1);
  wgmma_wait(0);
  pin_f32(o, NO);
  pin_u32(p, NP);
  if (grown) tile_scale_rows(o, DV, factor);
  to_p(s, BN, p);
  wait_v(c, blocks - 1);
  pingpong_wait(c);
  issue_pv(o, p, v, 0, BN, blocks > 1);
  pingpong_signal(c);
}
/* Waits for the products that run during a block's exponentials: PV of the block before and S of the next. Branches
 * that touch O must follow. */
GA_DEV void finish_products(float *o, float *next, uint32_t *p) {
  wgmma_wait(0);
  pin_f32(o, NO);
  pin_f32(next, NS);
  pin_u32(p, NP);
}
/* The same with S one block ahead, and the last PV of two blocks in two halves: while one or two warpgroups have a
 * multiprocessor for themselves, nothing else hides the products. The reference is made of the first two blocks. */
GA_DEV void blocks_pipelined(const worker *c, float *o, float *m, float *l, int free) {
  float s[2][NS], m1[2], factor[2];
  uint32_t p[2][NP];
  const float f = c->a->scale_log2;
  const uint32_t q = desc_q(c), k = desc_k(c, 0), v = desc_v(c, 0);
  wait_k(c, 0);
  issue_qk(s[0], q, k);
  wait_k(c, 1);
  issue_qk(s[1], q, k + (K_BYTES >> 4));
  wgmma_wait(1);
  pin_f32(s[0], NS);
  apply_mask(c, s[0], 0, free);
  tile_row_max(s[0], BN, m);
  wgmma_wait(0);
  pin_f32(s[1], NS);
  apply_mask(c, s[1], 1, free);
  tile_row_max(s[1], BN, m1);
  m[0] = fmaxf(m[0], m1[0]);
  m[1] = fmaxf(m[1], m1[1]);
  first_reference(f, m);
  GA_UNROLL for (int n = 0; n < ST; n++) {
    float *x = s[n % 2];
    uint32_t *w = p[n % 2];
    if (ST == 2 && n == 1) {
      add_weights(x, BN / 2, f, m, l);
      to_p(x, BN / 2, w);
      wait_v(c, n);
      issue_pv(o, w, v + n * (V_BYTES >> 4), 0, BN / 2, 1);
      add_weights(x + NS / 2, BN / 2, f, m, l);
      to_p(x + NS / 2, BN / 2, w + NP / 2);
      issue_pv(o, w, v + n * (V_BYTES >> 4), BN / 2, BN, 1);
    } else {
      if (n < 2) {
        add_weights(x, BN, f, m, l);
      } else {
        if (n == 2) { /* S[2] and PV[0]; S[3] and PV[1] may run on */
          wgmma_wait(2);
          pin_f32(x, NS);
          pin_u32(w, NP);
        }
        apply_mask(c, x, n, free);
        const int grown = next_weights(x, BN, n * BN, f, m, l, factor);
        finish_products(o, s[(n + 1) % 2], p[(n + 1) % 2]);
        if (grown) tile_scale_rows(o, DV, factor);
      }
      to_p(x, BN, w);
      if (n + 2 < ST) {
        wait_k(c, n + 2);
        pin_u32(w, NP);
        issue_qk(x, q, k + (n + 2) * (K_BYTES >> 4));
      }
      wait_v(c, n);
      issue_pv(o, w, v + n * (V_BYTES >> 4), 0, BN, n > 0);
    }
  }
}

/* ------------------------------------------------------------------ rows whose sums are out of range */
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
      ldmatrix_x4(b, panel_chunk(k0 + (uint32_t)(k / 4) * BLOCK_PANEL, (uint32_t)(j * 16) + row,
                                 (uint32_t)(k % 4) * 2 + chunk));
      MMA_WARP(s + 8 * j, q, b[0], b[1]);
      MMA_WARP(s + 8 * j + 4, q, b[2], b[3]);
    }
  }
}
/* A block with a running maximum: m, exponentials, l and O brought to it. */
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
/* O += P V of block n, this warp's rows. */
GA_DEV void multiply_v(const worker *c, float *o, const uint32_t *p, int n) {
  const int lane = thread_index_anew() & 31;
  const uint32_t v0 = c->sb + OFF_V + n * V_BYTES;
  GA_UNROLL for (int k = 0; k < BN / 16; k++) GA_UNROLL for (int j = 0; j < DV / 16; j++) {
    uint32_t b[4];
    ldmatrix_x4_trans(b, panel_chunk(v0 + (uint32_t)(j / 4) * BLOCK_PANEL, (uint32_t)(16 * k + (lane & 15)),
                                     (uint32_t)((j % 4) * 2 + (lane >> 4))));
    MMA_WARP(o + 8 * j, p + 4 * k, b[0], b[1]);
    MMA_WARP(o + 8 * j + 4, p + 4 * k, b[2], b[3]);
  }
}
/* O, m (log2 units) and l of this warp's 16 rows, from the beginning. */
GA_DEV void once_more(const worker *c, float *o, float *m, float *l, int blocks, int free) {
  float s[NS];
  uint32_t p[NP], done = 0; /* with what has been loaded, all of which O comes of */
  tile_fill(o, DV, 0.f);
  m[0] = m[1] = GA_NEG_INF;
  l[0] = l[1] = 0.f;
  GA_ROLL for (int n = 0; n < blocks; n++) {
    recompute_s(c, s, n);
    apply_mask(c, s, n, free);
    add_running(c, s, o, m, l);
    to_p(s, BN, p);
    multiply_v(c, o, p, n);
    done |= loads_done_f32(o, NO, 8);
  }
  wait_k(c, (int)done); /* it is there, and nothing passes it before the loads have returned: what was read may be
                           overwritten */
  warp_sync();          /* all lanes have read K and V, which lane 0 gives away */
  l[0] = quad_sum(l[0]);
  l[1] = quad_sum(l[1]);
}

/* ------------------------------------------------------------------ results */
typedef struct {
  char *o;    /* this lane's 16 bytes of the first of its two rows */
  float *lse; /* null: not this lane */
  int row;
  int cols; /* of V from this lane's first on */
} target;
GA_DEV target tile_target(const worker *c) {
  args a = c->a;
  const int lane = thread_index_anew() & 31,
            row = row_of_pass(a, c->unit, c->pass, c->warp >> 2) + (c->warp & 3) * 16 + (lane >> 2);
  const target t = {(char *)a->o_base + 2 * (c->at.batch * a->o_stride_batch + c->at.head * a->o_stride_head +
                                             (int64_t)row * a->o_stride_row + 8 * (lane & 3)),
                    a->lse && (lane & 3) == 0
                        ? a->lse + c->at.batch * a->lse_stride_batch + c->at.head * a->lse_stride_head + row
                        : 0,
                    row, a->cols_v - 8 * (lane & 3)};
  return t;
}
/* v: what O is to be multiplied with; log-sum-exp. */
GA_DEV void finish_rows(const worker *c, const target *t, const float *m, const float *l, float *v) {
  float ref[2];
  reference(m, ref);
  GA_UNROLL for (int i = 0; i < 2; i++) v[i] = l[i] == 0.f ? 0.f : rcp(l[i]);
  if (!t->lse) return;
  if (t->row < c->a->rows_q) stg_f32(t->lse, log_sum(c->a, ref[0], l[0]));
  if (t->row + 8 < c->a->rows_q) stg_f32(t->lse + 8, log_sum(c->a, ref[1], l[1]));
}
/* O straight from registers, 16 bytes per lane; only rows and columns that exist are written. */
GA_DEV void store_o(const worker *c, const target *t, const float *o, const float *v) {
  args a = c->a;
  const int q = thread_index_anew() & 3;
  GA_UNROLL for (int j = 0; j < DV / 32; j++) {
    uint32_t x[4], y[4];
    GA_UNROLL for (int i = 0; i < 4; i++) {
      x[i] = PACK(o[16 * j + 4 * i] * v[0], o[16 * j + 4 * i + 1] * v[0]) & keep_bits(v[0]);
      y[i] = PACK(o[16 * j + 4 * i + 2] * v[1], o[16 * j + 4 * i + 3] * v[1]) & keep_bits(v[1]);
    }
    quad_transpose(x, q);
    quad_transpose(y, q);
    const int in = 32 * j < t->cols;
    if (in && t->row < a->rows_q) stg_u4(t->o + 64 * j, x[0], x[1], x[2], x[3]);
    if (in && t->row + 8 < a->rows_q) stg_u4(t->o + 16 * a->o_stride_row + 64 * j, y[0], y[1], y[2], y[3]);
  }
}

/* ------------------------------------------------------------------ work */
/* 64 rows of the warpgroup against all they see. */
GA_DEV void run_pass(worker *c) {
  float o[NO], m[2], l[2] = {0.f, 0.f}, v[2];
  args a = c->a;
  const int sees = CAUSAL ? row_of_pass(a, c->unit, c->pass, c->warp >> 2) + 1 + a->rows_k - a->rows_q
                          : a->rows_k; /* columns that all rows see */
  const int blocks = PIPELINED ? ST : (imax(imin(a->rows_k, CAUSAL ? sees + 63 : sees), 1) + BN - 1) / BN;
  const int free = imin(sees, a->rows_k) / BN;
  target t;
  if (PIPELINED) t = tile_target(c); /* registers are left: under the loads */
  mbar_wait(q_full(c, c->warp >> 2, UNITS ? c->turns >> 1 & 1 : 0), c->turns >> 2 & 1);
  if (PIPELINED)
    blocks_pipelined(c, o, m, l, free);
  else
    blocks_pingpong(c, o, m, l, blocks, free);
  if (!PIPELINED) t = tile_target(c);
  l[0] = quad_sum(l[0]);
  l[1] = quad_sum(l[1]);
  const int sound = warp_all(l[0] < SUM_MOST && l[1] < SUM_MOST && l[0] > SUM_LEAST &&
                             l[1] > SUM_LEAST); /* not so where one is NaN */
  finish_rows(c, &t, m, l, v);
  wgmma_wait(0);
  pin_f32(o, NO);
  if (!sound) {
    once_more(c, o, m, l, blocks, free);
    t = tile_target(c);
    finish_rows(c, &t, m, l, v);
  }
  if (UNITS && c->next >= 0) hand_over(c);
  store_o(c, &t, o, v);
  c->turns += 2;
}
GA_DEV void work(worker *c) {
  args a = c->a;
  GA_ROLL for (;;) {
    const int after = c->unit + block_count() < a->tiles ? c->unit + block_count() : -1;
    GA_ROLL for (c->pass = 0; c->pass < a->unit_tiles; c->pass++) {
      c->next = c->pass + 1 == a->unit_tiles ? after : -1;
      run_pass(c);
    }
    if (after < 0) return;
    c->unit = after;
    c->at = head_coord_of(a, after);
    c->turns ^= 1;
  }
}

GA_KERNEL(2 * GA_P_BM, GA_P_BLOCKS) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_fwd a) {
  const uint32_t sb = (uint32_t)warp_uniform((int)smem_base()); /* kept, rather than worked out at every use */
  const int warp = warp_uniform(thread_index() >> 5), lane = thread_index() & 31;
  if (lane == 0) {
    if (warp == 0) tmap_prefetch(&a.k);
    if (warp == 1) tmap_prefetch(&a.q);
    if (warp == 2) tmap_prefetch(&a.v);
    if (warp < QBUFS * WGS) mbar_init(sb + OFF_QF + 8 * warp, 1);
    GA_ROLL for (int i = warp; i < ST; i += WARPS) {
      mbar_init(sb + OFF_KF + 8 * i, 1);
      mbar_init(sb + OFF_VF + 8 * i, 1);
    }
    if (warp == 0) mbar_init(sb + OFF_DONE, WARPS);
    mbar_init_fence();
  }
  worker c = {&a, sb, warp, lane, block_index(), 0, -1, head_coord_of(&a, block_index()), 0};
  const int head = warp_uniform(c.at.head / a.group); /* now, not after the wait */
  block_sync();
  if (PINGPONG && WGS > 1 && warp >= WARPS - 4) bar_arrive(1, 256); /* warpgroup 0 starts */
  if (lane == 0) load_first(&c, head);
  if (UNITS)
    work(&c);
  else
    run_pass(&c);
}
