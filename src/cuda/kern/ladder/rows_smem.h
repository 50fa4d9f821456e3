/* Common parts of kernels 02 and 03 of the ladder. Two threads share a row, 64 columns each. K and V are in shared
 * memory as floats. */
#pragma once
#include "cuda/kern/ladder/ladder.h"

enum { BM = 64, BN = 32, HALF = D / 2, THREADS = 2 * BM };

typedef struct {
  alignas(16) float x[BN][D];
} smem_rows;

/* Loads 32 rows of K or V, from row `row` on, as floats to shared memory. All threads of the block call. Rows from
 * `rows` on become zero. */
GA_DEV void load_rows(smem_rows *to, const uint16_t *from, int64_t stride, int row, int rows) {
  GA_ROLL for (int i = thread_index(); i < BN * D / 8; i += THREADS) {
    const int r = i / (D / 8), c = i % (D / 8) * 8;
    float x[8] = {0};
    if (row + r < rows) elem_get16_bf16(x, from + (row + r) * stride, c);
    GA_UNROLL for (int e = 0; e < 8; e++) to->x[r][c + e] = x[e];
  }
}
/* Returns the dot product of q and k over the 64 columns of this thread. */
GA_DEV float half_dot(const float *q, const float *k) {
  float sum = 0.f;
  GA_UNROLL for (int c = 0; c < HALF; c++) sum += q[c] * k[c];
  return sum;
}
GA_DEV float pair_sum(float x) { return x + shfl_xor_f32(x, 1); }

/* Loads 64 columns, from column `first` on, of row `row` of Q. If there is no such row, q becomes zero. */
GA_DEV void load_half(args a, const tile_coord *p, int row, int first, float *q) {
  GA_UNROLL for (int c = 0; c < HALF; c++) q[c] = 0.f;
  if (row >= a->rows_q) return;
  GA_UNROLL for (int c = 0; c < HALF; c += 8) elem_get16_bf16(q + c, p->q + row * a->q_stride.token, first + c);
}
GA_DEV void store_half(args a, const tile_coord *p, int row, int first, float *o, float most, float sum) {
  if (row >= a->rows_q) return;
  GA_UNROLL for (int c = 0; c < HALF; c++) o[c] /= sum;
  GA_UNROLL for (int c = 0; c < HALF; c += 8) elem_put16_bf16(p->o + row * a->o_stride.token, first + c, o + c);
  if (p->lse && first == 0) p->lse[row] = most * a->scale + logf(sum);
}
