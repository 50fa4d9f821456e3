/* KERNEL    gemm_<type>_any_avx2_16x4: packed weights times activations of 15 bits
 * COMPUTES  out[c][r] = sum over blocks of 32: d_x[c] * (d_w[r] * (codes[r] - offset) . q[c]) + m_w[r] * sum_x[c],
 *           q = 128 high + low
 * CONTRACT  one panel of 16 rows, 1 to 4 columns, k a multiple of 32; integer part exact, f32 sums in order of blocks
 * DATA      32-byte loads of codes -> bytes -> vpmaddubsw with 4 broadcast activations; as many steps are added in 16
 *           bits as cannot overflow, then vpmaddwd with ones: lane = row
 *           Codes of 8 bits would overflow in one step: they are made signed and their sign is moved to the activations
 *           */
#include "cpu/x86_avx2/x16_avx2.h"
#include "cpu/x86_avx2/x16_load_avx2.h"

/* Bytes ahead of the record that are asked for, as in avx512_gemm_x16.c. */
#define PREFETCH 3072

GA_INLINE __m256i four(const int8_t *digits, int t) {
  int32_t q;
  memcpy(&q, digits + 4 * t, sizeof q);
  return _mm256_set1_epi32(q);
}

/* Sums of pairs in 16 bits: |w| <= 128 and |x| <= 127 make at most 32512. */
GA_INLINE __m256i pairs_signed(__m256i code, __m256i x) {
  const __m256i w = _mm256_xor_si256(code, _mm256_set1_epi8((char)-128));
  return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

/* Steps of codes up to `most` whose pairs of products, 2 * 127 * most each, fit in 16 bits together: 8, 4, 2 or 0. */
#define STEPS(most) ((most)*254 * 8 <= 32767 ? 8 : (most)*254 * 4 <= 32767 ? 4 : (most)*254 * 2 <= 32767 ? 2 : 0)

/* Adds the products of steps from .. from + n - 1 (4 or 8 of them) to sum. */
GA_INLINE __m256i dot_run(const int most, const int from, const int n, const x16_block *w, const int8_t *x,
                          __m256i sum) {
  const __m256i ones = _mm256_set1_epi16(1);
  const int fit = STEPS(most) ? STEPS(most) : 1, together = fit < n ? fit : n, parts = n / together;
  GA_UNROLL for (int p = 0; p < parts; p++) {
    __m256i part = _mm256_setzero_si256();
    GA_UNROLL for (int i = 0; i < together; i++) {
      const int t = from + p * together + i;
      part = _mm256_add_epi16(part, STEPS(most) ? _mm256_maddubs_epi16(w->q[t], four(x, t))
                                                : pairs_signed(w->q[t], four(x, t)));
    }
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(part, ones));
  }
  return sum;
}

/* Constant after inlining: everything from `load` to `cols`. */
GA_INLINE void dot_quantised(x16_loader load, const int group, const int head_bytes, const int record_bytes,
                             const int runs, const int has_min, const int most, const int cols, const uint8_t *panel,
                             const ga_x16_act *x, int64_t k, float *out) {
  const int64_t blocks = k / 32;
  const uint8_t *record = panel + ((((blocks + group - 1) / group * head_bytes) + 63) & ~(int64_t)63);
  __m256 sum[4][2];
  GA_UNROLL for (int c = 0; c < cols; c++) sum[c][0] = sum[c][1] = _mm256_setzero_ps();
  for (int64_t b = 0; b < blocks; b++, record += record_bytes, x += cols) {
    GA_UNROLL for (int i = 0; i < record_bytes; i += 64) _mm_prefetch((const char *)record + PREFETCH + i, _MM_HINT_T0);
    GA_UNROLL for (int part = 0; part < 2; part++) {
      x16_block w;
      load(panel + b / group * head_bytes, record, b % group, part, &w);
      GA_UNROLL for (int c = 0; c < cols; c++) {
        GA_UNROLL for (int run = 0; run < runs; run++) {
          const __m256i zero = _mm256_setzero_si256(),
                        start = has_min || !STEPS(most) ? zero : _mm256_set1_epi32(x[c].sum[run].i);
          const __m256i high = dot_run(most, 8 / runs * run, 8 / runs, &w, x[c].high, zero);
          const __m256i low = dot_run(most, 8 / runs * run, 8 / runs, &w, x[c].low, start);
          const __m256i dot = _mm256_add_epi32(_mm256_slli_epi32(high, 7), low);
          sum[c][part] =
              _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(w.d[run], _mm256_set1_ps(x[c].d)), sum[c][part]);
          if (has_min) sum[c][part] = _mm256_fmadd_ps(w.m[run], _mm256_set1_ps(x[c].sum[run].f), sum[c][part]);
        }
      }
    }
  }
  GA_UNROLL for (int c = 0; c < cols; c++) {
    _mm256_storeu_ps(out + 16 * c, sum[c][0]);
    _mm256_storeu_ps(out + 16 * c + 8, sum[c][1]);
  }
}

#define IMPL(name, group, head, record, runs, offset, has_min, most) \
  X16_MICRO(name, 1, group, head, record, runs, has_min, most)       \
  X16_MICRO(name, 2, group, head, record, runs, has_min, most)       \
  X16_MICRO(name, 3, group, head, record, runs, has_min, most)       \
  X16_MICRO(name, 4, group, head, record, runs, has_min, most)       \
  const ga_x16_impl ga_x16_##name##_avx2 = {                         \
      .quantise = ga_x16_quantise_avx2,                              \
      .epilogue = ga_x16_epilogue_avx2,                              \
      .micro = {[1] = dot_##name##_1, [2] = dot_##name##_2, [3] = dot_##name##_3, [4] = dot_##name##_4}};
GA_X16_QUANTS(IMPL)
