/* LADDER 01  naive: one thread a row of O, everything from global memory
 * CHANGES    nothing yet: the definition, in two passes over the keys: the largest score of the row, then the weights
 * LIMITED BY loads: every thread reads all of K twice and all of V once, and its own row of Q for every key
 */
#include "cuda/kern/ladder/ladder.h"

enum { BM = 64 };

GA_DEV float dot(const uint16_t *q, const uint16_t *k) {
  float sum = 0.f, x[8], y[8];
  GA_ROLL for (int c = 0; c < D; c += 8) {
    elem_get16_bf16(x, q, c);
    elem_get16_bf16(y, k, c);
    GA_UNROLL for (int e = 0; e < 8; e++) sum += x[e] * y[e];
  }
  return sum;
}

GA_KERNEL(BM, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_ladder a) {
  const tile_coord p = tile_coord_of(&a, BM);
  const int row = p.row0 + thread_index();
  if (row >= a.rows_q) return;
  const uint16_t *q = p.q + row * a.q_stride.token;
  float most = GA_NEG_INF, sum = 0.f, o[D], x[8];
  GA_UNROLL for (int c = 0; c < D; c++) o[c] = 0.f;

  GA_ROLL for (int j = 0; j < a.rows_k; j++) most = fmaxf(most, dot(q, p.k + j * a.k_stride.token));

  GA_ROLL for (int j = 0; j < a.rows_k; j++) {
    const float weight = ex2((dot(q, p.k + j * a.k_stride.token) - most) * a.scale_log2);
    sum += weight;
    GA_UNROLL for (int c = 0; c < D; c += 8) {
      elem_get16_bf16(x, p.v + j * a.v_stride.token, c);
      GA_UNROLL for (int e = 0; e < 8; e++) o[c + e] += weight * x[e];
    }
  }

  GA_UNROLL for (int c = 0; c < D; c++) o[c] /= sum;
  GA_UNROLL for (int c = 0; c < D; c += 8) elem_put16_bf16(p.o + row * a.o_stride.token, c, o + c);
  if (p.lse) p.lse[row] = most * a.scale + logf(sum);
}
