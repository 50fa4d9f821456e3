/* Order of output tiles over the grid. Persistent blocks run for the whole launch and process tiles i, i + blocks, i +
 * 2 blocks, ... */
#pragma once
#include "cuda/dev/ptx/base.h"

/* Computes the row and the column of tile i among rows x cols tiles. `group` rows of tiles are visited together, so
 * that they share their columns in L2. */
GA_DEV void grid_tile(int i, int rows, int cols, int group, int *row, int *col) {
  const int per = group * cols, first = i / per * group, left = rows - first, height = left < group ? left : group;
  *row = first + i % per % height;
  *col = i % per / height;
}
/* Loops over the output tiles i < n that this block processes. */
#define GRID_TILES(i, n) GA_ROLL for (int i = block_index(); i < (n); i += block_count())
