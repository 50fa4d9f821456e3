/* Elementary functions on vectors of floats. Include one simd_<isa>.h first. Polynomials are minimax fits (Remez) for
 * the intervals in which they are used. Error bounds hold for the whole function in f32; tests/test_layer.c measures
 * the errors. */
#ifndef GA_CPU_SIMD_SIMD_MATH_H
#define GA_CPU_SIMD_SIMD_MATH_H

/* Returns e^x with an error of at most 1.5 ulp for results of 2^-126 and more. Smaller results may be 0. The result is
 * infinite for x above 88.72; NaN is kept.
 *
 * The algorithm is x = n ln 2 + r with |r| <= ln 2 / 2. ln 2 is the sum of two constants; the first has so few bits
 * that its product with n is exact. */
GA_INLINE vf vf_exp(vf x) {
  x = vf_max(vf_set(-104.0f), vf_min(vf_set(89.0f), x));
  vf n = vf_round(vf_mul(x, vf_set(1.44269504f /* log2(e) */)));
  vf r = vf_fnma(n, vf_set(0x1.62e4p-1f), x);
  r = vf_fnma(n, vf_set(1.42860677e-6f /* ln 2 - 0x1.62e4p-1 */), r);
  vf p = vf_set(0.00138146133f);
  p = vf_fma(p, r, vf_set(0.00836870982f));
  p = vf_fma(p, r, vf_set(0.0416683874f));
  p = vf_fma(p, r, vf_set(0.166665207f));
  p = vf_fma(p, r, vf_set(0.499999935f));
  p = vf_add(vf_fma(p, vf_mul(r, r), r), vf_set(1.0f));
  return vf_scale(p, n);
}

/* Returns tanh x with an error of at most 2 ulp: an odd polynomial near 0, else 1 - 2 / (e^2|x| + 1). */
GA_INLINE vf vf_tanh(vf x) {
  vf a = vf_abs(x), s = vf_mul(x, x);
  vf far = vf_sub(vf_set(1.0f), vf_div(vf_set(2.0f), vf_add(vf_exp(vf_add(a, a)), vf_set(1.0f))));
  vf p = vf_set(-0.00571704506f);
  p = vf_fma(p, s, vf_set(0.0206505873f));
  p = vf_fma(p, s, vf_set(-0.0537434981f));
  p = vf_fma(p, s, vf_set(0.133314913f));
  p = vf_fma(p, s, vf_set(-0.333332839f));
  vf near = vf_fma(vf_mul(p, s), x, x);
  return vf_pick(vf_lt(a, vf_set(0.625f)), near, vf_sign_of(far, x));
}

/* Returns erfc x with an error of at most 6 ulp for |x| <= 9, or 6 + x^2 ulp without fma. For larger |x| it returns 0
 * or 2.
 *
 * For y = |x|, erfc y is e^(-y^2) t P(t) with t = 1 / (1 + 0.35 y) and a polynomial P. The rounding error of y^2 is
 * corrected to first order. */
GA_INLINE vf vf_erfc(vf x) {
  vf y = vf_min(vf_set(11.0f), vf_abs(x)), t = vf_div(vf_set(1.0f), vf_fma(vf_set(0.35f), y, vf_set(1.0f)));
  vf p = vf_set(0.0384010483f);
  p = vf_fma(p, t, vf_set(-0.158928249f));
  p = vf_fma(p, t, vf_set(0.18146111f));
  p = vf_fma(p, t, vf_set(-0.0277054542f));
  p = vf_fma(p, t, vf_set(0.0870185548f));
  p = vf_fma(p, t, vf_set(0.146042318f));
  p = vf_fma(p, t, vf_set(0.151186133f));
  p = vf_fma(p, t, vf_set(0.187902416f));
  p = vf_fma(p, t, vf_set(0.197138352f));
  p = vf_fma(p, t, vf_set(0.197483779f));
  vf yy = vf_mul(y, y), low = vf_fnma(y, y, yy); /* low = yy - y^2 */
  vf e = vf_exp(vf_sub(vf_set(0.0f), yy));
  vf r = vf_mul(vf_mul(t, p), vf_fma(e, low, e));
  return vf_pick(vf_lt(x, vf_set(0.0f)), vf_sub(vf_set(2.0f), r), r);
}

/* Computes sine and cosine of r, |r| <= pi / 4, with an error of at most 1.5 ulp. For other quadrants the caller swaps
 * them and changes signs (rope_tmpl.h). */
GA_INLINE void vf_sincos_quarter(vf r, vf *sine, vf *cosine) {
  vf s = vf_mul(r, r);
  vf p = vf_fma(vf_set(-0.00019517299f), s, vf_set(0.00833217815f));
  p = vf_fma(p, s, vf_set(-0.166666549f));
  *sine = vf_fma(vf_mul(p, s), r, r);
  vf q = vf_fma(vf_set(2.44384516e-05f), s, vf_set(-0.00138873675f));
  q = vf_fma(q, s, vf_set(0.0416666469f));
  *cosine = vf_fma(q, vf_mul(s, s), vf_fma(vf_set(-0.5f), s, vf_set(1.0f)));
}

#endif
