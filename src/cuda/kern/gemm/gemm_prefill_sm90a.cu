/* KERNEL    gemm_prefill, sm90a: many rows of X by packed weights (GA_LAYOUT_MMA_PACKED), on wgmma
 * COMPUTES  Y = epilogue(X W^T), sums in f32. Elements of W are bf16 (cuda/kern/gemm/packed_bf16.h), X was converted
 *           by gemm_x_sm80.cu. W of f16: both operands are f16, X with a power of two for each row. X_E4M3: codes of W
 *           by codes of X, without conversion. Such products add with 13 fraction bits (docs/log/sums.md), so a sum
 *           covers 128 of k. It is multiplied by the scales of W's row and X's row and added in f32
 * CONTRACT  x and y f32, k contiguous in x, at least 1; w packed (GA_LAYOUT_MMA_PACKED), at multiples of 16 bytes; X
 *           as gemm_x_sm80.cu made it, for the tensor maps; y_stride a multiple of 4; m, n, k and tiles up to 2^28.
 *           X_E4M3: GA_GEMM_X_E4M3 set. Leaves counter zeroed
 * DATA      W: bulk copies of whole units into a ring, then loads to registers, whose layout is that of operand A.
 *           X: boxes of 64 columns into another ring, operand B. Y, transposed: registers, shared memory, gmem, 8
 *           columns a lane
 * WORK      a tile is 128 rows of W by BN of X. Two warpgroups have 64 rows of W each, or two such pairs take turns at
 *           units of k (KW = 2) and add their sums in shared memory; the last warpgroup copies. While products of 64
 *           columns run, the next 64 are converted, by the same warps (KW = 1) or by others; weights of 16 bits are
 *           only fetched. A tile's k may be split over the two blocks of a cluster, each of which finishes half of the
 *           rows of X. It may also be cut into parts, whose sums are added in gmem: the last warp to finish adds its
 *           share of them, in their order. SUM_SETS = 2: one pair gives the order of sums of KW = 2, because it keeps
 *           the sums of even and of odd units apart. Parts of k may then follow each other in one block, which adds
 *           their sums in shared memory. X_E4M3: a unit's rows of X are cut into shares, two of which have separate
 *           sums: one is added up while the next is multiplied
 * BARRIERS  name        arrivals   waiter       orders
 *           x_full[s]   1+tx       consumers    TMA write of X[s], X_E4M3: and of its scales -> wgmma read, ld.shared
 *           x_empty[s]  1/wg: 2    copier of X  wgmma reads of X[s] -> next TMA write; X_E4M3: one a warp, 8, which
 *                                               reads scales there
 *           w_full[s]   1+tx       consumers    copy of a unit to W[s] -> ld.shared
 *           w_empty[s]  1/warp: 8  copier of W  reads of W[s], returned -> next copy
 *           join        named 1    consumers    KW = 2, three a tile: reads of the tile before -> writes of sums; sums
 *                                               of the other pair -> their reads; these reads -> the next writes there
 *           cluster     all        all          both blocks have finished their rings -> sums over them; sums of the
 *                                               other block -> their reads
 * BUDGET    what       how much
 *           threads    KW = 1: 384; KW = 2: 640. The last 128 copy
 *           registers  of copiers and consumers: KW = 1: 40 and 232; KW = 2: 32 and 112
 *           blocks     1 per multiprocessor
 *           smem       OFF_*: rings of X and of W, results, barriers
 */
#include "cuda/dev/ptx/wgmma8.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile.h"
#include "cuda/kern/gemm/epilogue.h"
#include "cuda/kern/gemm/packed_bf16.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, ..."
#endif
#ifndef GA_P_BN
#error "GA_P_BN: rows of X of a tile: 64, 128 or 256"
#endif
#ifndef GA_P_KW
#error "GA_P_KW: pairs of warpgroups that take turns along k: 1 or 2"
#endif
#ifndef GA_P_SUM_SETS
#error \
    "GA_P_SUM_SETS: 2: units of k go to two sets of sums in turn, which are the sums of two pairs of warpgroups; else 1"
#endif
#ifndef GA_P_X_E4M3
#error "GA_P_X_E4M3: 1: X is e4m3, with a scale for 128 of k of a row, as W is; 0: 16 bits"
#endif
#ifndef GA_P_X_STAGES
#error "GA_P_X_STAGES: of a ring of X"
#endif
#ifndef GA_P_W_STAGES
#error "GA_P_W_STAGES: of a ring of W"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#define T GA_CAT(T_, GA_P_W)
enum {
  BN = GA_P_BN,
  KW = GA_P_KW,
  SUM_SETS = GA_P_SUM_SETS,
  X_E4M3 = GA_P_X_E4M3,
  BK = X_E4M3 ? 128 : 64, /* 128 bytes of X */
  X_STAGES = GA_P_X_STAGES,
  W_STAGES = GA_P_W_STAGES,
  LANES = 256 * KW,
  NC = BN / 2 /* sums a lane */,
  UNIT_K = PACKED_K(T),
  UNIT_BYTES = PACKED_BYTES(T),
  CHUNKS = UNIT_K / BK,
  WORDS = PACKED_OWN_WORDS(T),
  PARTIAL_BOXES = PACKED_PLAIN(T) || X_E4M3,
  TILES = 8,              /* of 16 rows */
  SETS = KW == 1 ? 2 : 1, /* of fragments; those of 16 bits have two in any case */
  X_BYTES = BN * 128,
  W_BYTES = TILES * UNIT_BYTES,
  OUT_ROW = 80,
  OUT_BYTES = 32 * OUT_ROW, /* 32 rows of Y, a warp's 16 columns each, and room against conflicts of banks */
  X_RING = KW * X_STAGES,
  W_RING = KW * W_STAGES, /* each pair has rings of its own: a phase that it waits for follows one that it has seen */
  OFF_W = X_RING * X_BYTES,
  OFF_OUT = OFF_W + W_RING * W_BYTES,
  OFF_TOTAL = OFF_OUT + 8 * KW * OUT_BYTES,                /* two sets: sums of the parts of k so far */
  OFF_XS = OFF_TOTAL + (SUM_SETS == 2 ? NC * 4 * 256 : 0), /* X_E4M3: scales of stages of X */
  SCALE_BYTES = X_E4M3 ? BN * 4 : 0,
  OFF_XF = OFF_XS + X_RING * SCALE_BYTES,
  OFF_XE = OFF_XF + 8 * X_RING,
  OFF_WF = OFF_XE + 8 * X_RING,
  OFF_WE = OFF_WF + 8 * W_RING
};
static_assert(OFF_WE + 8 * W_RING + 16 == GA_P_SMEM, "the row's shared memory");
static_assert(KW == 1 || KW == 2, "registers");
static_assert(SUM_SETS == 1 || (SUM_SETS == 2 && KW == 1 && !PACKED_PLAIN(T)), "the order of two pairs, by one");
static_assert(CHUNKS % 2 == 0 || PACKED_PLAIN(T) || X_E4M3, "two sets of fragments take turns");
static_assert(!X_E4M3 || (T == T_E4M3_128 && KW == 1 && SUM_SETS == 1), "codes by codes");
static_assert(KW == 1 || !PACKED_PLAIN(T), "weights that need no work take no second pair");
static_assert(NC / 2 * 4 * 256 * KW <= (KW == 1 ? OFF_W : 8 * KW * OUT_BYTES),
              "halves of sums fit the ring of X, or the place of results");
#define WGMMA_BF16 GA_CAT3(wgmma_m64n, GA_P_BN, k16_bf16_rs)
#define WGMMA_F16  GA_CAT3(wgmma_m64n, GA_P_BN, k16_f16_rs)
/* X_E4M3: rows of X of a share, by the registers that there are beside the totals. */
#if GA_P_BN == 256
#define SHARE_COLS 32
#else
#define SHARE_COLS 64
#endif
#define WGMMA_E4M3 GA_CAT3(wgmma_m64n, SHARE_COLS, k32_e4m3_rs)

typedef const ga_kargs_gemm_prefill *args;

/* --- the work of a block --- */

/* A tile's k is cut among `parts` clusters of one or two blocks. Item: a part of a tile, for a cluster. */
GA_DEV int parts(args a) { return 1 << a->k_splits_log; }
GA_DEV int k_part_of(args a, int item) { return item & (parts(a) - 1); }
GA_DEV int rank_of_block(args a) { return block_index() & ((1 << a->cluster_log) - 1); }
GA_DEV int first_unit(args a, int item, int rank) {
  return (int)((int64_t)a->g.units * ((k_part_of(a, item) << a->cluster_log) + rank) >>
               (a->k_splits_log + a->cluster_log));
}
GA_DEV int n_items(args a) { return a->w_tiles * a->x_tiles << a->k_splits_log; }
/* Tiles that share rows of W run together. */
GA_DEV void tile_at(args a, int item, int *w_row, int *x_row) {
  const int t = item >> a->k_splits_log;
  *w_row = t / a->x_tiles * TILES * GA_PACKED_ROWS;
  *x_row = t % a->x_tiles * BN;
}
/* Boxes of the tile of X that begins at row x_row. */
GA_DEV int x_boxes(args a, int x_row) {
  const int rows = a->g.m - x_row < BN ? (int)(a->g.m - x_row) : BN;
  return (rows + a->x_box - 1) / a->x_box;
}
#define OWN_ITEMS(a, t) \
  GA_ROLL for (int t = block_index() >> (a)->cluster_log; t < n_items(a); t += block_count() >> (a)->cluster_log)

/* --- copies: of each pair, one warp for W and one for X. Block i of a ring is in its stage i % stages --- */

GA_DEV uint32_t x_stage(int pair, uint32_t i) { return (uint32_t)(pair * X_STAGES) + ring_stage(i, X_STAGES); }
GA_DEV uint32_t w_stage(int pair, uint32_t i) { return (uint32_t)(pair * W_STAGES) + ring_stage(i, W_STAGES); }

/* Starts the copy of unit `unit` of tiles tile to tile + 7 of W. In the place of tiles after the last one, the last is
 * copied again; products with it are not used. */
GA_DEV void copy_unit(args a, uint32_t to, uint32_t full, int tile, int unit) {
  const int64_t row = (int64_t)a->g.units * UNIT_BYTES;
  const uint8_t *from = (const uint8_t *)a->g.w + tile * row + (int64_t)unit * UNIT_BYTES;
  mbar_arrive_expect(full, W_BYTES);
  GA_UNROLL for (int r = 0; r < TILES; r++) {
    bulk_load_bytes(to + (uint32_t)(r * UNIT_BYTES), from, UNIT_BYTES, full, L2_EVICT_FIRST);
    if (tile + r + 1 < a->g.tiles) from += row;
  }
}

GA_DEV void copy_w(args a, uint32_t sb, int pair) {
  uint32_t i = 0;
  OWN_ITEMS(a, t) {
    const int end = first_unit(a, t, rank_of_block(a) + 1);
    int w_row, x_row;
    tile_at(a, t, &w_row, &x_row);
    GA_ROLL for (int u = first_unit(a, t, rank_of_block(a)) + pair; u < end; u += KW, i++) {
      const uint32_t s = w_stage(pair, i);
      mbar_wait(sb + OFF_WE + 8 * s, ring_empty_parity(i, W_STAGES));
      if (warp_elect()) copy_unit(a, sb + OFF_W + s * W_BYTES, sb + OFF_WF + 8 * s, w_row / GA_PACKED_ROWS, u);
      warp_sync();
    }
  }
}

/* Starts the copy of 128 bytes of each row of a tile. Rows after the last one cost the copy engine more than others.
 * Variants with PARTIAL_BOXES therefore do not copy boxes of such rows; products with old bytes there are not used. */
GA_DEV void copy_box(args a, uint32_t to, uint32_t full, uint32_t more, int k, int row) {
  const int boxes = PARTIAL_BOXES ? x_boxes(a, row) : 1, rows = PARTIAL_BOXES ? a->x_box : BN;
  mbar_arrive_expect(full, (uint32_t)(boxes * rows) * 128 + more);
  GA_ROLL for (int b = 0; b < boxes; b++)
      bulk_load_2d(to + (uint32_t)(b * rows) * 128, &a->x, full, k, row + b * rows, L2_EVICT_LAST);
}

/* X_E4M3: the scales of the same rows, in whole fours. */
GA_DEV uint32_t scale_bytes(args a, int row) {
  const int rows = a->g.m - row < BN ? (int)(a->g.m - row) : BN;
  return (uint32_t)((rows + 3) / 4 * 16);
}
GA_DEV void copy_x_scales(args a, uint32_t to, uint32_t full, int unit, int row) {
  bulk_load_bytes(to, a->x_scale + (int64_t)unit * a->x_scale_stride + row, scale_bytes(a, row), full, L2_EVICT_LAST);
}

GA_DEV void copy_x(args a, uint32_t sb, int pair) {
  uint32_t i = 0;
  grid_dependency_wait(); /* weights do not depend on the kernel ahead; X does */
  OWN_ITEMS(a, t) {
    const int end = first_unit(a, t, rank_of_block(a) + 1);
    int w_row, x_row;
    tile_at(a, t, &w_row, &x_row);
    GA_ROLL for (int u = first_unit(a, t, rank_of_block(a)) + pair; u < end; u += KW) {
      GA_ROLL for (int c = 0; c < CHUNKS; c++, i++) {
        const uint32_t s = x_stage(pair, i), full = sb + OFF_XF + 8 * s;
        mbar_wait(sb + OFF_XE + 8 * s, ring_empty_parity(i, X_STAGES));
        if (warp_elect()) {
          copy_box(a, sb + s * X_BYTES, full, X_E4M3 ? scale_bytes(a, x_row) : 0, u * UNIT_K + c * BK, x_row);
          if (X_E4M3) copy_x_scales(a, sb + OFF_XS + s * SCALE_BYTES, full, u, x_row);
        }
        warp_sync();
      }
    }
  }
}

/* --- products --- */

GA_DEV int pair_of_warpgroups(void) { return KW == 1 ? 0 : warp_uniform(thread_index() / 256); }

/* A pair's rings in shared memory; codes: this warp's 16 rows of a unit. */
typedef struct {
  uint32_t x_full, x_empty, x /* descriptor */, codes;
} rings;

/* Unit `at` of a pair, times its X. first: no product is under way. */
GA_DEV void multiply_unit(uint32_t sb, const rings *r, int pair, int lane, int leader, uint32_t at, bool first,
                          float *c) {
  const uint32_t ws = w_stage(pair, at);
  uint32_t f[SETS][16], w[WORDS];
  packed_run own[PACKED_PLAIN(T) ? 1 : PACKED_OWN(T)];
  mbar_wait(sb + OFF_WF + 8 * ws, ring_full_parity(at, W_STAGES));
  packed_fetch_own(T, w, r->codes + ws * W_BYTES, lane);
  const uint32_t done = packed_own_done(T, w);
  warp_sync();
  if (lane == 0) mbar_arrive(sb + OFF_WE + 8 * ws + done);
  GA_UNROLL for (int j = 0; j < PACKED_OWN(T); j++) packed_own_run(T, w + PACKED_CODES(T), j, lane % 4, &own[j]);
  GA_UNROLL for (int chunk = 0; chunk < CHUNKS; chunk++) {
    const uint32_t block = at * CHUNKS + (uint32_t)chunk, xs = ring_stage(block, X_STAGES);
    uint32_t *a = f[chunk % SETS];
    packed_chunk(T, w, own, chunk, a);
    mbar_wait(r->x_full + 8 * xs, ring_full_parity(block, X_STAGES));
    wgmma_fence();
    GA_UNROLL for (int j = 0; j < 4; j++) WGMMA_BF16(c, a + 4 * j, desc(r->x + xs * (X_BYTES / 16) + 2 * j), 1);
    wgmma_commit();
    wgmma_wait(SETS - 1); /* products that are done: their fragments and their stage are free */
    if (SETS == 1 && leader) mbar_arrive(r->x_empty + 8 * xs);
    if (SETS == 2 && leader && !(first && chunk == 0)) mbar_arrive(r->x_empty + 8 * ring_stage(block - 1, X_STAGES));
  }
}

/* This pair's units of a tile: every KW-th of `units`; *i of its units are done. Two sets of sums get them in turn, one
 * behind the other in c: what two pairs would have. */
GA_DEV void multiply_units(uint32_t sb, uint32_t *i, int units, float *c) {
  const int lane = thread_index() % 32, warp = thread_index() / 32 % 8, leader = thread_index() % 128 == 0,
            pair = pair_of_warpgroups();
  const rings r = {sb + OFF_XF + 8 * x_stage(pair, 0), sb + OFF_XE + 8 * x_stage(pair, 0),
                   desc_k_major(sb + x_stage(pair, 0) * X_BYTES), sb + OFF_W + (uint32_t)(warp * UNIT_BYTES)};
  GA_UNROLL for (int e = 0; e < SUM_SETS * NC; e++) c[e] = 0;
  GA_ROLL for (int u = pair; u < units; u += KW * SUM_SETS, ++*i) {
    multiply_unit(sb, &r, pair, lane, leader, *i, u == 0, c);
    if (SUM_SETS == 1) continue;
    ++*i;
    if (u + 1 == units) break;
    multiply_unit(sb, &r, pair, lane, leader, *i, false, c + (SUM_SETS - 1) * NC);
  }
  if (SETS == 2) wgmma_wait(0);
  pin_f32(c, SUM_SETS * NC); /* else what reads them may be moved ahead of the wait */
  if (SETS == 2 && leader) mbar_arrive(r.x_empty + 8 * ring_stage(*i * CHUNKS - 1, X_STAGES));
}

/* The same by weights of 16 bits, whose words are fragments: a unit is fetched while the one before is multiplied. */
GA_DEV void multiply_plain(uint32_t sb, uint32_t *i, int units, float *c) {
  const int lane = thread_index() % 32, warp = thread_index() / 32 % 8, leader = thread_index() % 128 == 0;
  const uint32_t x_full = sb + OFF_XF, x_empty = sb + OFF_XE, codes = sb + OFF_W + (uint32_t)(warp * UNIT_BYTES);
  const uint32_t x = desc_k_major(sb);
  uint32_t f[2][16];
  GA_UNROLL for (int e = 0; e < NC; e++) c[e] = 0;
  GA_ROLL for (int u = 0; u < units; u += 2) {
    GA_UNROLL for (int h = 0; h < 2; h++) {
      const uint32_t ws = ring_stage(*i, W_STAGES), xs = ring_stage(*i, X_STAGES);
      if (u + h == units) break;
      mbar_wait(sb + OFF_WF + 8 * ws, ring_full_parity(*i, W_STAGES));
      GA_UNROLL for (int v = 0; v < 4; v++)
          lds_u4(f[h] + 4 * v, codes + ws * W_BYTES + (uint32_t)packed_code_at(T, 4 * v, lane));
      const uint32_t done = loads_done(f[h], 16, 4);
      warp_sync();
      if (lane == 0) mbar_arrive(sb + OFF_WE + 8 * ws + done);
      mbar_wait(x_full + 8 * xs, ring_full_parity(*i, X_STAGES));
      wgmma_fence();
      GA_UNROLL for (int j = 0; j < 4; j++) {
        if (T == T_F16)
          WGMMA_F16(c, f[h] + 4 * j, desc(x + xs * (X_BYTES / 16) + 2 * j), 1);
        else
          WGMMA_BF16(c, f[h] + 4 * j, desc(x + xs * (X_BYTES / 16) + 2 * j), 1);
      }
      wgmma_commit();
      wgmma_wait(1); /* the products before are done: their fragments and their stage are free */
      if (leader && u + h > 0) mbar_arrive(x_empty + 8 * ring_stage(*i - 1, X_STAGES));
      ++*i;
    }
  }
  wgmma_wait(0);
  pin_f32(c, NC); /* else what reads them may be moved ahead of the wait */
  if (leader) mbar_arrive(x_empty + 8 * ring_stage(*i - 1, X_STAGES));
}

/* --- e4m3 by e4m3: a unit's codes are fragments of its four products of 32 columns. Shares follow each other; while
 * one is multiplied, the sums of the one before are added up. Registers have room for one unit's codes beside the
 * totals, so that between units it is the other warpgroup whose products run --- */

enum { SHARES = BN / SHARE_COLS, SHARE_SUMS = SHARE_COLS / 2 };
static_assert(!X_E4M3 || SHARES % 2 == 0, "two sets of sums take turns");

/* Unit `at`: codes in a, the scales of rows g and g + 8 in scale. */
GA_DEV void fetch_codes(uint32_t sb, uint32_t codes, uint32_t at, uint32_t *a, float *scale) {
  const int lane = thread_index() % 32;
  const uint32_t ws = w_stage(0, at);
  uint32_t w[WORDS];
  mbar_wait(sb + OFF_WF + 8 * ws, ring_full_parity(at, W_STAGES));
  packed_fetch_own(T, w, codes + ws * W_BYTES, lane);
  const uint32_t done = packed_own_done(T, w);
  warp_sync();
  if (lane == 0) mbar_arrive(sb + OFF_WE + 8 * ws + done);
  GA_UNROLL for (int i = 0; i < 16; i++) a[i] = w[i];
  GA_UNROLL for (int r = 0; r < 2; r++) scale[r] = __uint_as_float(w[WORDS - 2 + r]);
}

GA_DEV void issue_share(uint32_t x, int share, const uint32_t *a, float *sum) {
  wgmma_fence();
  GA_UNROLL for (int j = 0; j < 4; j++)
      WGMMA_E4M3(sum, a + 4 * j, desc(x + (uint32_t)(share * SHARE_COLS * 128 / 16) + 2 * j), j > 0);
  wgmma_commit();
}

/* Adds a share's sums, times their scales, to c. scales: those of this lane's first two rows of X in the share.
 * last: the buffer is released afterwards. Else the next products in sum are issued only after this addition. */
GA_DEV uint32_t add_share(uint32_t scales, const float *w_scale, const float *sum, float *c, bool last) {
  float x[SHARE_COLS / 4];
  GA_UNROLL for (int j = 0; j < SHARE_COLS / 8; j++) lds_f2(x + 2 * j, scales + (uint32_t)(32 * j));
  GA_UNROLL for (int j = 0; j < SHARE_COLS / 8; j++) GA_UNROLL for (int i = 0; i < 4; i++) c[4 * j + i] =
      fmaf(sum[4 * j + i], w_scale[i / 2] * x[2 * j + i % 2], c[4 * j + i]);
  pin_f32(c, SHARE_SUMS);
  return last ? loads_done_f32(x, SHARE_COLS / 4, 2) : 0;
}

/* Unit i, whose first share is under way with codes a and scales `scale`; `more`: and then the first one of the next,
 * whose codes and scales take their place. */
GA_DEV void multiply_codes_unit(uint32_t sb, uint32_t codes, uint32_t i, bool more, uint32_t *a, float *scale,
                                float (*sum)[SHARE_SUMS], float *c) {
  const int lane = thread_index() % 32;
  const uint32_t x = desc_k_major(sb), xs = ring_stage(i, X_STAGES), next = ring_stage(i + 1, X_STAGES);
  const uint32_t scales = sb + OFF_XS + xs * SCALE_BYTES + (uint32_t)(lane % 4 * 8);
  float own[2] = {scale[0], scale[1]};
  uint32_t done = 0;
  GA_UNROLL for (int p = 0; p < SHARES; p++) {
    const bool last = p + 1 == SHARES;
    if (!last) issue_share(x + xs * (X_BYTES / 16), p + 1, a, sum[(p + 1) % 2]);
    if (last)
      wgmma_wait(0);
    else
      wgmma_wait(1);
    pin_f32(sum[p % 2], SHARE_SUMS); /* else what reads them may be moved ahead of the wait */
    if (last && more) {
      fetch_codes(sb, codes, i + 1, a, scale);
      mbar_wait(sb + OFF_XF + 8 * next, ring_full_parity(i + 1, X_STAGES));
      issue_share(x + next * (X_BYTES / 16), 0, a, sum[0]);
    }
    done += add_share(scales + (uint32_t)(p * SHARE_COLS * 4), own, sum[p % 2], c + p * SHARE_SUMS, p >= SHARES - 2);
  }
  warp_sync();
  if (lane == 0) mbar_arrive(sb + OFF_XE + 8 * xs + done);
}

/* `units` units of a tile, from *i on of those that this block has; at least one. */
GA_DEV void multiply_codes(uint32_t sb, uint32_t *i, int units, float *c) {
  const int warp = thread_index() / 32 % 8;
  const uint32_t codes = sb + OFF_W + (uint32_t)(warp * UNIT_BYTES), xs = ring_stage(*i, X_STAGES);
  uint32_t a[16];
  float scale[2], sum[2][SHARE_SUMS];
  GA_UNROLL for (int e = 0; e < NC; e++) c[e] = 0;
  fetch_codes(sb, codes, *i, a, scale);
  mbar_wait(sb + OFF_XF + 8 * xs, ring_full_parity(*i, X_STAGES));
  issue_share(desc_k_major(sb) + xs * (X_BYTES / 16), 0, a, sum[0]);
  GA_ROLL for (int u = 1; u < units; u++, ++*i) multiply_codes_unit(sb, codes, *i, true, a, scale, sum, c);
  multiply_codes_unit(sb, codes, *i, false, a, scale, sum, c);
  ++*i;
}

/* --- two that have the same tile, pairs of warpgroups or blocks of a cluster: each gets the other's sums of half of
 * the rows of X, and keeps in c, from 0 on, those of its own half --- */

/* Leaves half `which` of c at `to`, a thread's 16 bytes beside the next one's. */
GA_DEV void send_half(uint32_t to, int which, bool cluster, const float *c) {
  GA_UNROLL for (int j = 0; j < NC / 8; j++) {
    float x[4];
    const uint32_t at = to + (uint32_t)((j * 256 + thread_index() % 256) * 16);
    GA_UNROLL for (int e = 0; e < 4; e++) x[e] = which ? c[NC / 2 + 4 * j + e] : c[4 * j + e];
    if (cluster)
      sts_cluster_i4(at, (int)float_bits(x[0]), (int)float_bits(x[1]), (int)float_bits(x[2]), (int)float_bits(x[3]));
    else
      sts_f4(at, x);
  }
}
GA_DEV void add_half(uint32_t from, int which, float *c) {
  GA_UNROLL for (int j = 0; j < NC / 8; j++) {
    float x[4];
    lds_f4(x, from + (uint32_t)((j * 256 + thread_index() % 256) * 16));
    GA_UNROLL for (int e = 0; e < 4; e++) c[4 * j + e] = x[e] + (which ? c[NC / 2 + 4 * j + e] : c[4 * j + e]);
  }
}

GA_DEV void join_pairs(uint32_t sb, float *c) {
  enum { HALF = NC / 2 * 4 * 256 };
  const int pair = pair_of_warpgroups();
  bar_sync(1, LANES); /* the results of the tile before have been read */
  send_half(sb + OFF_OUT + (uint32_t)(pair * HALF), 1 - pair, false, c);
  bar_sync(1, LANES);
  add_half(sb + OFF_OUT + (uint32_t)((1 - pair) * HALF), pair, c);
  bar_sync(1, LANES);
}

/* The cluster has one item: its rings have been used. */
GA_DEV void join_cluster(uint32_t sb, int rank, float *c) {
  cluster_sync();
  send_half(cluster_address(sb, (uint32_t)(1 - rank)), 1 - rank, true, c);
  cluster_sync();
  add_half(sb, rank, c);
}

/* --- parts of a tile meet in gmem: [share of a tile][part][16 bytes of a warp][lane] --- */

/* Adds up n sums a thread, share `share` of all, in the order of parts. False: other parts are still to come, and the
 * last will do it. */
GA_DEV bool add_splits_of(args a, int share, int part, int n, float *c) {
  const int lane = thread_index() % 32;
  const uint32_t size = (uint32_t)n * 32;
  float *at = a->g.partial + ((int64_t)share << a->k_splits_log) * size + lane * 4;
  GA_UNROLL for (int j = 0; j < NC / 4; j++) if (4 * j < n) stg_f4(at + (int64_t)part * size + 128 * j, c + 4 * j);
  warp_sync();
  int last = 0;
  if (lane == 0) {
    fence_device(); /* the warp's writes, which the barrier has brought here */
    last = atomic_add_i32(a->g.counter + share, 1) == parts(a) - 1;
    if (last) stg_i32(a->g.counter + share, 0);
    fence_device();
  }
  if (!warp_uniform(last)) return false;
  warp_sync();
  GA_UNROLL for (int e = 0; e < NC; e++) c[e] = 0;
  GA_ROLL for (int p = 0; p < parts(a); p++, at += size) {
    GA_UNROLL for (int j = 0; j < NC / 4; j++) {
      float x[4];
      if (4 * j >= n) break;
      ldg_f4(x, at + 128 * j);
      GA_UNROLL for (int e = 0; e < 4; e++) c[4 * j + e] += x[e];
    }
  }
  return true;
}

/* --- two sets of sums: a tile's parts follow each other in one block, if they do not meet in gmem. They are added up
 * in shared memory, 16 bytes of a thread beside those of the next one, as add_splits_of adds them --- */

GA_DEV int parts_inside(args a) { return 1 << a->parts_inside_log; }

/* Adds the two sets of sums of part `part` to the total of the earlier parts, which is kept in shared memory; after the
 * last part the result stays in c. */
GA_DEV void add_sum_sets(args a, uint32_t sb, int part, float *c) {
  const uint32_t to = sb + OFF_TOTAL + (uint32_t)(thread_index() * 16);
  const bool many = parts_inside(a) > 1;
  GA_UNROLL for (int j = 0; j < NC / 4; j++) {
    float x[4] = {0, 0, 0, 0};
    if (part > 0) lds_f4(x, to + (uint32_t)(j * 256 * 16));
    GA_UNROLL for (int e = 0; e < 4; e++) {
      const float sum = c[(SUM_SETS - 1) * NC + 4 * j + e] + c[4 * j + e];
      c[4 * j + e] = many ? x[e] + sum : sum; /* one part alone keeps the sign of a zero */
    }
    if (part + 1 < parts_inside(a)) sts_f4(to + (uint32_t)(j * 256 * 16), c + 4 * j);
  }
}

GA_DEV void multiply_parts(args a, uint32_t sb, uint32_t *i, int units, float *c) {
  int from = 0;
  GA_ROLL for (int p = 0; p < parts_inside(a); p++) {
    const int to = (int)((int64_t)units * (p + 1) >> a->parts_inside_log);
    multiply_units(sb, i, to - from, c);
    add_sum_sets(a, sb, p, c);
    from = to;
  }
}

/* --- results: c[4j + 2h + e] is row 8j + 2q + e of X, row g + 8h of the warp's 16 of W --- */

GA_DEV void out_put(uint32_t out, int lane, const float *x) {
  const int g = lane / 4, q = lane % 4;
  GA_UNROLL for (int j = 0; j < 4; j++) GA_UNROLL for (int i = 0; i < 4; i++)
      sts_f1(out + (uint32_t)((8 * j + 2 * q + i % 2) * OUT_ROW + (g + i / 2 * 8) * 4), x[4 * j + i]);
}

/* `rows` rows of X, the first x_row, of this warp's 16 rows of W. */
GA_DEV void put_tile(args a, uint32_t sb, int w_row, int x_row, int rows, const float *c) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const uint32_t out = sb + OFF_OUT + (uint32_t)(warp * OUT_BYTES);
  const bool plain = gemm_is_plain(&a->g);
  GA_ROLL for (int h = 0; h < rows / 32; h++) {
    GA_UNROLL for (int i = 0; i < BN / 32; i++) if (i == h) out_put(out, lane, c + 16 * i);
    warp_sync();
    GA_ROLL for (int p = 0; p < 2; p++) {
      const int r = 16 * p + lane / 2;
      float x[8];
      lds_f4(x, out + (uint32_t)(r * OUT_ROW + lane % 2 * 32));
      lds_f4(x + 4, out + (uint32_t)(r * OUT_ROW + lane % 2 * 32 + 16));
      if (T == T_F16) {
        const int64_t row = x_row + 32 * h + r;
        const float down = row < a->g.m ? ldg_f32(a->x_scale + row) : 0;
        GA_UNROLL for (int e = 0; e < 8; e++) x[e] *= down;
      }
      gemm_finish_8(&a->g, plain, x_row + 32 * h + r, w_row + warp % 8 * 16 + lane % 2 * 8, x);
    }
    warp_sync();
  }
}

/* --- the kernel --- */

/* Zeros for boxes, and scales, that are left out. */
GA_DEV void clear_x(uint32_t sb) {
  const float zeros[4] = {0, 0, 0, 0};
  GA_ROLL for (int i = 16 * thread_index(); i < X_RING * X_BYTES; i += 16 * (LANES + 128))
      sts_f4(sb + (uint32_t)i, zeros);
  for (int i = 16 * thread_index(); i < X_RING * SCALE_BYTES; i += 16 * (LANES + 128))
    sts_f4(sb + OFF_XS + (uint32_t)i, zeros);
  fence_async_smem();
}

GA_DEV void start_block(args a, uint32_t sb) {
  if (thread_index() == 0) {
    tmap_prefetch(&a->x);
    for (int s = 0; s < X_RING; s++) mbar_init(sb + OFF_XF + 8 * s, 1), mbar_init(sb + OFF_XE + 8 * s, X_E4M3 ? 8 : 2);
    for (int s = 0; s < W_RING; s++) mbar_init(sb + OFF_WF + 8 * s, 1), mbar_init(sb + OFF_WE + 8 * s, 8);
    mbar_init_fence();
  }
  if (PARTIAL_BOXES && a->x_box < BN) clear_x(sb);
  block_sync();
  grid_launch_dependents();
}

GA_DEV void consumer(args a, uint32_t sb) {
  const int rank = rank_of_block(a), half = KW == 2 || a->cluster_log, which = KW == 2 ? pair_of_warpgroups() : rank;
  const int rows = half ? BN / 2 : BN, warps = 8 << half; /* of a tile: they share its results */
  uint32_t i = 0;
  float c[SUM_SETS * NC];
  OWN_ITEMS(a, t) {
    int w_row, x_row;
    const int units = first_unit(a, t, rank + 1) - first_unit(a, t, rank);
    if (X_E4M3)
      multiply_codes(sb, &i, units, c);
    else if (PACKED_PLAIN(T))
      multiply_plain(sb, &i, units, c);
    else if (SUM_SETS == 2)
      multiply_parts(a, sb, &i, units, c);
    else
      multiply_units(sb, &i, units, c);
    if (KW == 2)
      join_pairs(sb, c);
    else if (half)
      join_cluster(sb, rank, c);
    const int share = (t >> a->k_splits_log) * warps + which * 8 + thread_index() / 32 % 8;
    if (a->k_splits_log && !add_splits_of(a, share, k_part_of(a, t), rows / 2, c)) continue;
    tile_at(a, t, &w_row, &x_row);
    put_tile(a, sb, w_row, x_row + which * rows, rows, c);
  }
}

GA_KERNEL(LANES + 128, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_prefill a) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  start_block(&a, sb);
  if (wg < 2 * KW) {
    if (KW == 1)
      setmaxnreg_inc(232);
    else
      setmaxnreg_inc(112);
    grid_dependency_wait(); /* the epilogue reads, and Y may be what the kernel ahead reads */
    consumer(&a, sb);
    return;
  }
  if (KW == 1)
    setmaxnreg_dec(40);
  else
    setmaxnreg_dec(32);
  const int copier = warp_uniform(thread_index() / 32) - LANES / 32;
  if (copier < KW)
    copy_w(&a, sb, copier);
  else if (copier < 2 * KW)
    copy_x(&a, sb, copier - KW);
  if (KW == 2 || a.cluster_log == 0) return;
  cluster_sync();
  cluster_sync();
}
