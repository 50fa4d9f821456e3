/* What comes before and after the products: rounding activations to 15 bits, and the epilogue. */
#include "cpu/x86_avx512/x16_avx512.h"
#include "cpu/x86_avx512/x16_load.h"

/* Stores the two digits of q and returns the sum of 128 * high + low. Within +-16256, but for a block with an infinity
 * or NaN: the conversion makes that the smallest integer, which is kept within two digits. */
GA_INLINE int32_t digits(__m512i q, int8_t *high, int8_t *low) {
  q = _mm512_max_epi32(_mm512_set1_epi32(-16256), q);
  const __m512i h = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(64)), 7),
                l = _mm512_sub_epi32(q, _mm512_slli_epi32(h, 7));
  _mm_storeu_si128((__m128i *)(void *)high, _mm512_cvtsepi32_epi8(h));
  _mm_storeu_si128((__m128i *)(void *)low, _mm512_cvtsepi32_epi8(l));
  return _mm512_reduce_add_epi32(q);
}

void ga_x16_quantise_avx512(const ga_x16_format *format, const float *x, int64_t n_blocks, ga_x16_act *out,
                            int64_t step) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (int64_t b = 0; b < n_blocks; b++, x += 32, out += step) {
    const __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16);
    /* As integers, magnitudes compare as floats do and NaN is above everything. */
    const __m512i a0 = _mm512_and_si512(_mm512_castps_si512(x0), magnitude),
                  a1 = _mm512_and_si512(_mm512_castps_si512(x1), magnitude);
    const uint32_t bits = _mm512_reduce_max_epu32(_mm512_max_epu32(a0, a1));
    const float most = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)bits)));
    const bool tiny = bits < 0x0d800000u; /* 2^-100 */
    const __m512 inverse = _mm512_set1_ps(tiny ? 0.0f : GA_X16_STEPS / most);
    const __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse)),
                  q1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse));
    const int32_t s0 = digits(q0, out->high, out->low), s1 = digits(q1, out->high + 16, out->low + 16);
    out->d = tiny ? 0.0f : most / GA_X16_STEPS;
    const int32_t first = format->runs == 2 ? s0 : s0 + s1;
    if (format->has_min) {
      out->sum[0].f = out->d * (float)first;
      out->sum[1].f = out->d * (float)s1;
    } else {
      out->sum[0].i = -format->offset * first;
      out->sum[1].i = -format->offset * s1;
    }
  }
}

/* e^x, relative error below 2e-7; 0 and infinity beyond f32. NaN stays NaN.
 * x = n ln 2 + r, |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 6 (next term below 1.3e-7 relative). */
GA_INLINE __m512 exp_ps(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-105.0f), _mm512_min_ps(_mm512_set1_ps(90.0f), x)); /* in this order NaN passes */
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), x); /* ln 2 in two parts, the first of 16 bits */
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
  __m512 p = _mm512_set1_ps(1.0f / 720);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

/* x / (1 + e^-y) */
GA_INLINE __m512 times_sigmoid(__m512 x, __m512 y) {
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), exp_ps(x16_negate(y))));
}

/* 0.5 (1 + tanh u) = 1 / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
GA_INLINE __m512 gelu_tanh(__m512 x) {
  const __m512 cubic =
      _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(1.5957691216f * 0.044715f), _mm512_set1_ps(1.5957691216f));
  return times_sigmoid(x, _mm512_mul_ps(x, cubic));
}

/* x / 2 erfc(-x / sqrt 2), erfc by Abramowitz and Stegun 7.1.26: error of erf at most 1.5e-7, of gelu 1e-7 |x|. */
GA_INLINE __m512 gelu_erf(__m512 x) {
  const __m512 z = _mm512_abs_ps(_mm512_mul_ps(x, _mm512_set1_ps(0.707106781f)));
  const __m512 t =
      _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_fmadd_ps(z, _mm512_set1_ps(0.3275911f), _mm512_set1_ps(1.0f)));
  __m512 p = _mm512_set1_ps(1.061405429f);
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(-1.453152027f));
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(1.421413741f));
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(-0.284496736f));
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.254829592f));
  const __m512 tail = _mm512_mul_ps(_mm512_mul_ps(p, t), exp_ps(x16_negate(_mm512_mul_ps(z, z)))); /* erfc(z) */
  const __m512 half = _mm512_mul_ps(x, _mm512_set1_ps(0.5f)), small = _mm512_mul_ps(half, tail);
  return _mm512_mask_sub_ps(small, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), x, small);
}

GA_INLINE __m512 activate(int32_t act, __m512 x) {
  switch (act) {
  case GA_ACT_SILU: return times_sigmoid(x, x);
  case GA_ACT_GELU_TANH: return gelu_tanh(x);
  case GA_ACT_GELU_ERF: return gelu_erf(x);
  default: return x;
  }
}

void ga_x16_epilogue_avx512(const ga_gemm_desc *d, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                            int64_t n, const float *t, int64_t t_step) {
  const __mmask16 mask = (__mmask16)((1u << n) - 1);
  const __m512 scale = _mm512_set1_ps(d->scale);
  const __m512 bias =
      d->flags & GA_GEMM_BIAS ? _mm512_maskz_loadu_ps(mask, io->bias + col) : _mm512_set1_ps(-0.0f); /* x + -0 = x */
  const float *gate = io->gate, *residual = io->residual;
  int64_t at = row * d->y_stride + col;
  for (int64_t r = 0; r < rows; r++, at += d->y_stride) {
    __m512 v = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(t + r * t_step), scale), bias);
    if (d->flags & GA_GEMM_GLU)
      v = _mm512_mul_ps(v, activate(d->act, _mm512_maskz_loadu_ps(mask, gate + at)));
    else if (d->act)
      v = activate(d->act, v);
    if (d->flags & GA_GEMM_RESIDUAL) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, residual + at));
    _mm512_mask_storeu_ps((float *)io->y + at, mask, v);
  }
}
