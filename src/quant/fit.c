#include "quant/fit.h"

#include <math.h>
#include <string.h>

typedef void (*fit_fn)(const float *x, const float *w, uint8_t *b);

static fit_fn fit_of(ga_dtype dtype) {
  switch (dtype) {
  case GA_Q4_0: return quant_fit_q4_0;
  case GA_Q4_1: return quant_fit_q4_1;
  case GA_Q5_0: return quant_fit_q5_0;
  case GA_Q5_1: return quant_fit_q5_1;
  case GA_Q8_0: return quant_fit_q8_0;
  case GA_Q2_K: return quant_fit_q2_k;
  case GA_Q3_K: return quant_fit_q3_k;
  case GA_Q4_K: return quant_fit_q4_k;
  case GA_Q5_K: return quant_fit_q5_k;
  case GA_Q6_K: return quant_fit_q6_k;
  case GA_IQ4_NL: return quant_fit_iq4_nl;
  case GA_IQ4_XS: return quant_fit_iq4_xs;
  case GA_MXFP4: return quant_fit_mxfp4;
  default: return NULL;
  }
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
