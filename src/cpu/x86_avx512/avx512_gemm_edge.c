/* What comes before and after the products: rounding activations to 15 bits, and the epilogue. */
#include "cpu/x86_avx512/x16_avx512.h"
#include "cpu/x86_avx512/x16_load.h"

#include "cpu/body/x16_epilogue_tmpl.h"

/* Stores the two digits of q and returns the sum of 128 * high + low. Within +-16256, but for a block with an infinity
 * or NaN: the conversion makes that the smallest integer, which is kept within two digits. */
GA_INLINE int32_t split_15bit(__m512i q, int8_t *high, int8_t *low) {
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
    const int32_t s0 = split_15bit(q0, out->high, out->low), s1 = split_15bit(q1, out->high + 16, out->low + 16);
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

void ga_x16_epilogue_avx512(const ga_gemm_desc *d, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                            int64_t n, const float *t, int64_t t_step) {
  x16_epilogue(d, io, row, rows, col, n, t, t_step);
}
