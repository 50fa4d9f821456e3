/* KERNEL    gemm_{f32,f16,bf16}_any_avx2_16x2: packed plain weights times f32 activations
 * COMPUTES  out[c][r] = sum over k of w[r][k] * x[c][k], weights widened to f32
 * CONTRACT  one panel of 16 rows, 1 or 2 columns, any k; even and odd k are summed apart and added at the end */
#include "cpu/x86_avx2/x16_avx2.h"
#include "cpu/x86_avx2/x16_load_avx2.h"

/* Rows 8 part .. of element k. */
typedef __m256 (*plain_loader)(const uint8_t *panel, int64_t k, int part);

GA_INLINE __m256 at_f32(const uint8_t *panel, int64_t k, int part) {
  return _mm256_castsi256_ps(y8_vector(panel + 64 * k, 0, part));
}
GA_INLINE __m256 at_f16(const uint8_t *panel, int64_t k, int part) { return y8_halves(panel + 32 * k, part); }
/* A dword holds elements k (low) and k + 1 of a row, k even. */
GA_INLINE __m256 at_bf16(const uint8_t *panel, int64_t k, int part) {
  const __m256i pair = y8_vector(panel + 64 * (k / 2), 0, part);
  return _mm256_castsi256_ps(k & 1 ? _mm256_and_si256(pair, _mm256_set1_epi32((int)0xffff0000))
                                   : _mm256_slli_epi32(pair, 16));
}

GA_INLINE void dot_plain(plain_loader at, const int cols, const uint8_t *panel, const float *x, int64_t x_stride,
                         int64_t k, float *out) {
  __m256 sum[2][2][2]; /* column, part, parity of k */
  GA_UNROLL for (int i = 0; i < 8; i++) sum[i >> 2][i >> 1 & 1][i & 1] = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 2 <= k; i += 2) {
    GA_UNROLL for (int odd = 0; odd < 2; odd++) {
      GA_UNROLL for (int part = 0; part < 2; part++) {
        const __m256 w = at(panel, i + odd, part);
        GA_UNROLL for (int c = 0; c < cols; c++) sum[c][part][odd] =
            _mm256_fmadd_ps(w, _mm256_set1_ps(x[c * x_stride + i + odd]), sum[c][part][odd]);
      }
    }
  }
  for (; i < k; i++) {
    GA_UNROLL for (int part = 0; part < 2; part++) {
      const __m256 w = at(panel, i, part);
      GA_UNROLL for (int c = 0; c < cols; c++) sum[c][part][0] =
          _mm256_fmadd_ps(w, _mm256_set1_ps(x[c * x_stride + i]), sum[c][part][0]);
    }
  }
  GA_UNROLL for (int c = 0; c < cols; c++) {
    GA_UNROLL for (int part = 0; part < 2; part++)
        _mm256_storeu_ps(out + 16 * c + 8 * part, _mm256_add_ps(sum[c][part][0], sum[c][part][1]));
  }
}

#define STAMP(name, cols)                                                                                           \
  static void plain_##name##_##cols(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out) { \
    dot_plain(at_##name, cols, panel, x, x_stride, k, out);                                                         \
  }
#define IMPL(name)                                                            \
  STAMP(name, 1)                                                              \
  STAMP(name, 2)                                                              \
  const ga_x16_impl ga_x16_##name##_avx2 = {.epilogue = ga_x16_epilogue_avx2, \
                                            .micro = {[1] = plain_##name##_1, [2] = plain_##name##_2}};
IMPL(f32)
IMPL(f16)
IMPL(bf16)
