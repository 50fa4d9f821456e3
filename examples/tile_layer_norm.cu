/* Layer norm by rows, bf16, in one pass over memory. The variance is of the differences to the mean, so nothing
 * cancels. */
#include "tile_rows.h"

GA_KERNEL(THREADS, 2) tile_layer_norm(GA_GRID_CONST layer_norm_args p) {
  GA_SHARED row_shared shared;
  float gain[8 * VECTORS], bias[8 * VECTORS];
  read_row(gain, p.gain, p.width, 0);
  read_row(bias, p.bias, p.width, 0);
  GRID_TILES(i, p.rows) {
    float x[8 * VECTORS], sum = 0, square = 0;
    read_row(x, row_pointer(p.x, i, p.width), p.width, 0);
    GA_UNROLL for (int e = 0; e < 8 * VECTORS; e++) sum += x[e];
    const float mean = row_sum(&shared, 0, THREADS, sum) / (float)p.width;
    GA_UNROLL for (int e = 0; e < 8 * VECTORS; e++) {
      const int at = 8 * (e / 8 * THREADS + thread_index());
      x[e] = at < p.width ? x[e] - mean : 0;
      square += x[e] * x[e];
    }
    const float scale = 1.0f / sqrtf(row_sum(&shared, 1, THREADS, square) / (float)p.width + p.eps);
    GA_UNROLL for (int e = 0; e < 8 * VECTORS; e++) x[e] = x[e] * scale * gain[e] + bias[e];
    write_row(row_pointer(p.y, i, p.width), x, p.width);
  }
}
