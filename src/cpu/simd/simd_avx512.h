/* Vectors of VN floats for AVX-512. simd_generic.h says what each function computes. */
#ifndef GA_CPU_SIMD_SIMD_AVX512_H
#define GA_CPU_SIMD_SIMD_AVX512_H

#include <immintrin.h>
#include <math.h>

#include "base/half.h"

#define VN 16
typedef __m512 vf;
typedef __mmask16 vm;

GA_INLINE __mmask16 lanes_of(int n) { return (__mmask16)((1u << n) - 1u); }

GA_INLINE vf vf_set(float x) { return _mm512_set1_ps(x); }
GA_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
GA_INLINE void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
GA_INLINE vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(lanes_of(n), p); }
GA_INLINE void vf_store_n(float *p, vf v, int n) { _mm512_mask_storeu_ps(p, lanes_of(n), v); }

GA_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
GA_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
GA_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
GA_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
GA_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
GA_INLINE float vf_fma_one(float a, float b, float c) { return fmaf(a, b, c); } /* rounded like an element of vf_fma */
GA_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
GA_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
GA_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
GA_INLINE vf vf_round(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
GA_INLINE vf vf_scale(vf x, vf n) { return _mm512_scalef_ps(x, n); }
GA_INLINE vf vf_abs(vf x) { return _mm512_abs_ps(x); }
GA_INLINE vf vf_sign_of(vf x, vf s) { return _mm512_or_ps(x, _mm512_and_ps(s, _mm512_set1_ps(-0.0f))); }

GA_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
GA_INLINE vf vf_pick(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
GA_INLINE unsigned vm_bits(vm m) { return m; }

GA_INLINE float vf_sum(vf v) { return _mm512_reduce_add_ps(v); }
GA_INLINE float vf_hmax(vf v) { return _mm512_reduce_max_ps(v); }
GA_INLINE vf vf_swap_pairs(vf v) { return _mm512_permute_ps(v, 0xb1); }

GA_INLINE vf vf_from_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
GA_INLINE vf vf_from_bf16(const void *p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
GA_INLINE vf vf_set_f16(const void *p) {
  uint16_t h;
  memcpy(&h, p, sizeof h);
  return _mm512_cvtph_ps(_mm256_set1_epi16((short)h));
}
GA_INLINE vf vf_from_i8(const void *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* Returns VN e4m3 bytes as floats. Sign, exponent and mantissa are moved to their places in an f16, which is then 2^8
 * times too small. The code whose value would be 480 is NaN. */
GA_INLINE vf vf_from_e4m3(const void *p) {
  __m256i w = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)), 7);
  vf x = vf_mul(vf_set(256), _mm512_cvtph_ps(_mm256_and_si256(w, _mm256_set1_epi16((short)0xbf80))));
  return vf_pick(vf_lt(vf_set(448), vf_abs(x)), vf_set(NAN), x);
}
GA_INLINE vf vf_from_nibbles(const uint8_t *p, int shift) {
  __m128i q =
      _mm_and_si128(_mm_srl_epi16(_mm_loadu_si128((const __m128i *)p), _mm_cvtsi32_si128(shift)), _mm_set1_epi8(15));
  return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepu8_epi32(q), _mm512_set1_epi32(8)));
}
GA_INLINE void vf_to_f16(ga_f16 *p, vf v) {
  _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Returns the sum of two vectors, whose 128-bit lanes the shuffle constants lo and hi select from a and b. One step of
 * a tree of sums. */
#define GA_ADD_512(a, b, lo, hi) _mm512_add_ps(_mm512_shuffle_f32x4(a, b, lo), _mm512_shuffle_f32x4(a, b, hi))

GA_INLINE vf vf_sum_each(const vf *a) {
  __m512 q[4];
  for (int i = 0; i < 4; i++) { /* each 128-bit lane of q[i] has partial sums of a[4 i] to a[4 i + 3] */
    __m512 x = _mm512_add_ps(_mm512_unpacklo_ps(a[4 * i], a[4 * i + 1]), _mm512_unpackhi_ps(a[4 * i], a[4 * i + 1]));
    __m512 y =
        _mm512_add_ps(_mm512_unpacklo_ps(a[4 * i + 2], a[4 * i + 3]), _mm512_unpackhi_ps(a[4 * i + 2], a[4 * i + 3]));
    q[i] = _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xee));
  }
  __m512 lo = GA_ADD_512(q[0], q[1], 0x88, 0xdd), hi = GA_ADD_512(q[2], q[3], 0x88, 0xdd);
  return GA_ADD_512(lo, hi, 0x88, 0xdd);
}

/* Transposes the 16 x 16 matrix whose rows are a[0] to a[15], in place: first the 4 x 4 blocks within the 128-bit
 * lanes, then the lanes. */
GA_INLINE void vf_transpose(vf *a) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 4) {
    __m512 x = _mm512_unpacklo_ps(a[i], a[i + 1]), y = _mm512_unpackhi_ps(a[i], a[i + 1]);
    __m512 z = _mm512_unpacklo_ps(a[i + 2], a[i + 3]), w = _mm512_unpackhi_ps(a[i + 2], a[i + 3]);
    t[i] = _mm512_shuffle_ps(x, z, 0x44);
    t[i + 1] = _mm512_shuffle_ps(x, z, 0xee);
    t[i + 2] = _mm512_shuffle_ps(y, w, 0x44);
    t[i + 3] = _mm512_shuffle_ps(y, w, 0xee);
  }
  for (int j = 0; j < 4; j++) { /* lane l of t[4 b + j] holds rows 4 b to 4 b + 3 of column 4 l + j */
    __m512 x = _mm512_shuffle_f32x4(t[j], t[4 + j], 0x88), y = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0x88);
    __m512 z = _mm512_shuffle_f32x4(t[j], t[4 + j], 0xdd), w = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0xdd);
    a[j] = _mm512_shuffle_f32x4(x, y, 0x88);
    a[8 + j] = _mm512_shuffle_f32x4(x, y, 0xdd);
    a[4 + j] = _mm512_shuffle_f32x4(z, w, 0x88);
    a[12 + j] = _mm512_shuffle_f32x4(z, w, 0xdd);
  }
}

#endif
