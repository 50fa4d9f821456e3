/* AVX-512 functions that load packed weights, for x16_load_tmpl.h. A part is all 16 rows of a record. */
#ifndef GA_CPU_X86_AVX512_X16_LOAD_H
#define GA_CPU_X86_AVX512_X16_LOAD_H

#include "base/compiler.h"
#include "cpu/cpu_gemm_x16.h"
#include "cpu/simd/simd_avx512.h"

typedef __m512i xq;

GA_INLINE xq x16_codes(const uint8_t *p, int i, int part) {
  (void)part;
  return _mm512_loadu_si512(p + 64 * i);
}
GA_INLINE vf x16_floats(const uint8_t *p, int part) {
  (void)part;
  return _mm512_loadu_ps(p);
}
GA_INLINE vf x16_halves(const uint8_t *p, int part) {
  (void)part;
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
/* Returns element k of the 16 rows as floats, from a panel of bf16 weights. In each row a 32-bit word holds the
 * elements of an even k (low half) and of k + 1. */
GA_INLINE vf x16_bf16(const uint8_t *panel, int64_t k, int part) {
  const __m512i pair = x16_codes(panel + 64 * (k / 2), 0, part);
  return _mm512_castsi512_ps(k & 1 ? _mm512_and_si512(pair, _mm512_set1_epi32((int)0xffff0000))
                                   : _mm512_slli_epi32(pair, 16));
}
GA_INLINE __m128i x16_load_bytes(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
GA_INLINE __m512i x16_wide(const uint8_t *p) { return _mm512_cvtepu8_epi32(x16_load_bytes(p)); }
GA_INLINE vf x16_unsigned(const uint8_t *p, int part) {
  (void)part;
  return _mm512_cvtepi32_ps(x16_wide(p));
}
GA_INLINE vf x16_signed(const uint8_t *p, int part) {
  (void)part;
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x16_load_bytes(p)));
}
GA_INLINE vf x16_nibble_low(const uint8_t *p, int part) {
  (void)part;
  return _mm512_cvtepi32_ps(_mm512_and_si512(x16_wide(p), _mm512_set1_epi32(15)));
}
GA_INLINE vf x16_nibble_high(const uint8_t *p, int part) {
  (void)part;
  return _mm512_cvtepi32_ps(_mm512_srli_epi32(x16_wide(p), 4));
}
GA_INLINE vf x16_negate(vf x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }

GA_INLINE xq x16_low(xq x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
GA_INLINE xq x16_high(xq x) { return x16_low(_mm512_srli_epi16(x, 4)); }
GA_INLINE xq x16_bytes(xq x) { return x; }
GA_INLINE xq x16_lookup(xq table, xq q) { return _mm512_shuffle_epi8(table, q); }

GA_INLINE xq x16_shift(xq h, int from, int to) {
  return from > to ? _mm512_srli_epi16(h, (uint8_t)(from - to)) : _mm512_slli_epi16(h, (uint8_t)(to - from));
}
GA_INLINE xq x16_field(xq h, int from, int to, int mask) {
  return _mm512_and_si512(x16_shift(h, from, to), _mm512_set1_epi8((char)mask));
}
/* Truth table for vpternlogd of x | (h & mask): this expression's value for x = 0xf0, h = 0xcc and mask = 0xaa. */
#define X16_OR_AND 0xf8
GA_INLINE xq x16_insert(xq q, xq h, int from, int to, int mask) {
  return _mm512_ternarylogic_epi32(q, x16_shift(h, from, to), _mm512_set1_epi8((char)mask), X16_OR_AND);
}

/* Return tables of the values of 4-bit codes. The table of the iq4 types has value + 128; the table of e2m1 has 2 *
 * value + 12. */
GA_INLINE xq x16_iq4_table(void) {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153,
                                              (char)166, (char)181, (char)197, (char)217, (char)241));
}
GA_INLINE xq x16_fp4_table(void) {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

/* Returns 2^(e - 128) for exponent bytes e at p: half of the e8m0 scale, because x16_fp4_table has doubled values. The
 * result has bits (e - 1) << 23, and is subnormal for e < 2. */
GA_INLINE vf x16_e8m0(const uint8_t *p, int part) {
  (void)part;
  const __m512i e = x16_wide(p);
  const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
  __m512i d = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(d, tiny, _mm512_set1_epi32(0x00200000), e));
}
/* Returns half the values of unsigned e4m3 bytes at p, because x16_fp4_table has doubled values. A byte shifted left by
 * 7 bits is an f16 that is 2^8 times too small, so the factor is 2^7. */
GA_INLINE vf x16_ue4m3(const uint8_t *p, int part) {
  (void)part;
  return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(x16_load_bytes(p)), 7)),
                       _mm512_set1_ps(128.0f));
}

#include "cpu/body/x16_load_tmpl.h"

#endif
