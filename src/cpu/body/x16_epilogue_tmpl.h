/* The epilogue of matrix products with packed weights, with vectors of VN floats. Include an x16_load_<isa>.h first. */
#ifndef GA_CPU_BODY_BODY_X16_EPILOGUE_H
#define GA_CPU_BODY_BODY_X16_EPILOGUE_H

/* Returns e^x with a relative error below 2e-7, or 3e-7 where vf_scale multiplies twice. Results out of the range of
 * f32 are 0 or infinity; NaN stays NaN.
 *
 * The algorithm is x = n ln 2 + r with |r| <= ln 2 / 2. e^r is computed by its Taylor polynomial of degree 6, whose
 * next term is below 1.3e-7 relative. */
GA_INLINE vf x16_exp(vf x) {
  x = vf_max(vf_set(-105.0f), vf_min(vf_set(90.0f), x)); /* the order of operands keeps a NaN */
  const vf n = vf_round(vf_mul(x, vf_set(1.44269504f)));
  vf r = vf_fnma(n, vf_set(0.693145752f), x); /* ln 2 in two parts, the first of 16 bits */
  r = vf_fnma(n, vf_set(1.42860677e-6f), r);
  vf p = vf_set(1.0f / 720);
  p = vf_fma(p, r, vf_set(1.0f / 120));
  p = vf_fma(p, r, vf_set(1.0f / 24));
  p = vf_fma(p, r, vf_set(1.0f / 6));
  p = vf_fma(p, r, vf_set(0.5f));
  p = vf_fma(p, r, vf_set(1.0f));
  p = vf_fma(p, r, vf_set(1.0f));
  return vf_scale(p, n);
}

/* Returns x / (1 + e^-y). */
GA_INLINE vf times_sigmoid(vf x, vf y) { return vf_div(x, vf_add(vf_set(1.0f), x16_exp(x16_negate(y)))); }

/* Returns gelu(x) in its tanh form: x / 2 (1 + tanh u) = x / (1 + e^-2u). u = sqrt(2/pi) (x + 0.044715 x^3). */
GA_INLINE vf gelu_tanh(vf x) {
  const vf cubic = vf_fma(vf_mul(x, x), vf_set(1.5957691216f * 0.044715f), vf_set(1.5957691216f));
  return times_sigmoid(x, vf_mul(x, cubic));
}

/* Returns gelu(x) = x / 2 erfc(-x / sqrt 2). erfc is computed by formula 7.1.26 of Abramowitz and Stegun. The error of
 * erfc is at most 1.5e-7, and the error of gelu 1e-7 |x|. */
GA_INLINE vf gelu_erf(vf x) {
  const vf z = vf_abs(vf_mul(x, vf_set(0.707106781f)));
  const vf t = vf_div(vf_set(1.0f), vf_fma(z, vf_set(0.3275911f), vf_set(1.0f)));
  vf p = vf_set(1.061405429f);
  p = vf_fma(p, t, vf_set(-1.453152027f));
  p = vf_fma(p, t, vf_set(1.421413741f));
  p = vf_fma(p, t, vf_set(-0.284496736f));
  p = vf_fma(p, t, vf_set(0.254829592f));
  const vf tail = vf_mul(vf_mul(p, t), x16_exp(x16_negate(vf_mul(z, z)))); /* erfc(z) */
  const vf half = vf_mul(x, vf_set(0.5f)), small = vf_mul(half, tail);
  return vf_pick(vf_lt(vf_set(0.0f), x), vf_sub(x, small), small);
}

GA_INLINE vf activate(int32_t act, vf x) {
  switch (act) {
  case GA_ACT_SILU: return times_sigmoid(x, x);
  case GA_ACT_GELU_TANH: return gelu_tanh(x);
  case GA_ACT_GELU_ERF: return gelu_erf(x);
  default: return x;
  }
}

/* Applies the epilogue of gemm with vectors and writes the results to Y, as a ga_x16_epilogue does (cpu_gemm_x16.h). */
GA_INLINE void x16_epilogue(const ga_gemm_desc *d, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                            int64_t n, const float *t, int64_t t_step) {
  const vf scale = vf_set(d->scale);
  const float *gate = io->gate, *residual = io->residual;
  /* one iteration where a vector holds all n columns: the compiler does not know that n <= 16 */
  for (int64_t part = 0; part < (VN < GA_X16_ROWS ? n : 1); part += VN, col += VN, t += VN) {
    const int left = (int)(n - part);
    const vf bias = d->flags & GA_GEMM_BIAS ? vf_load_n(io->bias + col, left) : vf_set(-0.0f); /* x + -0 = x */
    int64_t at = row * d->y_stride + col;
    for (int64_t r = 0; r < rows; r++, at += d->y_stride) {
      vf v = vf_add(vf_mul(vf_load(t + r * t_step), scale), bias);
      if (d->flags & GA_GEMM_GLU)
        v = vf_mul(v, activate(d->act, vf_load_n(gate + at, left)));
      else if (d->act)
        v = activate(d->act, v);
      if (d->flags & GA_GEMM_RESIDUAL) v = vf_add(v, vf_load_n(residual + at, left));
      vf_store_n((float *)io->y + at, v, left);
    }
  }
}

#endif
