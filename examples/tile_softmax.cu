/* Softmax by rows, bf16, in one pass over memory. */
#include "tile_rows.h"

#define LOG2E 1.44269504f

GA_KERNEL(THREADS, 4) tile_softmax(GA_GRID_CONST softmax_args p) {
  GA_SHARED row_shared shared;
  GRID_TILES(i, p.rows) {
    float x[8 * VECTORS], most = GA_NEG_INFINITY, sum = 0;
    read_row(x, row_pointer(p.x, i, p.width), p.width, GA_NEG_INFINITY);
    GA_UNROLL for (int e = 0; e < 8 * VECTORS; e++) most = row_larger(most, x[e]);
    most = row_max(&shared, 0, THREADS, most) * LOG2E;
    GA_UNROLL for (int e = 0; e < 8 * VECTORS; e++) sum += x[e] = ex2(fmaf(x[e], LOG2E, -most));
    const float part = rcp(row_sum(&shared, 1, THREADS, sum));
    GA_UNROLL for (int e = 0; e < 8 * VECTORS; e++) x[e] *= part;
    write_row(row_pointer(p.y, i, p.width), x, p.width);
  }
}
