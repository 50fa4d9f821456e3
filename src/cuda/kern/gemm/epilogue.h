/* The epilogue of a matrix product: computes an element of Y from its sum of products; see ga/gemm.h. */
#pragma once
#include "cuda/dev/tile/act.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/gemm/gemm_args.h"

/* Applies the epilogue to `sum`, the sum of products of row `row` and column `col`, and writes Y[row, col]. */
GA_DEV void gemm_finish(const ga_kargs_gemm *a, int64_t row, int64_t col, float sum) {
  const int64_t at = row * a->y_stride + col;
  float t = a->scale * sum;
  if (a->bias) t += a->bias[col];
  if (a->gate)
    t *= act_of(a->act, plain_get(a->y_dtype, a->gate, at));
  else
    t = act_of(a->act, t);
  if (a->residual) t += plain_get(a->y_dtype, a->residual, at);
  plain_put(a->y_dtype, a->y, at, t);
}

/* --- functions for 8 neighbouring columns of a row, from a multiple of 8 on; rows begin at multiples of 16 bytes
 * --- */

GA_DEV void gemm_get_8(int dtype, const void *base, int64_t at, int n, float *x) {
  if (n < 8) {
    GA_UNROLL for (int e = 0; e < 8; e++) x[e] = e < n ? plain_get(dtype, base, at + e) : 0;
  } else if (dtype == T_F32) {
    elem_get16_f32(x, base, at);
    elem_get16_f32(x + 4, base, at + 4);
  } else if (dtype == T_F16) {
    elem_get16_f16(x, base, at);
  } else {
    elem_get16_bf16(x, base, at);
  }
}
GA_DEV void gemm_put_8(int dtype, void *base, int64_t at, int n, const float *x) {
  if (n < 8) {
    GA_UNROLL for (int e = 0; e < 8; e++) if (e < n) plain_put(dtype, base, at + e, x[e]);
  } else if (dtype == T_F32) {
    elem_put16_f32(base, at, x);
    elem_put16_f32(base, at + 4, x + 4);
  } else if (dtype == T_F16) {
    elem_put16_f16(base, at, x);
  } else {
    elem_put16_bf16(base, at, x);
  }
}

GA_DEV bool gemm_is_plain(const ga_kargs_gemm *a) { return !a->bias && !a->gate && !a->residual && !a->act; }

/* Applies the epilogue to the sums x of columns col to col + 7 of row `row`, and writes the columns that are inside Y.
 * plain is the value of gemm_is_plain, passed as a constant where this saves code. */
GA_DEV void gemm_finish_8(const ga_kargs_gemm *a, bool plain, int64_t row, int64_t col, float *x) {
  const int64_t at = row * a->y_stride + col;
  const int n = a->n - col < 8 ? (int)(a->n - col) : 8;
  float t[8];
  if (row >= a->m || n <= 0) return;
  GA_UNROLL for (int e = 0; e < 8; e++) x[e] *= a->scale;
  if (!plain) {
    if (a->bias) GA_UNROLL
      for (int e = 0; e < 8; e++)
        if (e < n) x[e] += a->bias[col + e];
    /* one copy of the activations' code serves gate and act */
    if (a->gate || a->act) {
      if (a->gate)
        gemm_get_8(a->y_dtype, a->gate, at, n, t);
      else GA_UNROLL
        for (int e = 0; e < 8; e++) t[e] = x[e];
      GA_UNROLL for (int e = 0; e < 8; e++) {
        const float u = act_of(a->act, t[e]);
        x[e] = a->gate ? x[e] * u : u;
      }
    }
    if (a->residual) {
      gemm_get_8(a->y_dtype, a->residual, at, n, t);
      GA_UNROLL for (int e = 0; e < 8; e++) x[e] += t[e];
    }
  }
  gemm_put_8(a->y_dtype, a->y, at, n, x);
}
