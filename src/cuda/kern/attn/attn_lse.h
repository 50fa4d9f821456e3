/* Final computations of a row, for every attention kernel that sums exponentials of base 2: the log-sum-exp, and the
 * mask of O's elements. */
#pragma once
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* Returns ln of the mantissa of x, and writes the number of doublings to *doublings: ln x = result + *doublings * ln 2.
 * The result is within [-1/2, 1/2] and comes from 2 artanh((f - 1) / (f + 1)), exact to 2^-23. lg2.approx alone is off
 * by 2^-22 of the logarithm of a long row, or of 1. */
GA_DEV float ln_parts(float x, float *doublings) {
  const float e = rintf(lg2(x));
  *doublings = 0.f;
  if (!(fabsf(e) < 126.f)) return e; /* x is 0, inf or NaN */
  const float f = x * ex2(-e), z = (f - 1.f) * rcp(f + 1.f), w = z * z;
  *doublings = e;
  return z * fmaf(w, fmaf(w, fmaf(w, fmaf(w, 2.f / 9.f, 2.f / 7.f), 2.f / 5.f), 2.f / 3.f), 2.f);
}
/* Returns ref + log2 l in natural units. The factor from log2 to natural units, near ln 2, has two parts, ln_hi and
 * ln_lo. Both multiply the largest logit, because only there the factor's rounding counts. The largest logit is near
 * the reference unless the reference was raised. After a raise l is far below 1, and its doublings, whole numbers, are
 * first subtracted from the reference. Adding them separately would lose 2^-18 at 40 doublings. */
GA_DEV float log_sum(const ga_kargs_attn_fwd *a, float ref, float l) {
  float e;
  const float rest = ln_parts(l, &e), raised = fminf(e, 0.f), most = ref + raised;
  return fmaf(most, a->ln_hi, fmaf(most, a->ln_lo, fmaf(e - raised, 0.693147181f, rest)));
}
/* Returns the mask of a row's packed elements of O: 0 where all weights of the row were 0, otherwise all ones. v is the
 * factor of O. */
GA_DEV uint32_t keep_bits(float v) { return v == 0.f ? 0u : ~0u; }
/* Computes the number that is subtracted from logits before 2^x, from the maximum m in log2 units. A row without keys
 * so far gets 0, so that 2^(-inf - 0) = 0. */
GA_DEV void reference(const float *m, float *ref) {
  ref[0] = m[0] == GA_NEG_INF ? 0.f : m[0];
  ref[1] = m[1] == GA_NEG_INF ? 0.f : m[1];
}
