/* KERNEL    gemm_tile, sm90a: matrix products of 16-bit and of e4m3 operands on wgmma
 * COMPUTES  Y = epilogue(X W^T), sums in f32 (ga/gemm.h); Y in f32, f16 or bf16
 * CONTRACT  x and w of DTYPE in the order that XT and WT say, at multiples of 16 bytes, as are their strides; y f32 or
 *           of 16 bits, y_stride a multiple of 8; k at least 1 (CLUSTER_K: two steps); m, n and tiles up to 2^28.
 *           Leaves counter zeroed
 * DATA      X and W: bulk copies into a ring of STAGES steps of 128 bytes of k, swizzled; XT, WT: stored across, as
 *           panels of 64 rows of k; Y: registers, shared memory, gmem, by bulk stores or 8 columns a lane
 * SUMS      e4m3 products add with 13 fraction bits (docs/log/sums.md). SHORT: such a sum covers 128 of k; these sums,
 *           times their scales if blocks have them, are added in f32; 64 columns are added up while the next 64 are
 *           multiplied. Else one such sum covers all of k, on the caller's request. Scales of blocks arrive with their
 *           stage, by a warp's cp.async
 * WORK      a tile is BM x BN, a warpgroup takes 64 rows, another one copies. COOPERATIVE: clusters of two blocks have
 *           tiles one above the other and copy half of W's rows each, for both; blocks stay for the whole launch.
 *           SPLIT_K: a tile's k may be cut into parts, one a block. Sums go to gmem, warp by warp, and the last warp to
 *           arrive adds them in a fixed order and finishes. CLUSTER_K: a cluster has one tile, each of its two
 *           blocks half of k; their warpgroups exchange sums, and each block finishes 64 rows
 * BARRIERS  name      arrivals  waiter     orders
 *           full[s]   1+tx      consumers  TMA write of both operands' stage s -> wgmma read; BLOCK_SCALES: 32 arrivals
 *                                          more, cp.async of scales -> ld.shared
 *           empty[s]  1/wg      producer   wgmma reads of stage s -> next TMA write; COOPERATIVE: of both blocks'
 *                                          warpgroups, as W is copied to both
 *           cluster   all       all        at the start: barriers exist -> copies and arrivals from the other block;
 *                                          CLUSTER_K: sums in the other block's shared memory -> their reads; at the
 *                                          end: no access to a block that has ended
 * BUDGET    what       how much
 *           threads    128 that copy, and 128 for 64 rows of a tile
 *           registers  BM 128: 40 (copiers) and 232 (consumers); BM 64: the compiler's choice
 *           blocks     1 per multiprocessor
 *           smem       OFF_*: a ring of STAGES steps of both operands, barriers
 */
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/wgmma8.h"
#include "cuda/dev/ptx/wgmma_t.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile.h"
#include "cuda/kern/gemm/gemm_plain.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: of X and W: bf16, f16 or e4m3"
#endif
#ifndef GA_P_BM
#error "GA_P_BM: rows of a tile: 64 or 128"
#endif
#ifndef GA_P_BN
#error "GA_P_BN: columns of a tile: 64, 128 or 256"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: of the ring"
#endif
#ifndef GA_P_COOPERATIVE
#error "GA_P_COOPERATIVE: 1: blocks work in pairs that share W"
#endif
#ifndef GA_P_SPLIT_K
#error "GA_P_SPLIT_K: 1: k may be cut into parts"
#endif

#ifndef GA_P_CLUSTER_K
#error "GA_P_CLUSTER_K: 1: the two blocks of a cluster have half of k of one tile each"
#endif
#ifndef GA_P_BLOCK_SCALES
#error "GA_P_BLOCK_SCALES: 1: blocks of k have scales; 0: operands have one each, or none"
#endif
#ifndef GA_P_XT
#error "GA_P_XT: 1: X is stored [k, m]; with WT"
#endif
#ifndef GA_P_WT
#error "GA_P_WT: 1: W is stored [k, n]"
#endif
#ifndef GA_P_SHORT
#error "GA_P_SHORT: 1: sums of 128 of k at a time (e4m3)"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#define K_bf16            k16_bf16_
#define K_f16             k16_f16_
#define K_e4m3            k32_e4m3_
#define Y_IS_BF16_bf16(g) 1 /* 16-bit Y is of the operands' type, and of either with e4m3 */
#define Y_IS_BF16_f16(g)  0
#define Y_IS_BF16_e4m3(g) ((g)->y_dtype == T_BF16)
#define Y_IS_BF16         GA_CAT(Y_IS_BF16_, GA_P_DTYPE)
#define BK_bf16           64
#define BK_f16            64
#define BK_e4m3           128
#if GA_P_XT
#define FORM sstt
#elif GA_P_WT
#define FORM sst
#else
#define FORM ss
#endif
#if !GA_P_SHORT
#define PART_BN GA_P_BN
#elif GA_P_BN > 64
#define PART_BN 64
#else
#define PART_BN 32
#endif
#define WGMMA GA_CAT5(wgmma_m64n, PART_BN, GA_CAT(K_, GA_P_DTYPE), FORM, )

enum {
  BM = GA_P_BM,
  BN = GA_P_BN,
  BK = GA_CAT(BK_, GA_P_DTYPE),
  XT = GA_P_XT,
  WT = GA_P_WT,
  SHORT = GA_P_SHORT,
  STAGES = GA_P_STAGES,
  SPLIT_K = GA_P_SPLIT_K,
  COOPERATIVE = GA_P_COOPERATIVE,
  CLUSTER_K = GA_P_CLUSTER_K,
  BLOCK_SCALES = GA_P_BLOCK_SCALES,
  BLOCKS = COOPERATIVE || CLUSTER_K ? 2 : 1,
  COLS = PART_BN,        /* that are multiplied at once */
  COL_PARTS = BN / COLS, /* of a step */
  W_SCALES = BN < 128 ? 1 : BN / 128,
  WGS = BM / 64,
  LANES = 128 * WGS, /* that multiply */
  X_BYTES = BM * 128,
  W_BYTES = BN * 128,
  STAGE = X_BYTES + W_BYTES,
  PANEL = 64 * 128, /* 64 rows or columns by a step of 64 of k, stored across */
  X_NEXT = XT ? 128 : 2,
  W_NEXT = WT ? 128 : 2,          /* the next 16 (32) of k, in units of 16 bytes */
  NC = BN / 2,                    /* sums of a lane */
  STAGE_BYTES = 16 * 256,         /* of a warp's results */
  OUT_COLS = BN < 128 ? BN : 128, /* columns of 16 bits that have room there */
  SCALES = 4 * (BM + 4),          /* bytes of a stage's scales: rows of X, then W's */
  OFF_STAGE = STAGES * STAGE,
  OFF_FULL = OFF_STAGE + 4 * WGS * STAGE_BYTES,
  OFF_EMPTY = OFF_FULL + 8 * STAGES,
  OFF_SCALES = OFF_EMPTY + 8 * STAGES
};
static_assert(OFF_SCALES + (BLOCK_SCALES ? STAGES * (SCALES) : 0) == GA_P_SMEM, "the row's shared memory");
static_assert(!CLUSTER_K || (!COOPERATIVE && !SPLIT_K && !SHORT && WGS == 2 && NC * 4 * 128 <= 4 * STAGE_BYTES),
              "a warpgroup's sums fit where the other one's results would leave");
static_assert(!(XT || WT) || BK == 64, "only 16-bit operands may lie across");

typedef const ga_kargs_gemm_tile *args;

/* --- the work of a block: tiles, or parts of them --- */

typedef struct {
  int tile, row, col;
  int part, first, steps; /* along k */
} piece;

GA_DEV int n_pieces(args a) { return a->row_tiles * a->col_tiles * (SPLIT_K ? a->k_splits : 1); }
GA_DEV int k_first(args a, int part) { return SPLIT_K ? a->steps * part / a->k_splits : part * a->steps; }
GA_DEV piece piece_at(args a, int t) {
  piece p;
  p.tile = SPLIT_K ? t / a->k_splits : t;
  p.part = SPLIT_K ? t % a->k_splits : 0;
  p.first = k_first(a, p.part);
  p.steps = k_first(a, p.part + 1) - p.first;
  if (CLUSTER_K) {
    const int rank = block_index() % 2, half = a->steps / 2;
    p.first = rank ? half : 0, p.steps = rank ? a->steps - half : half;
  }
  grid_tile(p.tile, a->row_tiles, a->col_tiles, a->band, &p.row, &p.col);
  p.row = (COOPERATIVE ? 2 * p.row + block_index() % 2 : p.row) * BM;
  p.col *= BN;
  return p;
}
#define PIECES(t, a) GA_ROLL for (int t = block_index() / BLOCKS; t < n_pieces(a); t += block_count() / BLOCKS)

/* --- copies: one thread --- */

GA_DEV void copy_x(args a, uint32_t at, uint32_t full, int k, int row) {
  if (XT) GA_UNROLL
    for (int p = 0; p < BM / 64; p++) bulk_load_2d(at + p * PANEL, &a->x, full, row + 64 * p, k, L2_EVICT_LAST);
  else
    bulk_load_2d(at, &a->x, full, k, row, L2_EVICT_LAST);
}

/* A pair's blocks copy half of the columns each, for both. */
GA_DEV void copy_w(args a, uint32_t at, uint32_t full, int k, int col, int rank) {
  enum { OWN = COOPERATIVE ? BN / 2 : BN };
  if (COOPERATIVE) at += (uint32_t)rank * (W_BYTES / 2), col += rank * OWN;
  GA_UNROLL for (int p = 0; p < (WT ? OWN / 64 : 1); p++) {
    const int first = WT ? col + 64 * p : k, second = WT ? k : col;
    if (COOPERATIVE)
      bulk_load_2d_multicast(at + p * PANEL, &a->w, full, first, second, 3, a->w_policy);
    else
      bulk_load_2d(at + p * PANEL, &a->w, full, first, second, a->w_policy);
  }
}

GA_DEV void copy_operands(args a, uint32_t sb) {
  const uint32_t rank = COOPERATIVE ? (uint32_t)(block_index() % 2) : 0;
  uint32_t i = 0;
  PIECES(t, a) {
    const piece p = piece_at(a, t);
    GA_ROLL for (int k = p.first; k < p.first + p.steps; k++, i++) {
      const uint32_t s = ring_stage(i, STAGES), full = sb + OFF_FULL + 8 * s, at = sb + s * STAGE;
      mbar_wait(sb + OFF_EMPTY + 8 * s, ring_empty_parity(i, STAGES));
      mbar_arrive_expect(full, STAGE);
      copy_x(a, at, full, k * BK, p.row);
      copy_w(a, at + X_BYTES, full, k * BK, p.col, (int)rank);
    }
  }
}

/* Scales of the same steps: one warp. */
GA_DEV void copy_scales(args a, uint32_t sb) {
  const int lane = thread_index() % 32;
  const ga_kargs_gemm_plain *g = &a->p;
  uint32_t i = 0;
  PIECES(t, a) {
    const piece p = piece_at(a, t);
    GA_ROLL for (int k = p.first; k < p.first + p.steps; k++, i++) {
      const uint32_t s = ring_stage(i, STAGES), at = sb + OFF_SCALES + s * SCALES;
      mbar_wait(sb + OFF_EMPTY + 8 * s, ring_empty_parity(i, STAGES));
      GA_UNROLL for (int r = lane; r < BM; r += 32) {
        const int inside = p.row + r < g->g.m;
        cp_async_4(at + 4 * (uint32_t)r, gemm_x_scale(g, inside ? p.row + r : 0, k), inside ? 4 : 0);
      }
      const int col = p.col + lane * 128, inside = col < g->g.n;
      if (lane < W_SCALES)
        cp_async_4(at + 4 * (uint32_t)(BM + lane), gemm_w_scale(g, inside ? col : 0, k), inside ? 4 : 0);
      cp_async_arrive_noinc(sb + OFF_FULL + 8 * s);
    }
  }
  cp_async_wait_all();
}

/* --- products --- */

GA_DEV void release(uint32_t sb, uint32_t i, int leader) {
  if (!leader) return;
  const uint32_t empty = sb + OFF_EMPTY + 8 * ring_stage(i, STAGES);
  mbar_arrive(empty);
  if (COOPERATIVE) mbar_arrive_cluster(empty, (uint32_t)(block_index() % 2 ^ 1));
}

/* A cluster's addresses carry the block's rank above these bits, where an operand stored across has the distance of its
 * panels. */
GA_DEV uint32_t panels_desc(uint32_t at) { return desc_n_major(at & 0x3ffff, PANEL); }
/* A warpgroup's 64 rows of X, which are a panel if they are stored across, and W, of the stage at `at`. */
GA_DEV uint32_t x_desc(uint32_t at, int wg) {
  at += (uint32_t)wg * 64 * 128;
  return XT ? panels_desc(at) : desc_k_major(at);
}
GA_DEV uint32_t w_desc(uint32_t at) { return WT ? panels_desc(at + X_BYTES) : desc_k_major(at + X_BYTES); }

/* One tile: `steps` blocks of the ring from block i on. */
GA_DEV void multiply_all(uint32_t sb, int wg, uint32_t i, int steps, float *c) {
  const int leader = thread_index() % 128 == 0;
  GA_ROLL for (int k = 0; k < steps; k++, i++) {
    const uint32_t s = ring_stage(i, STAGES), at = sb + s * STAGE;
    const uint32_t x = x_desc(at, wg), w = w_desc(at);
    mbar_wait(sb + OFF_FULL + 8 * s, ring_full_parity(i, STAGES));
    wgmma_fence();
    GA_UNROLL for (int j = 0; j < 4; j++) WGMMA(c, desc(x + X_NEXT * j), desc(w + W_NEXT * j), k + j > 0);
    wgmma_commit();
    wgmma_wait(1); /* the products before these are done: their stage is free */
    if (k > 0) release(sb, i - 1, leader);
  }
  wgmma_wait(0);
  pin_f32(c, NC); /* else what reads them may be moved ahead of the wait */
  release(sb, i - 1, leader);
}

/* f[h][i]: the scale of row g + 8 i of X times that of columns 128 h and on of W. */
GA_DEV void get_factors(uint32_t scales, int g, float (*f)[2]) {
  const float x[2] = {lds_f1(scales + 4 * (uint32_t)g), lds_f1(scales + 4 * (uint32_t)(g + 8))};
  GA_UNROLL for (int h = 0; h < W_SCALES; h++) {
    const float w = lds_f1(scales + 4 * (uint32_t)(BM + h));
    f[h][0] = x[0] * w, f[h][1] = x[1] * w;
  }
}

/* --- short sums, in two sets: one is added up while the products of the other run --- */

GA_DEV void issue_part(uint32_t at, int wg, int h, float *sum) {
  const uint32_t w = w_desc(at) + (uint32_t)(h * COLS * 128 / 16);
  wgmma_fence();
  GA_UNROLL for (int j = 0; j < 4; j++) WGMMA(sum, desc(x_desc(at, wg) + 2 * j), desc(w + 2 * j), j > 0);
  wgmma_commit();
}
/* Block i of the ring, whose first products have been issued; `more`: and the first ones of the next. */
GA_DEV void multiply_short_step(uint32_t sb, int wg, uint32_t i, bool more, float (*sum)[COLS / 2], float *c) {
  const int leader = thread_index() % 128 == 0,
            row = wg * 64 + thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4;
  const uint32_t s = ring_stage(i, STAGES), t = ring_stage(i + 1, STAGES);
  float f[W_SCALES][2];
  if (BLOCK_SCALES) get_factors(sb + OFF_SCALES + s * SCALES, row, f);
  GA_UNROLL for (int h = 0; h < COL_PARTS; h++) {
    if (h + 1 < COL_PARTS) {
      issue_part(sb + s * STAGE, wg, h + 1, sum[(h + 1) % 2]);
    } else if (more) {
      mbar_wait(sb + OFF_FULL + 8 * t, ring_full_parity(i + 1, STAGES));
      issue_part(sb + t * STAGE, wg, 0, sum[0]);
    }
    if (h + 1 < COL_PARTS || more)
      wgmma_wait(1);
    else
      wgmma_wait(0);
    pin_f32(sum[h % 2], COLS / 2); /* else what reads them may be moved ahead of the wait */
    if (h == COL_PARTS - 1) release(sb, i, leader);
    GA_UNROLL for (int e = 0; e < COLS / 2; e++) {
      float *to = c + h * (COLS / 2) + e;
      *to = BLOCK_SCALES ? fmaf(sum[h % 2][e], f[h * COLS / 128][e / 2 % 2], *to) : *to + sum[h % 2][e];
    }
  }
}
GA_DEV void multiply_short(uint32_t sb, int wg, uint32_t i, int steps, float *c) {
  float sum[2][COLS / 2];
  tile_fill(c, BN, 0);
  mbar_wait(sb + OFF_FULL + 8 * ring_stage(i, STAGES), ring_full_parity(i, STAGES));
  issue_part(sb + ring_stage(i, STAGES) * STAGE, wg, 0, sum[0]);
  GA_ROLL for (int k = 0; k < steps - 1; k++, i++) multiply_short_step(sb, wg, i, true, sum, c);
  multiply_short_step(sb, wg, i, false, sum, c);
}

/* A piece's sums, from block i of the ring on. */
GA_DEV void multiply_piece(args a, uint32_t sb, int wg, uint32_t i, piece p, float *c) {
  if (SHORT)
    multiply_short(sb, wg, i, p.steps, c);
  else
    multiply_all(sb, wg, i, p.steps, c);
  if (BK == 64 || BLOCK_SCALES) return;
  const float whole = gemm_tensor_scale(&a->p);
  GA_UNROLL for (int e = 0; e < NC; e++) c[e] *= whole;
}

/* --- results: sums pass through shared memory, so that a lane gets 8 neighbouring columns and little code does it ---
 * */

/* A warp's 16 rows of 64 columns in f32: group j of 8 columns of row r lies at group j ^ (r % 8). */
GA_DEV uint32_t stage_at(uint32_t stage, int r, int j) { return stage + (uint32_t)(r * 256 + (j ^ r % 8) * 32); }

/* x[4j + 2h + e]: row g + 8h, column 8j + 2q + e. */
GA_DEV void stage_put(uint32_t stage, int lane, const float *x) {
  const uint32_t at = (uint32_t)(lane % 4 * 8);
  GA_UNROLL for (int j = 0; j < 8; j++) GA_UNROLL for (int h = 0; h < 2; h++)
      sts_f2(stage_at(stage, lane / 4 + 8 * h, j) + at, x[4 * j + 2 * h], x[4 * j + 2 * h + 1]);
}

GA_DEV void stage_finish(const ga_kargs_gemm *g, bool plain, uint32_t stage, int lane, int pass, int row, int col) {
  const int r = 4 * pass + lane / 8, j = lane % 8;
  float x[8];
  lds_f4(x, stage_at(stage, r, j));
  lds_f4(x + 4, stage_at(stage, r, j) + 16);
  gemm_finish_8(g, plain, row + r, col + 8 * j, x);
}

/* The same as 16-bit numbers, 128 columns at a time, by the copy engine. */
GA_DEV void put_bulk(args a, uint32_t sb, int row, int col, const float *c) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const uint32_t stage = sb + OFF_STAGE + (uint32_t)warp * STAGE_BYTES;
  const float scale = a->p.g.scale;
  GA_UNROLL for (int h = 0; h < BN; h += OUT_COLS) {
    uint32_t x[OUT_COLS / 4];
    const float *from = c + h / 2;
    if (Y_IS_BF16(&a->p.g)) GA_UNROLL
      for (int i = 0; i < OUT_COLS / 4; i++) x[i] = pack_bf16(from[2 * i] * scale, from[2 * i + 1] * scale);
    else GA_UNROLL
      for (int i = 0; i < OUT_COLS / 4; i++) x[i] = pack_f16(from[2 * i] * scale, from[2 * i + 1] * scale);
    if (lane == 0) bulk_wait_read(); /* what was stored before has left this memory */
    warp_sync();
    tile_store(stage, 16 * 128, 0, x, OUT_COLS, lane);
    fence_async_smem();
    warp_sync();
    if (lane) continue;
    GA_UNROLL for (int i = 0; i < OUT_COLS; i += 64) {
      const int first = col + h + i;
      if (first < a->p.g.n && row + warp * 16 < a->p.g.m)
        bulk_store_2d(&a->y, stage + (uint32_t)(i / 64 * 16 * 128), first, row + warp * 16);
    }
    bulk_commit();
  }
}

/* A warpgroup's part of a tile. */
GA_DEV void put_tile(const ga_kargs_gemm *g, uint32_t sb, int row, int col, const float *c) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const uint32_t stage = sb + OFF_STAGE + (uint32_t)warp * STAGE_BYTES;
  const bool plain = gemm_is_plain(g);
  row += warp * 16;
  GA_ROLL for (int h = 0; h < BN / 64; h++, col += 64) {
    GA_UNROLL for (int i = 0; i < BN / 64; i++) if (i == h) stage_put(stage, lane, c + 32 * i);
    warp_sync();
    if (plain) GA_UNROLL
      for (int p = 0; p < 4; p++) stage_finish(g, true, stage, lane, p, row, col);
    else
      GA_ROLL for (int p = 0; p < 4; p++) stage_finish(g, false, stage, lane, p, row, col);
    warp_sync();
  }
}

/* --- parts of k --- */

/* Where a part's warp leaves its sums: four to a lane, then the next four. */
GA_DEV float *partial_at(args a, int tile, int part) {
  const int warps = LANES / 32, warp = thread_index() / 32, lane = thread_index() % 32;
  return a->p.g.partial + (((int64_t)tile * a->k_splits + part) * warps + warp) * (32 * NC) + 4 * lane;
}

/* Leaves a warp's sums there. True in the last part's warp to come: it gets all of them, added up in the order of
 * parts. */
GA_DEV bool add_splits(args a, piece p, float *c) {
  int32_t *counter = a->p.g.counter + p.tile * (LANES / 32) + thread_index() / 32;
  int last = 0;
  float *own = partial_at(a, p.tile, p.part);
  GA_UNROLL for (int j = 0; j < NC; j += 4) elem_put16_f32(own, 32 * j, c + j);
  warp_sync();
  if (thread_index() % 32 == 0) {
    fence_device(); /* the warp's writes, which the barrier has brought here */
    last = atomic_add_i32(counter, 1) == a->k_splits - 1;
    if (last) stg_i32(counter, 0);
    fence_device();
  }
  if (!warp_uniform(last)) return false;
  tile_fill(c, BN, 0);
  GA_ROLL for (int q = 0; q < a->k_splits; q++) {
    const float *at = partial_at(a, p.tile, q);
    float x[NC];
    GA_UNROLL for (int j = 0; j < NC; j += 4) ldg_f4(x + j, at + 32 * j);
    GA_UNROLL for (int j = 0; j < NC; j++) c[j] += x[j];
  }
  return true;
}

/* --- halves of k: warpgroup r of block r of a cluster finishes the rows of both blocks' warpgroups r --- */

/* Where a warpgroup leaves its sums for the other block: the place of results of the one that does not finish there. */
GA_DEV uint32_t sums_from_peer_at(uint32_t sb, int rank) {
  return sb + OFF_STAGE + (uint32_t)((1 - rank) * 4 * STAGE_BYTES + thread_index() % 128 * 16);
}
GA_DEV void send_sums_to_peer(uint32_t sb, int rank, const float *c) {
  const uint32_t to = cluster_address(sums_from_peer_at(sb, rank), (uint32_t)rank);
  GA_UNROLL for (int j = 0; j < NC; j += 4)
      sts_cluster_i4(to + (uint32_t)(j * 512), (int)float_bits(c[j]), (int)float_bits(c[j + 1]),
                     (int)float_bits(c[j + 2]), (int)float_bits(c[j + 3]));
}
GA_DEV void add_sums_from_peer(uint32_t sb, int rank, float *c) {
  GA_UNROLL for (int j = 0; j < NC; j += 4) {
    float x[4];
    lds_f4(x, sums_from_peer_at(sb, rank) + (uint32_t)(j * 512));
    GA_UNROLL for (int e = 0; e < 4; e++) c[j + e] += x[e];
  }
}

/* --- the kernel --- */

GA_DEV void start_block(args a, uint32_t sb) {
  if (thread_index() == 0) {
    tmap_prefetch(&a->x);
    tmap_prefetch(&a->w);
    const uint32_t full = BLOCK_SCALES ? 33 : 1;
    for (int s = 0; s < STAGES; s++)
      mbar_init(sb + OFF_FULL + 8 * s, full), mbar_init(sb + OFF_EMPTY + 8 * s, COOPERATIVE ? 2 * WGS : WGS);
    mbar_init_fence();
  }
  if (BLOCKS > 1)
    cluster_sync();
  else
    block_sync();
  grid_launch_dependents();
}

/* A warpgroup's results of a tile. */
GA_DEV void put_results(args a, uint32_t sb, piece p, const float *c) {
  if (a->y_bulk)
    put_bulk(a, sb, p.row, p.col, c);
  else
    put_tile(&a->p.g, sb, p.row, p.col, c);
}
/* Shared memory must outlive the last store's reads. */
GA_DEV void wait_results(args a) {
  if (a->y_bulk && thread_index() % 32 == 0) bulk_wait_read();
}

/* Blocks end together: those of a pair arrive at each other's barriers. */
GA_DEV void consumer(args a, uint32_t sb, int wg) {
  uint32_t i = 0;
  if (CLUSTER_K) {
    const piece p = piece_at(a, block_index() / 2);
    const int rank = block_index() % 2;
    float c[NC];
    multiply_piece(a, sb, wg, i, p, c);
    if (wg != rank) send_sums_to_peer(sb, wg, c);
    cluster_sync();
    if (wg != rank) return;
    add_sums_from_peer(sb, rank, c);
    put_results(a, sb, p, c);
    wait_results(a);
    return;
  }
  PIECES(t, a) {
    const piece p = piece_at(a, t);
    float c[NC];
    multiply_piece(a, sb, wg, i, p, c);
    i += (uint32_t)p.steps;
    if (SPLIT_K && a->k_splits > 1 && !add_splits(a, p, c)) continue;
    put_results(a, sb, p, c);
  }
  wait_results(a);
  if (BLOCKS > 1) cluster_sync();
}

GA_KERNEL(LANES + 128, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_tile a) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  start_block(&a, sb);
  if (wg < WGS) {
#if GA_P_BM > 64
    setmaxnreg_inc(232);
#endif
    grid_dependency_wait(); /* the epilogue reads, and Y may be what the kernel ahead reads */
    consumer(&a, sb, wg);
    return;
  }
#if GA_P_BM > 64
  setmaxnreg_dec(40);
#endif
  if (thread_index() == LANES) {
    grid_dependency_wait();
    copy_operands(&a, sb);
  } else if (BLOCK_SCALES && thread_index() / 32 == LANES / 32 + 1) {
    grid_dependency_wait();
    copy_scales(&a, sb);
  }
  warp_sync();
  if (BLOCKS > 1) cluster_sync();
}
