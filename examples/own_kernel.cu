/* A kernel of one's own on the tile layer: the root mean square of each row. own_kernel.c launches it. */
#include <ga/tile/tile.h>

#include "own_kernel.h"

enum { THREADS = 256 };

GA_KERNEL(THREADS, 4) own_kernel(GA_GRID_CONST own_args p) {
  GA_SHARED row_shared shared;
  for (int row = block_index(), turn = 0; row < p.rows; row += block_count(), turn++) {
    float sum = 0;
    for (int c = thread_index(); c < p.width; c += THREADS) {
      const float x = p.x[(int64_t)row * p.width + c];
      sum = fmaf(x, x, sum);
    }
    /* Sums over all threads of the block. Rows alternate two buffers: slow warps may still read the last row's sums. */
    sum = row_sum(&shared, turn, THREADS, sum);
    if (thread_index() == 0) p.y[row] = sqrtf(sum / (float)p.width);
  }
}
