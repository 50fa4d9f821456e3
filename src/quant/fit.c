#include "quant/fit.h"

#include <math.h>

#include "base/quant.h"
#include "quant/fit_run.h"

static quant_fit_fn fit_of(ga_dtype dtype) {
  const quant_fit_fn fn = quant_fit_k(dtype);
  return fn ? fn : quant_fit_table(dtype);
}

bool quant_fits(ga_dtype dtype) { return quant_fit_one(dtype) || fit_of(dtype); }

/* Codes of 0 are not bytes of 0 in every type: a fit of zeros writes them. */
static void fit_one_block(quant_fit_fn fit, const float *x, const float *w, int n, uint8_t *block) {
  static const float zeros[GA_QUANT_MAX_BLOCK];
  float most = 0;
  for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
  fit(most < QUANT_LEAST_VALUE ? zeros : x, w, block);
}

void quant_fit_blocks(ga_dtype dtype, const float *x, const float *w, int64_t n, uint8_t *block) {
  const ga_dtype_traits *t = ga_dtype_info(dtype);
  const int elems = t->block_elems;
  const quant_fit_eight_fn eight = quant_fit_one(dtype);
  float even[GA_QUANT_MAX_BLOCK];
  for (int i = 0; i < GA_QUANT_MAX_BLOCK; i++) even[i] = 1;
  for (int64_t i = 0; eight && i < n; i += FIT_LANES)
    eight(x + i * elems, w ? w + i * elems : NULL, (int)(n - i < FIT_LANES ? n - i : FIT_LANES),
          block + i * t->block_bytes);
  for (int64_t i = 0; !eight && i < n; i++)
    fit_one_block(fit_of(dtype), x + i * elems, w ? w + i * elems : even, elems, block + i * t->block_bytes);
}
