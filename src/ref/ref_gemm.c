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

/* t = scale * dot + bias; t = act(t), or act(gate) * t; t + residual. */
static double epilogue(const ga_gemm_desc *d, const ga_gemm_io *a, double dot, int64_t row, int64_t col) {
  ga_dtype y = (ga_dtype)d->y_dtype;
  int64_t at = row * d->y_stride + col;
  double t = (double)d->scale * dot;
  if (d->flags & GA_GEMM_BIAS) t += (double)a->bias[col];
  t = d->flags & GA_GEMM_GLU ? activate(d->act, ga_ref_load(y, a->gate, at)) * t : activate(d->act, t);
  if (d->flags & GA_GEMM_RESIDUAL) t += ga_ref_load(y, a->residual, at);
  return t;
}

ga_status ga_ref_gemm(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  for (int64_t r = 0; r < d->m; r++)
    for (int64_t c = 0; c < d->n; c++) {
      double dot = 0;
      for (int64_t i = 0; i < d->k; i++)
        dot += ga_ref_load((ga_dtype)d->x_dtype, a->x, ga_gemm_x_at(d, r, i)) * (double)ga_gemm_x_scale(d, a, r, i) *
               ga_ref_load((ga_dtype)d->w_dtype, a->w, ga_gemm_w_at(d, c, i)) * (double)ga_gemm_w_scale(d, a, c, i);
      ga_ref_store((ga_dtype)d->y_dtype, a->y, r * d->y_stride + c, epilogue(d, a, dot, r, c));
    }
  return GA_OK;
}
