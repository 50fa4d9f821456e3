/* Reading packed weights (cpu_pack.h) with AVX-512: one record of 16 rows x 32 elements as unsigned codes, with the
 * scales and minimums of its one or two runs. element = d * (code - offset) + m. */
#ifndef GA_CPU_X86_AVX512_X16_LOAD_H
#define GA_CPU_X86_AVX512_X16_LOAD_H

#include <immintrin.h>

#include "base/compiler.h"
#include "cpu/cpu_gemm_x16.h"

typedef struct x16_block {
  __m512i q[8];      /* step t: dword r = elements 4t..4t+3 of row r */
  __m512 d[2], m[2]; /* of run 0 (steps 0-3, or all) and run 1 */
} x16_block;

/* head: of the group of records; at: which of the group. */
typedef void (*x16_loader)(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w);

GA_INLINE __m512i x16_vector(const uint8_t *p, int i) { return _mm512_loadu_si512(p + 64 * i); }
GA_INLINE __m512 x16_halves(const uint8_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
GA_INLINE __m128i x16_bytes(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
GA_INLINE __m512 x16_unsigned(const uint8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(x16_bytes(p))); }
GA_INLINE __m512 x16_signed(const uint8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x16_bytes(p))); }
GA_INLINE __m512 x16_negate(__m512 x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }

/* --- codes --- */

GA_INLINE void x16_codes_4(const uint8_t *v, x16_block *w) {
  const __m512i low = _mm512_set1_epi8(15);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    __m512i x = x16_vector(v, t);
    w->q[t] = _mm512_and_si512(x, low);
    w->q[t + 4] = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
  }
}

GA_INLINE void x16_codes_table(const uint8_t *v, __m512i table, x16_block *w) {
  x16_codes_4(v, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = _mm512_shuffle_epi8(table, w->q[t]);
}

/* x | (h & mask): ternary truth table with x = 0xf0, h = 0xcc, mask = 0xaa. */
#define X16_OR_AND 0xf8

/* Moves bit field `from` of bytes to bit `to`; what else moves is masked off by the caller. */
GA_INLINE __m512i x16_shift(__m512i h, int from, int to) {
  return from > to ? _mm512_srli_epi16(h, (uint8_t)(from - to)) : _mm512_slli_epi16(h, (uint8_t)(to - from));
}

GA_INLINE void x16_codes_5(const uint8_t *v, x16_block *w) {
  const __m512i mask = _mm512_set1_epi8(16), h = x16_vector(v, 0);
  x16_codes_4(v + 64, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] =
      _mm512_ternarylogic_epi32(w->q[t], x16_shift(h, t, 4), mask, X16_OR_AND);
}

GA_INLINE void x16_codes_6(const uint8_t *v, x16_block *w) {
  const __m512i mask = _mm512_set1_epi8(48), h0 = x16_vector(v, 0), h1 = x16_vector(v, 1);
  x16_codes_4(v + 128, w);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    w->q[t] = _mm512_ternarylogic_epi32(w->q[t], x16_shift(h0, 2 * t, 4), mask, X16_OR_AND);
    w->q[t + 4] = _mm512_ternarylogic_epi32(w->q[t + 4], x16_shift(h1, 2 * t, 4), mask, X16_OR_AND);
  }
}

GA_INLINE void x16_codes_2(const uint8_t *v, x16_block *w) {
  const __m512i mask = _mm512_set1_epi8(3), h0 = x16_vector(v, 0), h1 = x16_vector(v, 1);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    w->q[t] = _mm512_and_si512(x16_shift(h0, 2 * t, 0), mask);
    w->q[t + 4] = _mm512_and_si512(x16_shift(h1, 2 * t, 0), mask);
  }
}

GA_INLINE void x16_codes_3(const uint8_t *v, x16_block *w) {
  const __m512i mask = _mm512_set1_epi8(4), h = x16_vector(v, 2);
  x16_codes_2(v, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] =
      _mm512_ternarylogic_epi32(w->q[t], x16_shift(h, t, 2), mask, X16_OR_AND);
}

/* Values of the non-linear types + 128; e2m1 doubled + 12. */
GA_INLINE __m512i x16_iq4_table(void) {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153,
                                              (char)166, (char)181, (char)197, (char)217, (char)241));
}
GA_INLINE __m512i x16_fp4_table(void) {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

/* --- types --- */

GA_INLINE void x16_load_q4_0(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  (void)at;
  w->d[0] = x16_halves(head);
  x16_codes_4(record, w);
}

GA_INLINE void x16_load_q4_1(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  (void)at;
  w->d[0] = x16_halves(head);
  w->m[0] = x16_halves(head + 32);
  x16_codes_4(record, w);
}

GA_INLINE void x16_load_q5_0(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  (void)at;
  w->d[0] = x16_halves(head);
  x16_codes_5(record, w);
}

GA_INLINE void x16_load_q5_1(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  (void)at;
  w->d[0] = x16_halves(head);
  w->m[0] = x16_halves(head + 32);
  x16_codes_5(record, w);
}

GA_INLINE void x16_load_q8_0(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  (void)at;
  w->d[0] = x16_halves(head);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = x16_vector(record, t);
}

GA_INLINE void x16_load_iq4_nl(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  (void)at;
  w->d[0] = x16_halves(head);
  x16_codes_table(record, x16_iq4_table(), w);
}

/* 2^(e - 128): (e - 1) << 23 as a float's bits, but subnormal below e = 2. */
GA_INLINE void x16_load_mxfp4(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  (void)at;
  const __m512i e = _mm512_cvtepu8_epi32(x16_bytes(head));
  const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
  __m512i d = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  w->d[0] = _mm512_castsi512_ps(_mm512_mask_sllv_epi32(d, tiny, _mm512_set1_epi32(0x00200000), e));
  x16_codes_table(record, x16_fp4_table(), w);
}

/* e4m3 without sign: its bits moved up by 7 are an f16 that is 2^8 times smaller; the halving of e2m1 makes it 2^7. */
GA_INLINE __m512 x16_ue4m3(const uint8_t *p) {
  return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(x16_bytes(p)), 7)),
                       _mm512_set1_ps(128.0f));
}

GA_INLINE void x16_load_nvfp4(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  (void)at;
  w->d[0] = x16_ue4m3(head);
  w->d[1] = x16_ue4m3(head + 16);
  x16_codes_table(record, x16_fp4_table(), w);
}

GA_INLINE void x16_scales_k(const uint8_t *head, int64_t at, x16_block *w) {
  w->d[0] = _mm512_mul_ps(x16_halves(head), x16_unsigned(head + 64 + 16 * at));
  w->m[0] = _mm512_mul_ps(x16_negate(x16_halves(head + 32)), x16_unsigned(head + 192 + 16 * at));
}

GA_INLINE void x16_load_q4_k(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  x16_scales_k(head, at, w);
  x16_codes_4(record, w);
}

GA_INLINE void x16_load_q5_k(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  x16_scales_k(head, at, w);
  x16_codes_5(record, w);
}

GA_INLINE void x16_load_q6_k(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  const __m512 d = x16_halves(head);
  w->d[0] = _mm512_mul_ps(d, x16_signed(head + 32 + 32 * at));
  w->d[1] = _mm512_mul_ps(d, x16_signed(head + 48 + 32 * at));
  x16_codes_6(record, w);
}

GA_INLINE void x16_load_q2_k(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  const __m512 d = x16_halves(head), dmin = x16_negate(x16_halves(head + 32));
  GA_UNROLL for (int run = 0; run < 2; run++) {
    const __m512i both = _mm512_cvtepu8_epi32(x16_bytes(head + 64 + 32 * at + 16 * run));
    w->d[run] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(15))));
    w->m[run] = _mm512_mul_ps(dmin, _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4)));
  }
  x16_codes_2(record, w);
}

GA_INLINE void x16_load_q3_k(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  const __m512 d = x16_halves(head);
  w->d[0] = _mm512_mul_ps(d, x16_signed(head + 32 + 32 * at));
  w->d[1] = _mm512_mul_ps(d, x16_signed(head + 48 + 32 * at));
  x16_codes_3(record, w);
}

GA_INLINE void x16_load_iq4_xs(const uint8_t *head, const uint8_t *record, int64_t at, x16_block *w) {
  w->d[0] = _mm512_mul_ps(x16_halves(head), x16_signed(head + 32 + 16 * at));
  x16_codes_table(record, x16_iq4_table(), w);
}

/* Every quantised type: X(name, group, head_bytes, record_bytes, runs, offset, has_min), as in the table of formats. */
/* clang-format off */
#define GA_X16_QUANTS(X) \
  X(q4_0, 1, 32, 256, 1, 8, 0) X(q4_1, 1, 64, 256, 1, 0, 1) X(q5_0, 1, 32, 320, 1, 16, 0) \
  X(q5_1, 1, 64, 320, 1, 0, 1) X(q8_0, 1, 32, 512, 1, 128, 0) X(iq4_nl, 1, 32, 256, 1, 128, 0) \
  X(mxfp4, 1, 16, 256, 1, 12, 0) X(nvfp4, 1, 32, 256, 2, 12, 0) X(q4_k, 8, 320, 256, 1, 0, 1) \
  X(q5_k, 8, 320, 320, 1, 0, 1) X(q6_k, 8, 288, 384, 2, 32, 0) X(q2_k, 8, 320, 128, 2, 0, 1) \
  X(q3_k, 8, 288, 192, 2, 4, 0) X(iq4_xs, 8, 160, 256, 1, 128, 0)
/* clang-format on */

#endif
