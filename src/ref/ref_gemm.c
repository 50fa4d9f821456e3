#include <math.h>

#include "core/gemm_at.h"
#include "ref/ref.h"

static double activate(int32_t act, double x) {
  switch (act) {
  case GA_ACT_SILU: return x / (1 + exp(-x));
  case GA_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(0.79788456080286535588 /* sqrt(2/pi) */ * (x + 0.044715 * x * x * x)));
  case GA_ACT_GELU_ERF: return 0.5 * x * (1 + erf(x * 0.70710678118654752440 /* sqrt(1/2) */));
  default: return x;
  }
}

/* One of the matrices by which X is multiplied, and where its products go. */
typedef struct part {
  const void *w;
  void *y;
  const float *bias;
  int64_t n, stride;
} part;

static part part_of(const ga_gemm_desc *d, const ga_gemm_io *a, int i) {
  if (i == 0) return (part){a->w, a->y, a->bias, d->n, d->y_stride};
  return (part){a->w_more[i - 1], a->y_more[i - 1], a->bias_more[i - 1], d->n_more[i - 1], d->y_more_stride[i - 1]};
}

static double norm_factor(const ga_gemm_desc *d, const ga_gemm_io *a, int64_t row) {
  double sum = 0;
  for (int64_t i = 0; i < d->k; i++) {
    const double x = ga_ref_load((ga_dtype)d->x_dtype, a->x, row * d->x_stride + i);
    sum += x * x;
  }
  return 1 / sqrt(sum / (double)d->k + (double)d->norm_eps);
}

/* scale * (X W^T), X normed or not, either stored across or not, each with its scales. */
static double product(const ga_gemm_desc *d, const ga_gemm_io *a, const void *w, int64_t row, int64_t col, double factor) {
  double dot = 0;
  for (int64_t i = 0; i < d->k; i++) {
    double x = ga_ref_load((ga_dtype)d->x_dtype, a->x, ga_gemm_x_at(d, row, i)) * (double)ga_gemm_x_scale(d, a, row, i);
    if (d->flags & GA_GEMM_NORM) x = x * factor * (double)a->norm[i];
    dot += x * ga_ref_load((ga_dtype)d->w_dtype, w, ga_gemm_w_at(d, col, i)) * (double)ga_gemm_w_scale(d, a, col, i);
  }
  return (double)d->scale * dot;
}

/* t = scale * dot + bias; t = act(t), or act(gate) * t; t + residual. */
static double element(const ga_gemm_desc *d, const ga_gemm_io *a, const part *p, int64_t row, int64_t col, double factor) {
  const ga_dtype y = (ga_dtype)d->y_dtype;
  const int64_t at = row * p->stride + col;
  double t = product(d, a, p->w, row, col, factor);
  if (d->flags & GA_GEMM_BIAS) t += (double)p->bias[col];
  if (d->flags & GA_GEMM_GATED) return activate(d->act, product(d, a, a->w_more[0], row, col, factor)) * t;
  t = d->flags & GA_GEMM_GLU ? activate(d->act, ga_ref_load(y, a->gate, at)) * t : activate(d->act, t);
  return d->flags & GA_GEMM_RESIDUAL ? t + ga_ref_load(y, a->residual, at) : t;
}

ga_status ga_ref_gemm(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  for (int64_t r = 0; r < d->m; r++) {
    const double factor = d->flags & GA_GEMM_NORM ? norm_factor(d, a, r) : 1;
    for (int i = 0; i <= GA_GEMM_MORE; i++) {
      const part p = part_of(d, a, i);
      for (int64_t c = 0; c < p.n; c++)
        ga_ref_store((ga_dtype)d->y_dtype, p.y, r * p.stride + c, element(d, a, &p, r, c, factor));
    }
  }
  return GA_OK;
}
