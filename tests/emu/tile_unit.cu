/* What of the tile layer no kernel of the tree uses yet: copies of three dimensions with multicast, the way through
 * registers and back, row operations. Two blocks of a cluster. */
#include <ga/tile/tile.h>

#include "tests/emu/tile_unit.h"

enum { TILE = 16 * 128, OFF_IN = 0, OFF_OUT = 2 * TILE, OFF_BAR = 4 * TILE };

/* Block r asks for box r, which both get: each has the whole of x. Then it writes all of it to y[r], by registers. */
GA_DEV void copy_boxes(const tile_unit_args *p, uint32_t sb, int rank) {
  uint32_t a[16];
  const int lane = thread_index() % 32;
  if (thread_index() == 0) {
    mbar_init(sb + OFF_BAR, 1);
    mbar_init_fence();
  }
  cluster_sync();
  if (thread_index() == 0) {
    mbar_arrive_expect(sb + OFF_BAR, 2 * TILE);
    bulk_load_3d_multicast(sb + OFF_IN + (uint32_t)rank * TILE, &p->x, sb + OFF_BAR, 0, 0, rank, 3, L2_EVICT_FIRST);
  }
  mbar_wait(sb + OFF_BAR, 0);
  for (uint32_t z = 0; z < 2; z++) {
    load_a(a, sb + OFF_IN + z * TILE, TILE, 0, 4, lane);
    tile_store(sb + OFF_OUT + z * TILE, TILE, 0, a, 64, lane);
  }
  fence_async_smem();
  warp_sync();
  if (thread_index() == 0) {
    for (int z = 0; z < 2; z++) bulk_store_3d(&p->y, sb + OFF_OUT + (uint32_t)z * TILE, 0, 0, 2 * rank + z);
    bulk_commit();
    bulk_wait();
  }
  cluster_sync(); /* nobody leaves while a copy into the other is under way */
}

/* x[row][col] = row - col / 4 of 16 x 16: maximum, sum of (x + maximum) * (row + 1), sum of 2^x; rows g and g + 8 of
 * each lane. */
GA_DEV void rows(const tile_unit_args *p) {
  const int lane = thread_index() % 32, g = lane / 4, q = lane % 4;
  const float by[2] = {(float)(g + 1), (float)(g + 9)}, zero[2] = {0, 0};
  float x[8], e[8], most[2], sum[2], part[2], ones[2];
  GA_UNROLL for (int i = 0; i < 8; i++) x[i] = e[i] =
      (float)(g + 8 * (i / 2 % 2)) - 0.25f * (float)(8 * (i / 4) + 2 * q + i % 2);
  tile_row_max(x, 16, most);
  tile_add_rows(x, 16, most);
  tile_scale_rows(x, 16, by);
  tile_row_sum(x, 16, sum);
  tile_exp2(e, 16, 1, zero, part);
  tile_fill(x, 16, 1);
  tile_row_sum(x, 16, ones);
  for (int h = 0; h < 2 && q == 0; h++) {
    float *to = p->rows + 4 * (g + 8 * h);
    stg_f32(to, most[h]);
    stg_f32(to + 1, sum[h]);
    stg_f32(to + 3, ones[h]);
  }
  const float all[2] = {quad_sum(part[0]), quad_sum(part[1])};
  for (int h = 0; h < 2 && q == 0; h++) stg_f32(p->rows + 4 * (g + 8 * h) + 2, all[h]);
}

GA_KERNEL(32, 1) tile_unit(GA_GRID_CONST tile_unit_args args) {
  const int rank = (int)cluster_rank();
  copy_boxes(&args, smem_base(), rank);
  if (rank == 0) rows(&args);
  int row, col;
  for (int i = thread_index(); i < UNIT_ROWS * UNIT_COLS && rank == 0; i += 32) {
    grid_tile(i, UNIT_ROWS, UNIT_COLS, UNIT_GROUP, &row, &col);
    stg_i32(args.order + i, row * UNIT_COLS + col);
  }
}
