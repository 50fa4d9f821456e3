/* Vectors of VN floats for AVX2 with FMA and F16C. simd_generic.h says what each function computes. */
#ifndef GA_CPU_SIMD_SIMD_AVX2_H
#define GA_CPU_SIMD_SIMD_AVX2_H

#include <immintrin.h>
#include <math.h>

#include "base/half.h"

#define VN 8
typedef __m256 vf;
typedef __m256 vm;

/* Returns a mask with all bits set in the first n lanes and zeros in the others. */
GA_INLINE __m256i lanes_of(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

GA_INLINE vf vf_set(float x) { return _mm256_set1_ps(x); }
GA_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
GA_INLINE void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
GA_INLINE vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, lanes_of(n)); }
GA_INLINE void vf_store_n(float *p, vf v, int n) { _mm256_maskstore_ps(p, lanes_of(n), v); }

GA_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
GA_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
GA_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
GA_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
GA_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
GA_INLINE float vf_fma_one(float a, float b, float c) { return fmaf(a, b, c); } /* rounded like an element of vf_fma */
GA_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
GA_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
GA_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
GA_INLINE vf vf_round(vf x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
GA_INLINE vf vf_abs(vf x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
GA_INLINE vf vf_sign_of(vf x, vf s) { return _mm256_or_ps(x, _mm256_and_ps(s, _mm256_set1_ps(-0.0f))); }

GA_INLINE __m256 pow2_of(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
/* Returns x * 2^n. Multiplies twice, so that 2^128 and subnormal results are right. */
GA_INLINE vf vf_scale(vf x, vf n) {
  __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1);
  return _mm256_mul_ps(_mm256_mul_ps(x, pow2_of(half)), pow2_of(_mm256_sub_epi32(i, half)));
}

GA_INLINE vm vf_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
GA_INLINE vf vf_pick(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
GA_INLINE unsigned vm_bits(vm m) { return (unsigned)_mm256_movemask_ps(m); }

GA_INLINE float vf_sum(vf v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
GA_INLINE float vf_hmax(vf v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
GA_INLINE vf vf_swap_pairs(vf v) { return _mm256_permute_ps(v, 0xb1); }

GA_INLINE vf vf_from_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
GA_INLINE vf vf_from_bf16(const void *p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
GA_INLINE vf vf_set_f16(const void *p) {
  uint16_t h;
  memcpy(&h, p, sizeof h);
  return _mm256_cvtph_ps(_mm_set1_epi16((short)h));
}
GA_INLINE vf vf_from_i8(const void *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* Returns VN e4m3 bytes as floats. Sign, exponent and mantissa are moved to their places in an f16, which is then 2^8
 * times too small. The code whose value would be 480 is NaN. */
GA_INLINE vf vf_from_e4m3(const void *p) {
  __m128i w = _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)p)), 7);
  vf x = vf_mul(vf_set(256), _mm256_cvtph_ps(_mm_and_si128(w, _mm_set1_epi16((short)0xbf80))));
  return vf_pick(vf_lt(vf_set(448), vf_abs(x)), vf_set(NAN), x);
}
GA_INLINE vf vf_from_nibbles(const uint8_t *p, int shift) {
  __m128i q =
      _mm_and_si128(_mm_srl_epi16(_mm_loadl_epi64((const __m128i *)p), _mm_cvtsi32_si128(shift)), _mm_set1_epi8(15));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepu8_epi32(q), _mm256_set1_epi32(8)));
}
GA_INLINE void vf_to_f16(ga_f16 *p, vf v) {
  _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

GA_INLINE vf vf_sum_each(const vf *a) {
  __m256 x = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
  __m256 y = _mm256_hadd_ps(_mm256_hadd_ps(a[4], a[5]), _mm256_hadd_ps(a[6], a[7]));
  return _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
}

GA_INLINE void vf_transpose(vf *a) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 4) {
    __m256 x = _mm256_unpacklo_ps(a[i], a[i + 1]), y = _mm256_unpackhi_ps(a[i], a[i + 1]);
    __m256 z = _mm256_unpacklo_ps(a[i + 2], a[i + 3]), w = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);
    t[i] = _mm256_shuffle_ps(x, z, 0x44);
    t[i + 1] = _mm256_shuffle_ps(x, z, 0xee);
    t[i + 2] = _mm256_shuffle_ps(y, w, 0x44);
    t[i + 3] = _mm256_shuffle_ps(y, w, 0xee);
  }
  for (int j = 0; j < 4; j++) {
    a[j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x20);
    a[4 + j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x31);
  }
}

#endif
