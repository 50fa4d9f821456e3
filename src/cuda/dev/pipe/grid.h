/* The order in which blocks of a grid process output tiles. Persistent blocks run for the whole launch: block i of n
 * processes tiles i, i + n, i + 2 n, ... */
#pragma once
#include "cuda/dev/ptx/base.h"

/* Computes the row and the column of tile i among rows x cols tiles. Tiles are numbered by groups of `group` rows of
 * tiles, and column by column within a group. Neighbouring tiles then share data in L2. */
GA_DEV void grid_tile(int i, int rows, int cols, int group, int *row, int *col) {
  const int per = group * cols, first = i / per * group, left = rows - first, height = left < group ? left : group;
  *row = first + i % per % height;
  *col = i % per / height;
}
/* Loops over the output tiles i < n that this block processes. */
#define GRID_TILES(i, n) GA_ROLL for (int i = block_index(); i < (n); i += block_count())
