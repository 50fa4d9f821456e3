/* Functions of softmax and layer norm: a row of bf16 in the registers of a block, 8 elements a vector. */
#include <ga/tile/tile.h>

#include "tile_args.h"

enum { THREADS = 256, VECTORS = 4, MOST = 8 * THREADS * VECTORS };

/* x[8 v + e]: element 8 (v THREADS + thread) + e of the row; `none` past its end. */
GA_DEV void read_row(float *x, const void *row, int width, float none) {
  GA_UNROLL for (int v = 0; v < VECTORS; v++) {
    const int at = 8 * (v * THREADS + thread_index());
    if (at < width)
      elem_get16_bf16(x + 8 * v, row, at);
    else GA_UNROLL
      for (int e = 0; e < 8; e++) x[8 * v + e] = none;
  }
}
GA_DEV void write_row(void *row, const float *x, int width) {
  GA_UNROLL for (int v = 0; v < VECTORS; v++) {
    const int at = 8 * (v * THREADS + thread_index());
    if (at < width) elem_put16_bf16(row, at, x + 8 * v);
  }
}
/* Row `i` of a matrix of bf16. */
GA_DEV char *row_pointer(const void *p, int i, int width) { return (char *)p + 2 * (int64_t)i * width; }
