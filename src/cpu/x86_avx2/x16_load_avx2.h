/* Reading packed weights (cpu_pack.h) with AVX2: one record of 8 of the 16 rows (part 0 or 1) x 32 elements as unsigned
 * codes, with the scales and minimums of its one or two runs. element = d * (code - offset) + m. */
#ifndef GA_CPU_X86_AVX2_X16_LOAD_AVX2_H
#define GA_CPU_X86_AVX2_X16_LOAD_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/cpu_gemm_x16.h"

typedef struct y8_block {
  __m256i q[8];      /* step t: dword r = elements 4t..4t+3 of row 8 part + r */
  __m256 d[2], m[2]; /* of run 0 (steps 0-3, or all) and run 1 */
} y8_block;

typedef void (*y8_loader)(const uint8_t *head, const uint8_t *record, int64_t at, int part, y8_block *w);

/* Vector i of a record, the part's half of it. */
GA_INLINE __m256i y8_vector(const uint8_t *p, int i, int part) {
  return _mm256_loadu_si256((const __m256i *)(const void *)(p + 64 * i + 32 * part));
}
/* The part's 8 of 16 f16, u8 or i8. */
GA_INLINE __m256 y8_halves(const uint8_t *p, int part) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * part)));
}
GA_INLINE __m128i y8_bytes(const uint8_t *p, int part) {
  return _mm_loadl_epi64((const __m128i *)(const void *)(p + 8 * part));
}
GA_INLINE __m256 y8_unsigned(const uint8_t *p, int part) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(y8_bytes(p, part)));
}
GA_INLINE __m256 y8_signed(const uint8_t *p, int part) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(y8_bytes(p, part)));
}
GA_INLINE __m256 y8_negate(__m256 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }

/* --- codes --- */

GA_INLINE void y8_codes_4(const uint8_t *v, int part, y8_block *w) {
  const __m256i low = _mm256_set1_epi8(15);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    __m256i x = y8_vector(v, t, part);
    w->q[t] = _mm256_and_si256(x, low);
    w->q[t + 4] = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
  }
}

GA_INLINE void y8_codes_table(const uint8_t *v, int part, __m256i table, y8_block *w) {
  y8_codes_4(v, part, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = _mm256_shuffle_epi8(table, w->q[t]);
}

/* Bit field `from` of bytes at bit `to`, under mask. */
GA_INLINE __m256i y8_field(__m256i h, int from, int to, __m256i mask) {
  return _mm256_and_si256(from > to ? _mm256_srli_epi16(h, from - to) : _mm256_slli_epi16(h, to - from), mask);
}

GA_INLINE void y8_codes_5(const uint8_t *v, int part, y8_block *w) {
  const __m256i mask = _mm256_set1_epi8(16), h = y8_vector(v, 0, part);
  y8_codes_4(v + 64, part, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = _mm256_or_si256(w->q[t], y8_field(h, t, 4, mask));
}

GA_INLINE void y8_codes_6(const uint8_t *v, int part, y8_block *w) {
  const __m256i mask = _mm256_set1_epi8(48), h0 = y8_vector(v, 0, part), h1 = y8_vector(v, 1, part);
  y8_codes_4(v + 128, part, w);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    w->q[t] = _mm256_or_si256(w->q[t], y8_field(h0, 2 * t, 4, mask));
    w->q[t + 4] = _mm256_or_si256(w->q[t + 4], y8_field(h1, 2 * t, 4, mask));
  }
}

GA_INLINE void y8_codes_2(const uint8_t *v, int part, y8_block *w) {
  const __m256i mask = _mm256_set1_epi8(3), h0 = y8_vector(v, 0, part), h1 = y8_vector(v, 1, part);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    w->q[t] = y8_field(h0, 2 * t, 0, mask);
    w->q[t + 4] = y8_field(h1, 2 * t, 0, mask);
  }
}

GA_INLINE void y8_codes_3(const uint8_t *v, int part, y8_block *w) {
  const __m256i mask = _mm256_set1_epi8(4), h = y8_vector(v, 2, part);
  y8_codes_2(v, part, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = _mm256_or_si256(w->q[t], y8_field(h, t, 2, mask));
}

/* Values of the non-linear types + 128; e2m1 doubled + 12. */
GA_INLINE __m256i y8_iq4_table(void) {
  return _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153,
                                                   (char)166, (char)181, (char)197, (char)217, (char)241));
}
GA_INLINE __m256i y8_fp4_table(void) {
  return _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

/* --- types: the same steps as x16_load.h --- */

#define Y8_LOADER(name) \
  GA_INLINE void y8_load_##name(const uint8_t *head, const uint8_t *record, int64_t at, int part, y8_block *w)

Y8_LOADER(q4_0) {
  (void)at;
  w->d[0] = y8_halves(head, part);
  y8_codes_4(record, part, w);
}

Y8_LOADER(q4_1) {
  (void)at;
  w->d[0] = y8_halves(head, part);
  w->m[0] = y8_halves(head + 32, part);
  y8_codes_4(record, part, w);
}

Y8_LOADER(q5_0) {
  (void)at;
  w->d[0] = y8_halves(head, part);
  y8_codes_5(record, part, w);
}

Y8_LOADER(q5_1) {
  (void)at;
  w->d[0] = y8_halves(head, part);
  w->m[0] = y8_halves(head + 32, part);
  y8_codes_5(record, part, w);
}

Y8_LOADER(q8_0) {
  (void)at;
  w->d[0] = y8_halves(head, part);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = y8_vector(record, t, part);
}

Y8_LOADER(iq4_nl) {
  (void)at;
  w->d[0] = y8_halves(head, part);
  y8_codes_table(record, part, y8_iq4_table(), w);
}

/* 2^(e - 128): (e - 1) << 23 as a float's bits, but subnormal below e = 2. */
Y8_LOADER(mxfp4) {
  (void)at;
  const __m256i e = _mm256_cvtepu8_epi32(y8_bytes(head, part)), two = _mm256_set1_epi32(2);
  const __m256i d = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  w->d[0] = _mm256_castsi256_ps(_mm256_blendv_epi8(d, tiny, _mm256_cmpgt_epi32(two, e)));
  y8_codes_table(record, part, y8_fp4_table(), w);
}

/* e4m3 without sign: its bits moved up by 7 are an f16 that is 2^8 times smaller; the halving of e2m1 makes it 2^7. */
GA_INLINE __m256 y8_ue4m3(const uint8_t *p, int part) {
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(y8_bytes(p, part)), 7)),
                       _mm256_set1_ps(128.0f));
}

Y8_LOADER(nvfp4) {
  (void)at;
  w->d[0] = y8_ue4m3(head, part);
  w->d[1] = y8_ue4m3(head + 16, part);
  y8_codes_table(record, part, y8_fp4_table(), w);
}

GA_INLINE void y8_scales_k(const uint8_t *head, int64_t at, int part, y8_block *w) {
  w->d[0] = _mm256_mul_ps(y8_halves(head, part), y8_unsigned(head + 64 + 16 * at, part));
  w->m[0] = _mm256_mul_ps(y8_negate(y8_halves(head + 32, part)), y8_unsigned(head + 192 + 16 * at, part));
}

Y8_LOADER(q4_k) {
  y8_scales_k(head, at, part, w);
  y8_codes_4(record, part, w);
}

Y8_LOADER(q5_k) {
  y8_scales_k(head, at, part, w);
  y8_codes_5(record, part, w);
}

Y8_LOADER(q6_k) {
  const __m256 d = y8_halves(head, part);
  w->d[0] = _mm256_mul_ps(d, y8_signed(head + 32 + 32 * at, part));
  w->d[1] = _mm256_mul_ps(d, y8_signed(head + 48 + 32 * at, part));
  y8_codes_6(record, part, w);
}

Y8_LOADER(q2_k) {
  const __m256 d = y8_halves(head, part), dmin = y8_negate(y8_halves(head + 32, part));
  GA_UNROLL for (int run = 0; run < 2; run++) {
    const __m256i both = _mm256_cvtepu8_epi32(y8_bytes(head + 64 + 32 * at + 16 * run, part));
    w->d[run] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_and_si256(both, _mm256_set1_epi32(15))));
    w->m[run] = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(_mm256_srli_epi32(both, 4)));
  }
  y8_codes_2(record, part, w);
}

Y8_LOADER(q3_k) {
  const __m256 d = y8_halves(head, part);
  w->d[0] = _mm256_mul_ps(d, y8_signed(head + 32 + 32 * at, part));
  w->d[1] = _mm256_mul_ps(d, y8_signed(head + 48 + 32 * at, part));
  y8_codes_3(record, part, w);
}

Y8_LOADER(iq4_xs) {
  w->d[0] = _mm256_mul_ps(y8_halves(head, part), y8_signed(head + 32 + 16 * at, part));
  y8_codes_table(record, part, y8_iq4_table(), w);
}

#endif
