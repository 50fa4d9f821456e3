/* What comes before and after the products: rounding activations to 15 bits, and the epilogue. */
#include "cpu/x86_avx2/x16_avx2.h"
#include "cpu/x86_avx2/x16_load_avx2.h"

#include "cpu/body/x16_epilogue_tmpl.h"

GA_INLINE uint32_t largest_lane(__m256i a) {
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

/* 32 dwords as words, for codes of 8 bits: of each 4 elements 0 2 1 3, as even and odd bytes of 4 codes come. The packs
 * work in halves of 16 bytes. */
GA_INLINE void store_words(const __m256i *x, int8_t *to) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  for (int i = 0; i < 2; i++) {
    const __m256i words = _mm256_shuffle_epi8(_mm256_packs_epi32(x[2 * i], x[2 * i + 1]), order);
    _mm256_storeu_si256((__m256i *)(void *)(to + 32 * i), _mm256_permute4x64_epi64(words, 0xd8));
  }
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
    const uint32_t bits = largest_lane(most_bits); /* as integers NaN is above everything */
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
    if (format->offset == 128) {
      store_words(q, out->high);
    } else {
      store_bytes(high, out->high);
      store_bytes(low, out->low);
    }
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

void ga_x16_epilogue_avx2(const ga_gemm_desc *d, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                          int64_t n, const float *t, int64_t t_step) {
  x16_epilogue(d, io, row, rows, col, n, t, t_step);
}
