/* AVX2 functions that load packed weights, for x16_load_tmpl.h. A part is 8 of the 16 rows of a record. */
#ifndef GA_CPU_X86_AVX2_X16_LOAD_AVX2_H
#define GA_CPU_X86_AVX2_X16_LOAD_AVX2_H

#include <string.h>

#include "base/compiler.h"
#include "cpu/cpu_gemm_x16.h"
#include "cpu/simd/simd_avx2.h"

typedef __m256i xq;

GA_INLINE xq x16_codes(const uint8_t *p, int i, int part) {
  return _mm256_loadu_si256((const __m256i *)(const void *)(p + 64 * i + 32 * part));
}
GA_INLINE vf x16_floats(const uint8_t *p, int part) { return _mm256_castsi256_ps(x16_codes(p, 0, part)); }
GA_INLINE vf x16_halves(const uint8_t *p, int part) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * part)));
}
/* Returns element k of the 8 rows of a part as floats, from a panel of bf16 weights. In each row a 32-bit word holds
 * the elements of an even k (low half) and of k + 1. */
GA_INLINE vf x16_bf16(const uint8_t *panel, int64_t k, int part) {
  const __m256i pair = x16_codes(panel + 64 * (k / 2), 0, part);
  return _mm256_castsi256_ps(k & 1 ? _mm256_and_si256(pair, _mm256_set1_epi32((int)0xffff0000))
                                   : _mm256_slli_epi32(pair, 16));
}
GA_INLINE __m128i x16_load_bytes(const uint8_t *p, int part) {
  return _mm_loadl_epi64((const __m128i *)(const void *)(p + 8 * part));
}
GA_INLINE __m256i x16_wide(const uint8_t *p, int part) { return _mm256_cvtepu8_epi32(x16_load_bytes(p, part)); }
GA_INLINE vf x16_unsigned(const uint8_t *p, int part) { return _mm256_cvtepi32_ps(x16_wide(p, part)); }
GA_INLINE vf x16_signed(const uint8_t *p, int part) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x16_load_bytes(p, part)));
}
GA_INLINE vf x16_nibble_low(const uint8_t *p, int part) {
  return _mm256_cvtepi32_ps(_mm256_and_si256(x16_wide(p, part), _mm256_set1_epi32(15)));
}
GA_INLINE vf x16_nibble_high(const uint8_t *p, int part) {
  return _mm256_cvtepi32_ps(_mm256_srli_epi32(x16_wide(p, part), 4));
}
GA_INLINE vf x16_negate(vf x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }

GA_INLINE xq x16_low(xq x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
GA_INLINE xq x16_high(xq x) { return x16_low(_mm256_srli_epi16(x, 4)); }
GA_INLINE xq x16_bytes(xq x) { return x; }
GA_INLINE xq x16_lookup(xq table, xq q) { return _mm256_shuffle_epi8(table, q); }
GA_INLINE xq x16_field(xq h, int from, int to, int mask) {
  return _mm256_and_si256(from > to ? _mm256_srli_epi16(h, from - to) : _mm256_slli_epi16(h, to - from),
                          _mm256_set1_epi8((char)mask));
}
GA_INLINE xq x16_insert(xq q, xq h, int from, int to, int mask) {
  return _mm256_or_si256(q, x16_field(h, from, to, mask));
}

/* Return tables of the values of 4-bit codes. The table of the iq4 types has value + 128; the table of e2m1 has 2 *
 * value + 12. */
GA_INLINE xq x16_iq4_table(void) {
  return _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153,
                                                   (char)166, (char)181, (char)197, (char)217, (char)241));
}
GA_INLINE xq x16_fp4_table(void) {
  return _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

/* Returns 2^(e - 128) for exponent bytes e at p: half of the e8m0 scale, because x16_fp4_table has doubled values. The
 * result has bits (e - 1) << 23, and is subnormal for e < 2. */
GA_INLINE vf x16_e8m0(const uint8_t *p, int part) {
  const __m256i e = x16_wide(p, part), two = _mm256_set1_epi32(2);
  const __m256i d = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(d, tiny, _mm256_cmpgt_epi32(two, e)));
}
/* Returns half the values of unsigned e4m3 bytes at p, because x16_fp4_table has doubled values. A byte shifted left by
 * 7 bits is an f16 that is 2^8 times too small, so the factor is 2^7. */
GA_INLINE vf x16_ue4m3(const uint8_t *p, int part) {
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(x16_load_bytes(p, part)), 7)),
                       _mm256_set1_ps(128.0f));
}

#include "cpu/body/x16_load_tmpl.h"

#endif
