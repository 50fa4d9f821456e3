/* Activations and gated units. Written so that nothing cancels: 1 + tanh(u) = 2 / (1 + e^-2u), 1 + erf(z) = erfc(-z).
 * */
#include <math.h>

#include "ref/ref.h"

static double act_of(ga_act_kind act, double x) {
  switch (act) {
  case GA_ACT_SILU: return x / (1 + exp(-x));
  case GA_ACT_GELU_TANH: {
    double u = 0.79788456080286535588 /* sqrt(2 / pi) */ * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u));
  }
  case GA_ACT_GELU_ERF: return 0.5 * x * erfc(-x * 0.70710678118654752440 /* 1 / sqrt(2) */);
  case GA_ACT_RELU2: return x > 0 ? x * x : isnan(x) ? x : 0;
  case GA_ACT_TANH: return tanh(x);
  default: return x;
  }
}

ga_status ga_ref_act(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_act_desc *d = desc;
  const ga_act_io *a = io;
  ga_dtype t = (ga_dtype)d->dtype;
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t c = 0; c < d->width; c++) {
      double y = act_of((ga_act_kind)d->act, ga_ref_load(t, a->x, r * d->x_stride + c));
      if (a->g) y *= ga_ref_load(t, a->g, r * d->g_stride + c);
      ga_ref_store(t, a->y, r * d->y_stride + c, y);
    }
  return GA_OK;
}
