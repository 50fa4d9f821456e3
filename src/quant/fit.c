#include "quant/fit.h"

#include <math.h>
#include <string.h>

static quant_fit_fn fit_of(ga_dtype dtype) {
  quant_fit_fn fn = quant_fit_one(dtype);
  if (!fn) fn = quant_fit_k(dtype);
  return fn ? fn : quant_fit_table(dtype);
}

bool quant_fits(ga_dtype dtype) { return fit_of(dtype) != NULL; }

/* Codes of 0 are not bytes of 0 in every type: a fit of zeros writes them. */
void quant_fit_block(ga_dtype dtype, const float *x, const float *w, uint8_t *block) {
  static const float zeros[256];
  const int n = ga_dtype_info(dtype)->block_elems;
  float most = 0;
  for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
  fit_of(dtype)(most < QUANT_LEAST_VALUE ? zeros : x, w, block);
}
