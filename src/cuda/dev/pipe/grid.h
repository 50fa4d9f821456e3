/* The grid: which tile of the output a block takes next. Blocks that stay for the whole launch take tiles i, i +
 * blocks, ... */
#pragma once
#include "cuda/dev/ptx/base.h"

/* Tile i of rows x cols tiles, in groups of `group` rows of tiles that share the columns they read in L2. */
GA_DEV void grid_tile(int i, int rows, int cols, int group, int *row, int *col) {
  const int per = group * cols, first = i / per * group, left = rows - first, height = left < group ? left : group;
  *row = first + i % per % height;
  *col = i % per / height;
}
/* Passes over the output tiles of a block. */
#define GRID_TILES(i, n) GA_ROLL for (int i = block_index(); i < (n); i += block_count())
