/* What comes before and after the products: rounding activations to 15 bits, and the epilogue. The formulas and their
 * errors are those of avx512_gemm_edge.c. */
#include "cpu/x86_avx2/x16_avx2.h"
#include "cpu/x86_avx2/x16_load_avx2.h"

GA_INLINE uint32_t largest(__m256i a) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1)));
}

GA_INLINE uint32_t total(__m256i a) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* 32 dwords saturated to bytes. The packs work in halves of 16 bytes: dwords 0 4 1 5 ... are put in order afterwards.
 * */
GA_INLINE void store_bytes(const __m256i *x, int8_t *to) {
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(x[0], x[1]), _mm256_packs_epi32(x[2], x[3]));
  _mm256_storeu_si256((__m256i *)(void *)to,
                      _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

void ga_x16_quantise_avx2(const ga_x16_format *format, const float *x, int64_t n_blocks, ga_x16_act *out,
                          int64_t step) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  for (int64_t b = 0; b < n_blocks; b++, x += 32, out += step) {
    __m256 v[4];
    __m256i high[4], low[4], q[4], most_bits = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
      v[i] = _mm256_loadu_ps(x + 8 * i);
      most_bits = _mm256_max_epu32(most_bits, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
    }
    const uint32_t bits = largest(most_bits); /* as integers NaN is above everything */
    const float most = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)bits)));
    const bool tiny = bits < 0x0d800000u; /* 2^-100 */
    const __m256 inverse = _mm256_set1_ps(tiny ? 0.0f : GA_X16_STEPS / most);
    for (int i = 0; i < 4;
         i++) { /* the conversion makes an infinity or NaN the smallest integer: kept within two digits */
      q[i] = _mm256_max_epi32(_mm256_set1_epi32(-16256), _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse)));
      high[i] = _mm256_srai_epi32(_mm256_add_epi32(q[i], _mm256_set1_epi32(64)), 7);
      low[i] = _mm256_sub_epi32(q[i], _mm256_slli_epi32(high[i], 7));
    }
    const uint32_t s0 = total(_mm256_add_epi32(q[0], q[1])), s1 = total(_mm256_add_epi32(q[2], q[3]));
    store_bytes(high, out->high);
    store_bytes(low, out->low);
    out->d = tiny ? 0.0f : most / GA_X16_STEPS;
    const uint32_t first = format->runs == 2 ? s0 : s0 + s1; /* of a block with a NaN it may wrap */
    if (format->has_min) {
      out->sum[0].f = out->d * (float)(int32_t)first;
      out->sum[1].f = out->d * (float)(int32_t)s1;
    } else {
      out->sum[0].i = (int32_t)(-(uint32_t)format->offset * first);
      out->sum[1].i = (int32_t)(-(uint32_t)format->offset * s1);
    }
  }
}

/* e^x, relative error below 3e-7; 0 and infinity beyond f32. NaN stays NaN. */
GA_INLINE __m256 exp_ps(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(-105.0f), _mm256_min_ps(_mm256_set1_ps(90.0f), x)); /* in this order NaN passes */
  const __m256 n =
      _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145752f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
  __m256 p = _mm256_set1_ps(1.0f / 720);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  /* 2^n in two factors, so that each is a normal number. */
  const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}

GA_INLINE __m256 times_sigmoid(__m256 x, __m256 y) {
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), exp_ps(y8_negate(y))));
}

GA_INLINE __m256 gelu_tanh(__m256 x) {
  const __m256 cubic =
      _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(1.5957691216f * 0.044715f), _mm256_set1_ps(1.5957691216f));
  return times_sigmoid(x, _mm256_mul_ps(x, cubic));
}

GA_INLINE __m256 gelu_erf(__m256 x) {
  const __m256 z = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_mul_ps(x, _mm256_set1_ps(0.707106781f)));
  const __m256 t =
      _mm256_div_ps(_mm256_set1_ps(1.0f), _mm256_fmadd_ps(z, _mm256_set1_ps(0.3275911f), _mm256_set1_ps(1.0f)));
  __m256 p = _mm256_set1_ps(1.061405429f);
  p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(-1.453152027f));
  p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(1.421413741f));
  p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(-0.284496736f));
  p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(0.254829592f));
  const __m256 tail = _mm256_mul_ps(_mm256_mul_ps(p, t), exp_ps(y8_negate(_mm256_mul_ps(z, z)))); /* erfc(z) */
  const __m256 half = _mm256_mul_ps(x, _mm256_set1_ps(0.5f)), small = _mm256_mul_ps(half, tail);
  return _mm256_blendv_ps(small, _mm256_sub_ps(x, small), _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
}

GA_INLINE __m256 activate(int32_t act, __m256 x) {
  switch (act) {
  case GA_ACT_SILU: return times_sigmoid(x, x);
  case GA_ACT_GELU_TANH: return gelu_tanh(x);
  case GA_ACT_GELU_ERF: return gelu_erf(x);
  default: return x;
  }
}

void ga_x16_epilogue_avx2(const ga_gemm_desc *d, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                          int64_t n, const float *t, int64_t t_step) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const float *gate = io->gate, *residual = io->residual;
  for (int64_t part = 0; part < n; part += 8, col += 8, t += 8) {
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n - part)), lane);
    for (int64_t r = 0; r < rows; r++) {
      const int64_t at = (row + r) * d->y_stride + col;
      __m256 v = _mm256_mul_ps(_mm256_loadu_ps(t + r * t_step), _mm256_set1_ps(d->scale));
      if (d->flags & GA_GEMM_BIAS) v = _mm256_add_ps(v, _mm256_maskload_ps(io->bias + col, mask));
      if (d->flags & GA_GEMM_GLU)
        v = _mm256_mul_ps(v, activate(d->act, _mm256_maskload_ps(gate + at, mask)));
      else if (d->act)
        v = activate(d->act, v);
      if (d->flags & GA_GEMM_RESIDUAL) v = _mm256_add_ps(v, _mm256_maskload_ps(residual + at, mask));
      _mm256_maskstore_ps((float *)io->y + at, mask, v);
    }
  }
}
