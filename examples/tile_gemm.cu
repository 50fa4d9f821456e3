/* A bf16 matrix product for Hopper, written on GA's tile layer. docs/guide/kernels-and-tiles.md explains it. A block
 * has one warpgroup that copies and two that multiply. Tiles are 128 x 256; a ring has four stages of 64 columns of A
 * and B. */
#include <ga/tile/tile.h>

#include "tile_args.h"

enum {
  BM = 128,
  BN = 256,
  BK = 64,
  STAGES = 4,
  GROUP = 16, /* rows of tiles that share B in L2 */
  A_BYTES = BM * 128,
  B_BYTES = BN * 128,
  STAGE = A_BYTES + B_BYTES,
  C_PANEL = 16 * 128,
  C_BYTES = 2 * C_PANEL, /* of a warp: 16 rows, 128 columns at a time */
  OFF_C = STAGES * STAGE,
  OFF_FULL = OFF_C + 8 * C_BYTES,
  OFF_EMPTY = OFF_FULL + 8 * STAGES
};

GA_DEV int rows_of_tiles(const gemm_args *p) { return (p->m + BM - 1) / BM; }
GA_DEV int cols_of_tiles(const gemm_args *p) { return (p->n + BN - 1) / BN; }
GA_DEV int n_tiles(const gemm_args *p) { return rows_of_tiles(p) * cols_of_tiles(p); }

/* Run by one thread: starts a bulk copy into each stage as soon as it is free. */
GA_DEV void copy_tiles(const gemm_args *p, uint32_t sb) {
  uint32_t i = 0;
  GRID_TILES(t, n_tiles(p)) {
    int row, col;
    grid_tile(t, rows_of_tiles(p), cols_of_tiles(p), GROUP, &row, &col);
    GA_ROLL for (int k = 0; k < p->k; k += BK, i++) {
      const uint32_t s = ring_stage(i, STAGES), full = sb + OFF_FULL + 8 * s, at = sb + s * STAGE;
      mbar_wait(sb + OFF_EMPTY + 8 * s, ring_empty_parity(i, STAGES));
      mbar_arrive_expect(full, STAGE);
      bulk_load_2d(at, &p->a, full, k, row * BM, L2_EVICT_LAST);
      bulk_load_2d(at + A_BYTES, &p->b, full, k, col * BN, L2_EVICT_LAST);
    }
  }
}

/* Stores a warpgroup's 64 x 256 sums through shared memory: each warp its 16 rows, half of the columns at a time. */
GA_DEV void store_tile(const gemm_args *p, const float *c, uint32_t at, int row, int col) {
  const int lane = thread_index() % 32;
  uint32_t half[BN / 8];
  GA_UNROLL for (int h = 0; h < 2; h++) {
    tile_pack_bf16(c + h * BN / 4, BN / 2, half);
    if (lane == 0) bulk_wait_read(); /* the previous store has read this memory */
    warp_sync();
    tile_store(at, C_PANEL, 0, half, BN / 2, lane);
    fence_async_smem();
    warp_sync();
    if (lane == 0) {
      bulk_store_2d(&p->c, at, col + h * BN / 2, row);
      bulk_store_2d(&p->c, at + C_PANEL, col + h * BN / 2 + 64, row);
      bulk_commit();
    }
  }
}

GA_DEV void multiply_tile(const gemm_args *p, uint32_t sb, int wg) {
  const int warp = thread_index() / 32, leader = thread_index() % 128 == 0;
  uint32_t i = 0;
  float c[BN / 2];
  GRID_TILES(t, n_tiles(p)) {
    int row, col;
    grid_tile(t, rows_of_tiles(p), cols_of_tiles(p), GROUP, &row, &col);
    GA_ROLL for (int k = 0; k < p->k; k += BK, i++) {
      const uint32_t s = ring_stage(i, STAGES), at = sb + s * STAGE;
      const uint32_t a = desc_k_major(at + wg * 64 * 128), b = desc_k_major(at + A_BYTES);
      mbar_wait(sb + OFF_FULL + 8 * s, ring_full_parity(i, STAGES));
      wgmma_fence();
      GA_UNROLL for (int j = 0; j < 4; j++) wgmma_m64n256k16_bf16_ss(c, desc(a + 2 * j), desc(b + 2 * j), k + j > 0);
      wgmma_commit();
      wgmma_wait(1); /* the previous products are done: their stage is free */
      if (k > 0 && leader) mbar_arrive(sb + OFF_EMPTY + 8 * ring_stage(i - 1, STAGES));
    }
    wgmma_wait(0);
    if (leader) mbar_arrive(sb + OFF_EMPTY + 8 * ring_stage(i - 1, STAGES));
    store_tile(p, c, sb + OFF_C + warp * C_BYTES, row * BM + warp * 16, col * BN);
  }
  if (thread_index() % 32 == 0) bulk_wait();
}

GA_KERNEL(384, 1) tile_gemm(GA_GRID_CONST gemm_args args) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  if (thread_index() == 0) {
    for (int s = 0; s < STAGES; s++) mbar_init(sb + OFF_FULL + 8 * s, 1), mbar_init(sb + OFF_EMPTY + 8 * s, 2);
    mbar_init_fence();
  }
  block_sync();
  if (wg == 2) {
    setmaxnreg_dec(40);
    if (thread_index() == 256) copy_tiles(&args, sb);
  } else {
    setmaxnreg_inc(232);
    multiply_tile(&args, sb, wg);
  }
}
