/* KERNEL    expert_tile, sm90a: products by experts with packed stacks (GA_LAYOUT_MMA_PACKED), for many rows an expert,
 *           on wgmma
 * COMPUTES  the slots' rows of ga_expert_gemm's IN, or the results of slots, which expert_sum adds up. Elements of W
 *           are bf16 (packed_bf16.h), X was converted by expert_x_sm80.cu; sums in f32
 * CONTRACT  SORTED; y f32, k at least 1; w packed, at multiples of 16 bytes; X as expert_x_sm80.cu made it, for the
 *           tensor map
 * WORK      a tile is BN sorted rows of one expert by two sets of 128 rows of W: those of the gate and of up, or 256
 *           neighbouring rows. A block counts all experts' tiles itself, and takes every block_count()-th. Two
 *           warpgroups have 64 rows of each set, the third copies. While products with one set run, the other set's
 *           next 64 columns are converted
 * DATA      W: bulk copies of whole units of both sets into a ring, then loads to registers, a chunk of 64 columns at a
 *           time. X: boxes of 64 columns into another ring, operand B, for both sets. Rows after the expert's last one
 *           are other experts' rows or zeros; products with them are not used. Y, transposed: registers, shared memory,
 *           gmem, 8 columns a lane
 * BARRIERS  name        arrivals   waiter       orders
 *           x_full[s]   1+tx       consumers    TMA write of X[s] -> wgmma read
 *           x_empty[s]  1/wg: 2    copier of X  wgmma reads of X[s] -> next TMA write
 *           w_full[s]   1+tx       consumers    copy of a unit to W[s] -> ld.shared
 *           w_empty[s]  1/warp: 8  copier of W  reads of W[s], returned -> next copy
 * BUDGET    what       how much
 *           threads    384; the last 128 copy
 *           registers  of copiers and consumers: 40 and 232
 *           blocks     1 per multiprocessor
 *           smem       OFF_*: rings of X and of W, results, experts' tiles, barriers
 * MEASURED  one H200, 8 of 128 experts, 768 x 2048 q4_k, gate and up of 4096 tokens with their conversion: 714 us
 */
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile.h"
#include "cuda/kern/expert/expert_rows.h"
#include "cuda/kern/expert/packed_chunks.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, ..."
#endif
#ifndef GA_P_BN
#error "GA_P_BN: rows of X of a tile: 32, 64 or 128"
#endif
#ifndef GA_P_X_STAGES
#error "GA_P_X_STAGES: of the ring of X"
#endif
#ifndef GA_P_W_STAGES
#error "GA_P_W_STAGES: of the ring of W"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#define T GA_CAT(T_, GA_P_W)
enum {
  BN = GA_P_BN,
  X_STAGES = GA_P_X_STAGES,
  W_STAGES = GA_P_W_STAGES,
  CONSUMERS = 256,
  LANES = CONSUMERS + 128,
  SETS = 2,
  NC = BN / 2 /* sums a lane and set */,
  UNIT_K = PACKED_K(T),
  UNIT_BYTES = PACKED_BYTES(T),
  CHUNKS = UNIT_K / 64,
  TILES = 8, /* of 16 rows, of a set */
  ROWS = 16,
  X_BYTES = BN * 128,
  W_BYTES = SETS * TILES * UNIT_BYTES,
  OUT_ROW = 80,
  OUT_BYTES = 32 * OUT_ROW, /* 32 rows of Y by a set, a warp's 16 columns each, and room against conflicts of banks */
  MOST_EXPERTS = 1024,
  OFF_W = X_STAGES * X_BYTES,
  OFF_OUT = OFF_W + W_STAGES * W_BYTES,
  OFF_FIRST = OFF_OUT + 8 * SETS * OUT_BYTES, /* tiles of X of lower experts, for each expert, and of all */
  OFF_XF = OFF_FIRST + (MOST_EXPERTS + 4) * 4,
  OFF_XE = OFF_XF + 8 * X_STAGES,
  OFF_WF = OFF_XE + 8 * X_STAGES,
  OFF_WE = OFF_WF + 8 * W_STAGES
};
static_assert(OFF_WE + 8 * W_STAGES == GA_P_SMEM, "the row's shared memory");
static_assert(OFF_W % 1024 == 0, "the swizzle of X");
#define WGMMA_BF16 GA_CAT3(wgmma_m64n, GA_P_BN, k16_bf16_rs)

typedef const ga_kargs_expert_tile *args;

/* --- the work of a block --- */

GA_DEV bool is_gated(args a) { return a->e.flags & EXPERT_GATED; }
GA_DEV int tiles_before(uint32_t sb, int expert) {
  return (int)float_bits(lds_f1(sb + OFF_FIRST + 4 * (uint32_t)expert));
}
GA_DEV int expert_tiles(args a, int expert) {
  if (expert_matrix(&a->e, expert) < 0) return 0;
  return (a->e.offsets[expert + 1] - a->e.offsets[expert] + BN - 1) / BN;
}

/* Writes how many tiles of X lower experts have, for each expert and for all. The first warp does. */
GA_DEV void count_tiles(args a, uint32_t sb) {
  const int lane = thread_index();
  if (lane >= 32) return;
  int before = 0;
  GA_ROLL for (int base = 0; base < a->e.n_experts; base += 32) {
    const int own = base + lane < a->e.n_experts ? expert_tiles(a, base + lane) : 0;
    int upto = own;
    GA_UNROLL for (int d = 1; d < 32; d *= 2) {
      const int x = (int)shfl_up_u32((uint32_t)upto, d);
      if (lane >= d) upto += x;
    }
    if (base + lane < a->e.n_experts)
      sts_u1(sb + OFF_FIRST + 4 * (uint32_t)(base + lane), (uint32_t)(before + upto - own));
    before += (int)shfl_idx_u32((uint32_t)upto, 31);
  }
  if (lane == 0) sts_u1(sb + OFF_FIRST + 4 * (uint32_t)a->e.n_experts, (uint32_t)before);
}

/* A tile: BN sorted rows from `row` on, of which `rows` are the expert's, by tile of Y `w_tile`. */
typedef struct {
  int expert, matrix, row, rows, w_tile;
} place;

GA_DEV int all_items(args a, uint32_t sb) { return tiles_before(sb, a->e.n_experts) * a->w_tiles; }

/* An expert's tiles that share rows of W run together. */
GA_DEV place item_place(args a, uint32_t sb, int item) {
  int low = 0, high = a->e.n_experts; /* the first tile of `low` is at `item` or before it, that of `high` after it */
  GA_ROLL while (high - low > 1) {
    const int mid = (low + high) / 2;
    if (tiles_before(sb, mid) * a->w_tiles <= item)
      low = mid;
    else
      high = mid;
  }
  const int first = tiles_before(sb, low), count = tiles_before(sb, low + 1) - first, at = item - first * a->w_tiles;
  const int begin = a->e.offsets[low] + at % count * BN, left = a->e.offsets[low + 1] - begin;
  const place p = {low, expert_matrix(&a->e, low), begin, left < BN ? left : BN, at / count};
  return p;
}

#define OWN_ITEMS(a, sb, t) GA_ROLL for (int t = block_index(); t < all_items(a, sb); t += block_count())

/* Returns the first tile of 16 rows, of its matrix, of a set of the item. */
GA_DEV int first_tile(args a, const place *p, int set) {
  return is_gated(a) ? p->w_tile * TILES : (p->w_tile * SETS + set) * TILES;
}

/* --- copies: a warp for W and one for X. Block i of a ring is in its stage i % stages --- */

/* Starts the copies of unit `unit` of a set. In the place of tiles after the last one, the last is copied again;
 * products with it are not used. */
GA_DEV void copy_set(args a, uint32_t to, uint32_t full, const place *p, int set, int unit) {
  const int64_t row = (int64_t)a->units * UNIT_BYTES, stack = p->matrix * (a->e.expert_rows / ROWS);
  const uint8_t *w = (const uint8_t *)(is_gated(a) && set == 0 ? a->e.w_gate : a->e.w) + (int64_t)unit * UNIT_BYTES;
  GA_ROLL for (int r = 0; r < TILES; r++) {
    const int tile = first_tile(a, p, set) + r;
    bulk_load_bytes(to + (uint32_t)(r * UNIT_BYTES), w + (stack + (tile < a->tiles ? tile : a->tiles - 1)) * row,
                    UNIT_BYTES, full, L2_EVICT_FIRST);
  }
}

GA_DEV void copy_w_units(args a, uint32_t sb) {
  uint32_t i = 0;
  OWN_ITEMS(a, sb, t) {
    const place p = item_place(a, sb, t);
    GA_ROLL for (int u = 0; u < a->units; u++, i++) {
      const uint32_t s = ring_stage(i, W_STAGES), full = sb + OFF_WF + 8 * s, to = sb + OFF_W + s * W_BYTES;
      mbar_wait(sb + OFF_WE + 8 * s, ring_empty_parity(i, W_STAGES));
      if (warp_elect()) {
        mbar_arrive_expect(full, W_BYTES);
        copy_set(a, to, full, &p, 0, u);
        copy_set(a, to + TILES * UNIT_BYTES, full, &p, 1, u);
      }
      warp_sync();
    }
  }
}

GA_DEV void copy_x_boxes(args a, uint32_t sb) {
  uint32_t i = 0;
  OWN_ITEMS(a, sb, t) {
    const place p = item_place(a, sb, t);
    GA_ROLL for (int c = 0; c < a->units * CHUNKS; c++, i++) {
      const uint32_t s = ring_stage(i, X_STAGES), full = sb + OFF_XF + 8 * s;
      mbar_wait(sb + OFF_XE + 8 * s, ring_empty_parity(i, X_STAGES));
      if (warp_elect()) {
        mbar_arrive_expect(full, X_BYTES);
        bulk_load_2d(sb + s * X_BYTES, &a->x, full, c * 64, p.row, L2_EVICT_LAST);
      }
      warp_sync();
    }
  }
}

/* --- products --- */

/* Starts the products of a chunk of one set, whose fragments are f. */
GA_DEV void multiply_set(uint32_t x, const uint32_t *f, float *c) {
  wgmma_fence();
  GA_UNROLL for (int j = 0; j < 4; j++) WGMMA_BF16(c, f + 4 * j, desc(x + 2 * j), 1);
  wgmma_commit();
}

/* Unit `at` of the block, times its X. first: no product is under way. c has the sums of both sets. */
GA_DEV void multiply_both(uint32_t sb, uint32_t at, bool first, float (*c)[NC]) {
  const int lane = thread_index() % 32, warp = thread_index() / 32, leader = thread_index() % 128 == 0;
  const uint32_t ws = ring_stage(at, W_STAGES), x = desc_k_major(sb);
  const uint32_t unit = sb + OFF_W + ws * W_BYTES + (uint32_t)(warp * UNIT_BYTES), other = unit + TILES * UNIT_BYTES;
  packed_run own[SETS][PACKED_PLAIN(T) ? 1 : PACKED_OWN(T)];
  uint32_t f[SETS][16], done = 0;
  mbar_wait(sb + OFF_WF + 8 * ws, ring_full_parity(at, W_STAGES));
  packed_fetch_runs(T, own[0], unit, lane);
  packed_fetch_runs(T, own[1], other, lane);
  GA_UNROLL for (int chunk = 0; chunk < CHUNKS; chunk++) {
    const uint32_t block = at * CHUNKS + (uint32_t)chunk, xs = ring_stage(block, X_STAGES);
    GA_UNROLL for (int set = 0; set < SETS; set++) {
      uint32_t w[PACKED_CODES(T)];
      packed_fetch_chunk(T, w, set ? other : unit, chunk, lane);
      packed_chunk_bf16(T, w, own[set], chunk, f[set]);
      if (chunk == CHUNKS - 1) done += packed_chunk_done(T, w, chunk);
      if (chunk == CHUNKS - 1 && set == SETS - 1) {
        warp_sync();
        if (lane == 0) mbar_arrive(sb + OFF_WE + 8 * ws + done);
      }
      if (set == 0) mbar_wait(sb + OFF_XF + 8 * xs, ring_full_parity(block, X_STAGES));
      multiply_set(x + xs * (X_BYTES / 16), f[set], c[set]);
      wgmma_wait(1); /* the products before are done: their fragments are free, and after both sets their stage */
      if (set == 0 && leader && !(first && chunk == 0)) mbar_arrive(sb + OFF_XE + 8 * ring_stage(block - 1, X_STAGES));
    }
  }
}

/* --- results: c[4j + 2h + e] is row 8j + 2q + e of X, row g + 8h of the warp's 16 of W --- */

GA_DEV void put_out(uint32_t out, int lane, const float *x) {
  const int g = lane / 4, q = lane % 4;
  GA_UNROLL for (int j = 0; j < 4; j++) GA_UNROLL for (int i = 0; i < 4; i++)
      sts_f1(out + (uint32_t)((8 * j + 2 * q + i % 2) * OUT_ROW + (g + i / 2 * 8) * 4), x[4 * j + i]);
}

/* Reads 8 columns of row 16 s + lane / 2 of the 32 rows at `out`. */
GA_DEV void get_out(uint32_t out, int s, float *x) {
  const int lane = thread_index() % 32;
  GA_UNROLL for (int half = 0; half < 2; half++)
      lds_f4(x + 4 * half, out + (uint32_t)((16 * s + lane / 2) * OUT_ROW + lane % 2 * 32 + 16 * half));
}

/* Applies bias and weight to 8 sums of a row by a matrix, from its column `col` on. */
GA_DEV void add_bias_8(args a, const float *bias, int expert, int64_t col, float weight, float *x) {
  GA_UNROLL for (int e = 0; e < 8; e++) x[e] *= weight;
  if (!(a->e.flags & EXPERT_BIAS)) return;
  const float *of = bias + expert * a->e.expert_rows + col;
  GA_UNROLL for (int e = 0; e < 8; e++) if (col + e < a->e.n) x[e] += of[e];
}

/* Replaces u by the elements of IN. g: products with the gate's matrix. */
GA_DEV void activate_8(args a, const float *g, float *u) {
  if (is_gated(a) && a->e.act == ACT_SILU && a->e.clamp == CLAMP_NONE) { /* most models: without choices by element */
    GA_UNROLL for (int e = 0; e < 8; e++) u[e] = g[e] / (1.0f + expf(-a->e.act_alpha * g[e])) * (u[e] + a->e.up_offset);
    return;
  }
  GA_UNROLL for (int e = 0; e < 8; e++) u[e] = expert_into_slot(&a->e, g[e], u[e]);
}

/* Eight columns of a row from `col` on, those inside Y. wide: rows begin at multiples of 16 bytes. */
GA_DEV void put_eight(float *y, bool wide, int64_t at, int64_t col, int64_t n, const float *x) {
  if (wide && col + 8 <= n) {
    elem_put16_f32(y, at, x);
    elem_put16_f32(y, at + 4, x + 4);
  } else GA_UNROLL
    for (int e = 0; e < 8; e++)
      if (col + e < n) y[at + e] = x[e];
}

/* Stores 8 columns of row `r` of the tile, from their sums u by a set. Gated: g are those of the gate's set. */
GA_DEV void finish_eight(args a, const place *p, int r, int set, float *g, float *u) {
  const int lane = thread_index() % 32, warp = thread_index() / 32, row = p->row + r;
  const bool in = a->e.form == EXPERT_IN;
  float *y = in ? (float *)a->e.y : a->e.results;
  const int64_t stride = in ? a->e.y_stride : a->e.n,
                col = (int64_t)(first_tile(a, p, set) + warp) * ROWS + lane % 2 * 8;
  if (r >= p->rows || col >= a->e.n) return;
  const float weight = in && a->e.flags & EXPERT_WEIGHTS ? a->e.weights[a->e.order[row]] : 1.0f;
  add_bias_8(a, a->e.bias, p->expert, col, weight, u);
  if (is_gated(a)) add_bias_8(a, a->e.bias_gate, p->expert, col, weight, g);
  if (in) activate_8(a, g, u);
  put_eight(y, ((uint64_t)y | (uint64_t)stride * 4) % 16 == 0, row * stride + col, col, a->e.n, u);
}

/* Stores the tile, 32 rows of both sets at a time. The code of activations stands here once. */
GA_DEV void put_item(args a, uint32_t sb, const place *p, float (*c)[NC]) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const uint32_t first = sb + OFF_OUT + (uint32_t)(warp * SETS * OUT_BYTES), second = first + OUT_BYTES;
  GA_ROLL for (int h = 0; 32 * h < p->rows; h++) {
    GA_UNROLL for (int i = 0; i < BN / 32; i++) if (i == h) {
      put_out(first, lane, c[0] + 16 * i);
      put_out(second, lane, c[1] + 16 * i);
    }
    warp_sync();
    GA_ROLL for (int i = is_gated(a) ? 2 : 0; i < 4; i++) {
      float g[8], u[8];
      get_out(i < 2 ? first : second, i % 2, u);
      if (is_gated(a)) get_out(first, i % 2, g);
      finish_eight(a, p, 32 * h + 16 * (i % 2) + lane / 2, i / 2, g, u);
    }
    warp_sync();
  }
}

/* --- the kernel --- */

GA_DEV void multiply_items(args a, uint32_t sb) {
  const int leader = thread_index() % 128 == 0;
  uint32_t i = 0;
  float c[SETS][NC];
  OWN_ITEMS(a, sb, t) {
    const place p = item_place(a, sb, t);
    GA_UNROLL for (int e = 0; e < NC; e++) c[0][e] = c[1][e] = 0;
    GA_ROLL for (int u = 0; u < a->units; u++, i++) multiply_both(sb, i, u == 0, c);
    wgmma_wait(0);
    pin_f32(c[0], NC); /* else what reads them may be moved ahead of the wait */
    pin_f32(c[1], NC);
    if (leader) mbar_arrive(sb + OFF_XE + 8 * ring_stage(i * CHUNKS - 1, X_STAGES));
    put_item(a, sb, &p, c);
  }
}

GA_KERNEL(LANES, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_expert_tile a) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  if (thread_index() == LANES - 1) {
    tmap_prefetch(&a.x);
    for (int s = 0; s < X_STAGES; s++) mbar_init(sb + OFF_XF + 8 * s, 1), mbar_init(sb + OFF_XE + 8 * s, 2);
    for (int s = 0; s < W_STAGES; s++) mbar_init(sb + OFF_WF + 8 * s, 1), mbar_init(sb + OFF_WE + 8 * s, 8);
    mbar_init_fence();
  }
  grid_launch_dependents();
  grid_dependency_wait(); /* experts' rows and X come from the kernels ahead */
  count_tiles(&a, sb);
  block_sync();
  if (wg < 2) {
    setmaxnreg_inc(232);
    multiply_items(&a, sb);
    return;
  }
  setmaxnreg_dec(40);
  const int copier = warp_uniform(thread_index() / 32) - CONSUMERS / 32;
  if (copier == 0) copy_w_units(&a, sb);
  if (copier == 1) copy_x_boxes(&a, sb);
}
