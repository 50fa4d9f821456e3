/* What a matrix product does to a sum: see ga/gemm.h. */
#pragma once
#include "cuda/dev/tile/act.h"
#include "cuda/dev/tile/quant.h"
#include "core/kargs_gemm.h"

/* Y[row, col] from the sum of products; at: its place in y, gate and residual. */
GA_DEV float gemm_value(const ga_kargs_gemm *a, int64_t at, int64_t col, float sum) {
  float t = a->scale * sum;
  if (a->bias) t += a->bias[col];
  if (a->gate) t *= act_of(a->act, plain_get(a->y_dtype, a->gate, at));
  else t = act_of(a->act, t);
  if (a->residual) t += plain_get(a->y_dtype, a->residual, at);
  return t;
}
GA_DEV void gemm_finish(const ga_kargs_gemm *a, int64_t row, int64_t col, float sum) {
  const int64_t at = row * a->y_stride + col;
  plain_put(a->y_dtype, a->y, at, gemm_value(a, at, col, sum));
}
