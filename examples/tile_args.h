/* Parameters of the example kernels: one struct for each kernel, the same bytes on the host and on the device. */
#ifndef TILE_ARGS_H
#define TILE_ARGS_H
#include <ga/tile/tmap.h>

/* C (m x n) = A (m x k) B (n x k)^T in bf16, row-major. Boxes of the maps: 64 columns x 128 rows, 256 rows, 16 rows. */
typedef struct gemm_args {
  ga_tmap a, b, c;
  int m, n, k;
} gemm_args;

/* y = softmax(x) by rows, bf16; width a multiple of 8, at most 8192. */
typedef struct softmax_args {
  const void *x;
  void *y;
  int rows, width;
} softmax_args;

/* y = (x - mean) / sqrt(variance + eps) * gain + bias by rows, bf16; width as above. */
typedef struct layer_norm_args {
  const void *x, *gain, *bias;
  void *y;
  int rows, width;
  float eps;
} layer_norm_args;

#endif
