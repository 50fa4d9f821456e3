/* KERNEL    gemm_tile, sm90a: matrix products of 16-bit operands on wgmma
 * COMPUTES  Y = epilogue(X W^T), sums in f32 (ga/gemm.h); Y in f32, f16 or bf16
 * DATA      X and W: bulk copies into a ring of STAGES steps of 64 columns, swizzled; Y: registers, shared memory,
 *           gmem, by bulk stores or 8 columns a lane
 * WORK      a tile is BM x BN, a warpgroup takes 64 rows, another one copies. PAIR: clusters of two blocks have tiles one above the
 *           other and copy half of W's rows each, for both; blocks stay for the whole launch. SPLIT: the blocks of a cluster share
 *           a tile's k; each finishes its part of the columns, with sums added in one order
 * BARRIERS  full[s]: one arrival and the bytes of both operands. empty[s]: one arrival a warpgroup that reads the stage, in every block it
 *           is copied to. Pair: blocks end together, as they arrive at each other's barriers. Split: the ring is dead when sums are exchanged
 * BUDGET    128 lanes that copy and 128 for 64 rows, 1 block a multiprocessor; BM 128: 40 and 232 registers
 */
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile.h"
#include "cuda/dev/tile/epilogue.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: of X and W: bf16 or f16"
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
#ifndef GA_P_PAIR
#error "GA_P_PAIR: 1: blocks work in pairs that share W"
#endif
#ifndef GA_P_SPLIT
#error "GA_P_SPLIT: blocks that share a tile's k"
#endif

enum {
  BM = GA_P_BM, BN = GA_P_BN, BK = 64, STAGES = GA_P_STAGES, SPLIT = GA_P_SPLIT, PAIR = GA_P_PAIR, BLOCKS = PAIR ? 2 : SPLIT,
  WGS = BM / 64, LANES = 128 * WGS, /* that multiply */
  X_BYTES = BM * 128, W_BYTES = BN * 128, STAGE = X_BYTES + W_BYTES,
  NC = BN / 2,           /* sums of a lane */
  STAGE_BYTES = 16 * 256, /* of a warp's results */
  WIDE = BN < 128 ? BN : 128, /* columns of 16 bits that have room there */
  PART = (BN / 8 + SPLIT - 1) / SPLIT, /* groups of 8 columns that a block of a split tile finishes, at most */
  OFF_STAGE = STAGES * STAGE, OFF_FULL = OFF_STAGE + (SPLIT == 1 ? 4 * WGS * STAGE_BYTES : 0), OFF_EMPTY = OFF_FULL + 8 * STAGES
};
static_assert(SPLIT == 1 || SPLIT * PART * LANES * 16 <= OFF_STAGE, "sums to exchange fit the ring");
#define PACK_16 GA_CAT(pack_, GA_P_DTYPE)
#define WGMMA GA_CAT5(wgmma_m64n, GA_P_BN, k16_, GA_P_DTYPE, _ss)

typedef const ga_kargs_gemm_tile *args;

/* --- the work of a block --- */

GA_DEV int tile_first(void) { return block_index() / BLOCKS; }
GA_DEV int tile_step(void) { return block_count() / BLOCKS; }
GA_DEV int n_tiles(args a) { return a->row_tiles * a->col_tiles; }
/* First row and column of the block's tile t. */
GA_DEV void tile_at(args a, int t, int *row, int *col) {
  grid_tile(t, a->row_tiles, a->col_tiles, a->band, row, col);
  *row = (PAIR ? 2 * *row + block_index() % 2 : *row) * BM;
  *col *= BN;
}
GA_DEV int k_first(args a, int part) { return SPLIT == 1 ? part * a->steps : a->steps * part / SPLIT; }

/* --- copies: one thread --- */

GA_DEV void copy(args a, uint32_t sb) {
  const uint32_t rank = BLOCKS > 1 ? (uint32_t)(block_index() % BLOCKS) : 0;
  const int first = k_first(a, SPLIT > 1 ? (int)rank : 0), end = k_first(a, SPLIT > 1 ? (int)rank + 1 : 1);
  uint32_t i = 0;
  GA_ROLL for (int t = tile_first(); t < n_tiles(a); t += tile_step()) {
    int row, col;
    tile_at(a, t, &row, &col);
    GA_ROLL for (int k = first; k < end; k++, i++) {
      const uint32_t s = ring_stage(i, STAGES), full = sb + OFF_FULL + 8 * s, at = sb + s * STAGE;
      mbar_wait(sb + OFF_EMPTY + 8 * s, ring_empty_parity(i, STAGES));
      mbar_arrive_expect(full, STAGE);
      bulk_load_2d(at, &a->x, full, k * BK, row, L2_EVICT_LAST);
      if (PAIR)
        bulk_load_2d_multicast(at + X_BYTES + rank * (W_BYTES / 2), &a->w, full, k * BK, col + (int)rank * (BN / 2), 3, L2_EVICT_LAST);
      else
        bulk_load_2d(at + X_BYTES, &a->w, full, k * BK, col, L2_EVICT_LAST);
    }
  }
}

/* --- products --- */

GA_DEV void release(uint32_t sb, uint32_t i, int leader) {
  if (!leader) return;
  const uint32_t empty = sb + OFF_EMPTY + 8 * ring_stage(i, STAGES);
  mbar_arrive(empty);
  if (PAIR) mbar_arrive_cluster(empty, (uint32_t)(block_index() % 2 ^ 1));
}

/* One tile: `steps` blocks of the ring from block i on. */
GA_DEV void multiply(uint32_t sb, int wg, uint32_t i, int steps, float *c) {
  const int leader = thread_index() % 128 == 0;
  GA_ROLL for (int k = 0; k < steps; k++, i++) {
    const uint32_t s = ring_stage(i, STAGES), at = sb + s * STAGE;
    const uint32_t x = desc_k_major(at + (uint32_t)wg * 64 * 128), w = desc_k_major(at + X_BYTES);
    mbar_wait(sb + OFF_FULL + 8 * s, ring_full_parity(i, STAGES));
    wgmma_fence();
    GA_UNROLL for (int j = 0; j < BK / 16; j++) WGMMA(c, desc(x + 2 * j), desc(w + 2 * j), k + j > 0);
    wgmma_commit();
    wgmma_wait(1); /* the products before these are done: their stage is free */
    if (k > 0) release(sb, i - 1, leader);
  }
  wgmma_wait(0);
  release(sb, i - 1, leader);
}

/* --- results: sums pass through shared memory, so that a lane gets 8 neighbouring columns and little code does it --- */

/* A warp's 16 rows of 64 columns in f32: group j of 8 columns of row r lies at group j ^ (r % 8). */
GA_DEV uint32_t stage_at(uint32_t stage, int r, int j) { return stage + (uint32_t)(r * 256 + (j ^ r % 8) * 32); }

/* x[4j + 2h + e]: row g + 8h, column 8j + 2q + e. */
GA_DEV void stage_put(uint32_t stage, int lane, const float *x) {
  const uint32_t at = (uint32_t)(lane % 4 * 8);
  GA_UNROLL for (int j = 0; j < 8; j++)
    GA_UNROLL for (int h = 0; h < 2; h++) sts_f2(stage_at(stage, lane / 4 + 8 * h, j) + at, x[4 * j + 2 * h], x[4 * j + 2 * h + 1]);
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
  GA_UNROLL for (int h = 0; h < BN; h += WIDE) {
    uint32_t x[WIDE / 4];
    GA_UNROLL for (int i = 0; i < WIDE / 4; i++) x[i] = PACK_16(c[h / 2 + 2 * i] * a->g.scale, c[h / 2 + 2 * i + 1] * a->g.scale);
    if (lane == 0) bulk_wait_read(); /* what was stored before has left this memory */
    warp_sync();
    tile_store(stage, 16 * 128, 0, x, WIDE, lane);
    fence_async_smem();
    warp_sync();
    if (lane) continue;
    GA_UNROLL for (int i = 0; i < WIDE; i += 64)
      if (col + h + i < a->g.n && row + warp * 16 < a->g.m) bulk_store_2d(&a->y, stage + (uint32_t)(i / 64 * 16 * 128), col + h + i, row + warp * 16);
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
    if (plain) GA_UNROLL for (int p = 0; p < 4; p++) stage_finish(g, true, stage, lane, p, row, col);
    else GA_ROLL for (int p = 0; p < 4; p++) stage_finish(g, false, stage, lane, p, row, col);
    warp_sync();
  }
}

/* --- a tile whose k is split among the cluster's blocks: each finishes some groups of 8 columns --- */

GA_DEV int part_first(int p) { return p * (BN / 8) / SPLIT; }
/* Where block `from` leaves what its thread t has of group j of a part. */
GA_DEV uint32_t part_at(uint32_t sb, int from, int j, int t) { return sb + (uint32_t)(((from * PART + j) * LANES + t) * 16); }

GA_DEV void send_parts(uint32_t sb, int rank, const float *c) {
  GA_UNROLL for (int j = 0; j < BN / 8; j++) {
    const int to = (SPLIT * (j + 1) - 1) / (BN / 8); /* the last p with part_first(p) <= j */
    const float *x = c + 4 * j;
    sts_cluster_i4(cluster_address(part_at(sb, rank, j - part_first(to), thread_index()), (uint32_t)to), (int)float_bits(x[0]),
                   (int)float_bits(x[1]), (int)float_bits(x[2]), (int)float_bits(x[3]));
  }
}

/* Sums of group j of a part in row r: columns 2q, 2q+1 are with lane 4 (r % 8) + q of warp r / 16. */
GA_DEV void add_parts(uint32_t sb, int j, int r, float *x) {
  const int t = r / 16 * 32 + r % 8 * 4;
  GA_UNROLL for (int e = 0; e < 8; e++) x[e] = 0;
  GA_UNROLL for (int from = 0; from < SPLIT; from++)
    GA_UNROLL for (int q = 0; q < 4; q++) {
      float y[2];
      lds_f2(y, part_at(sb, from, j, t + q) + (uint32_t)(r / 8 % 2 * 8));
      x[2 * q] += y[0];
      x[2 * q + 1] += y[1];
    }
}

GA_DEV void put_part(const ga_kargs_gemm *g, uint32_t sb, int rank, int row, int col) {
  const int first = part_first(rank), n = part_first(rank + 1) - first;
  const bool plain = gemm_is_plain(g);
  GA_ROLL for (int i = thread_index(); i < n * BM; i += LANES) {
    float x[8];
    add_parts(sb, i % n, i / n, x);
    gemm_finish_8(g, plain, row + i / n, col + 8 * (first + i % n), x);
  }
}

/* --- the kernel --- */

GA_DEV void start(args a, uint32_t sb) {
  if (thread_index() == 0) {
    tmap_prefetch(&a->x);
    tmap_prefetch(&a->w);
    for (int s = 0; s < STAGES; s++) mbar_init(sb + OFF_FULL + 8 * s, 1), mbar_init(sb + OFF_EMPTY + 8 * s, PAIR ? 2 * WGS : WGS);
    mbar_init_fence();
  }
  if (BLOCKS > 1) cluster_sync();
  else block_sync();
  grid_launch_dependents();
}

/* Blocks end together: those of a pair arrive at each other's barriers. */
GA_DEV void consume_whole(args a, uint32_t sb, int wg) {
  uint32_t i = 0;
  float c[NC];
  GA_ROLL for (int t = tile_first(); t < n_tiles(a); t += tile_step(), i += (uint32_t)a->steps) {
    int row, col;
    tile_at(a, t, &row, &col);
    multiply(sb, wg, i, a->steps, c);
    if (a->y_bulk) put_bulk(a, sb, row, col, c);
    else put_tile(&a->g, sb, row, col, c);
  }
  if (a->y_bulk && thread_index() % 32 == 0) bulk_wait_read(); /* shared memory must outlive the last store's reads */
  if (BLOCKS > 1) cluster_sync();
}

GA_DEV void consume_split(args a, uint32_t sb, int wg) {
  const int rank = block_index() % SPLIT;
  int row, col;
  float c[NC];
  multiply(sb, wg, 0, k_first(a, rank + 1) - k_first(a, rank), c);
  cluster_sync(); /* no block reads its ring any more */
  send_parts(sb, rank, c);
  cluster_sync();
  tile_at(a, tile_first(), &row, &col);
  put_part(&a->g, sb, rank, row, col);
}

GA_KERNEL(LANES + 128, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_tile a) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  start(&a, sb);
  if (wg < WGS) {
#if GA_P_BM > 64
    setmaxnreg_inc(232);
#endif
    grid_dependency_wait(); /* the epilogue reads, and Y may be what the kernel ahead reads */
    if (SPLIT > 1) consume_split(&a, sb, wg);
    else consume_whole(&a, sb, wg);
    return;
  }
#if GA_P_BM > 64
  setmaxnreg_dec(40);
#endif
  if (thread_index() == LANES) {
    grid_dependency_wait();
    copy(&a, sb);
  }
  warp_sync();
  if (BLOCKS > 1) cluster_sync();
  if (SPLIT > 1) cluster_sync();
}
