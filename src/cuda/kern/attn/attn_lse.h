/* The log-sum-exp of a row, and the mask of its elements of O, for every attention kernel that sums exponentials of
 * base 2. */
#pragma once
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* Splits ln x into ln of a mantissa, which is returned, and a number of doublings: ln x = result + *doublings * ln 2.
 *
 * The result is within [-1/2, 1/2]. It is computed as 2 artanh((f - 1) / (f + 1)), with an error of 2^-23. lg2.approx
 * alone could have an error of 2^-22 times the logarithm. */
GA_DEV float ln_parts(float x, float *doublings) {
  const float e = rintf(lg2(x));
  *doublings = 0.f;
  if (!(fabsf(e) < 126.f)) return e; /* x is 0, inf or NaN */
  const float f = x * ex2(-e), z = (f - 1.f) * rcp(f + 1.f), w = z * z;
  *doublings = e;
  return z * fmaf(w, fmaf(w, fmaf(w, fmaf(w, 2.f / 9.f, 2.f / 7.f), 2.f / 5.f), 2.f / 3.f), 2.f);
}
/* Returns the log-sum-exp of a row, ref + log2 l, converted from log2 units to natural units. The factor, near ln 2, is
 * ln_hi + ln_lo.
 *
 * The factor multiplies ref, which is near the largest logit, because its rounding matters only there. If the reference
 * was raised, l is far below 1, and its number of doublings (ln_parts) is negative. That number is first added to ref:
 * adding it separately would lose 2^-18 at 40 doublings. */
GA_DEV float log_sum(const ga_kargs_attn_fwd *a, float ref, float l) {
  float e;
  const float rest = ln_parts(l, &e), raised = fminf(e, 0.f), most = ref + raised;
  return fmaf(most, a->ln_hi, fmaf(most, a->ln_lo, fmaf(e - raised, 0.693147181f, rest)));
}
/* Returns the mask of a row's packed elements of O: 0 if all weights of the row were 0, otherwise all ones. v is the
 * row's factor, 0 if all weights were 0. */
GA_DEV uint32_t keep_bits(float v) { return v == 0.f ? 0u : ~0u; }
/* Sets ref to the numbers that are subtracted from the logits of rows g and g+8 before 2^x. m has the rows' maxima, in
 * log2 units. A row that has seen no key gets 0, so that 2^(-inf - 0) = 0. */
GA_DEV void reference(const float *m, float *ref) {
  ref[0] = m[0] == GA_NEG_INF ? 0.f : m[0];
  ref[1] = m[1] == GA_NEG_INF ? 0.f : m[1];
}
