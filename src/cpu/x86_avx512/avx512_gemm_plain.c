/* KERNEL    gemm_{f32,f16,bf16}_any_avx512_16x4: packed plain weights times f32 activations
 * COMPUTES  out[c][r] = sum over k of w[r][k] * x[c][k], weights widened to f32
 * CONTRACT  one panel of 16 rows, 1 to 4 columns, any k; four partial sums by k modulo 4, added in pairs
 * DATA      16 rows of one k are a vector; x[c][k] is broadcast: lane = row */
#include "cpu/x86_avx512/x16_avx512.h"
#include "cpu/x86_avx512/x16_load.h"

#define PARTS 4

/* Rows at element k. */
typedef __m512 (*plain_loader)(const uint8_t *panel, int64_t k);

GA_INLINE __m512 at_f32(const uint8_t *panel, int64_t k) { return _mm512_loadu_ps(panel + 64 * k); }
GA_INLINE __m512 at_f16(const uint8_t *panel, int64_t k) { return x16_halves(panel + 32 * k); }
/* A dword holds elements k (low) and k + 1 of a row, k even. */
GA_INLINE __m512 at_bf16(const uint8_t *panel, int64_t k) {
  const __m512i pair = _mm512_loadu_si512(panel + 64 * (k / 2));
  return _mm512_castsi512_ps(k & 1 ? _mm512_and_si512(pair, _mm512_set1_epi32((int)0xffff0000))
                                   : _mm512_slli_epi32(pair, 16));
}

GA_INLINE void dot_plain(plain_loader at, const int cols, const uint8_t *panel, const float *x, int64_t x_stride,
                         int64_t k, float *out) {
  __m512 sum[4][PARTS];
  GA_UNROLL for (int c = 0; c < cols; c++) {
    GA_UNROLL for (int p = 0; p < PARTS; p++) sum[c][p] = _mm512_setzero_ps();
  }
  int64_t i = 0;
  for (; i + PARTS <= k; i += PARTS) {
    GA_UNROLL for (int p = 0; p < PARTS; p++) {
      const __m512 w = at(panel, i + p);
      GA_UNROLL for (int c = 0; c < cols; c++) sum[c][p] =
          _mm512_fmadd_ps(w, _mm512_set1_ps(x[c * x_stride + i + p]), sum[c][p]);
    }
  }
  for (; i < k; i++) {
    const __m512 w = at(panel, i);
    GA_UNROLL for (int c = 0; c < cols; c++) sum[c][0] =
        _mm512_fmadd_ps(w, _mm512_set1_ps(x[c * x_stride + i]), sum[c][0]);
  }
  GA_UNROLL for (int c = 0; c < cols; c++) _mm512_storeu_ps(
      out + 16 * c, _mm512_add_ps(_mm512_add_ps(sum[c][0], sum[c][2]), _mm512_add_ps(sum[c][1], sum[c][3])));
}

#define STAMP(name, cols)                                                                                           \
  static void plain_##name##_##cols(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out) { \
    dot_plain(at_##name, cols, panel, x, x_stride, k, out);                                                         \
  }
#define IMPL(name)                             \
  STAMP(name, 1)                               \
  STAMP(name, 2)                               \
  STAMP(name, 3)                               \
  STAMP(name, 4)                               \
  const ga_x16_impl ga_x16_##name##_avx512 = { \
      .epilogue = ga_x16_epilogue_avx512,      \
      .micro = {[1] = plain_##name##_1, [2] = plain_##name##_2, [3] = plain_##name##_3, [4] = plain_##name##_4}};
IMPL(f32)
IMPL(f16)
IMPL(bf16)
