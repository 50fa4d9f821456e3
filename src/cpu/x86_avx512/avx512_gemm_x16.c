/* KERNEL    gemm_<type>_any_avx512_16x8: packed weights times activations of 15 bits
 * COMPUTES  out[c][r] = sum over blocks of 32: d_x[c] * (d_w[r] * (codes[r] - offset) . q[c]) + m_w[r] * sum_x[c],
 *           q = 128 high + low
 * CONTRACT  one panel of 16 rows, 1 to 8 columns, k a multiple of 32; integer part exact, f32 sums in order of blocks
 * DATA      64-byte loads of codes -> nibbles and bits to bytes -> vpdpbusd with 4 broadcast activations: lane = row,
 *           so that there is no horizontal sum; a record is unpacked once for all columns
 * BUDGET    8 codes, 2 i32 and 8 f32 sums of 32 registers; 16 vpdpbusd and 5 more operations a column and block: 512
 *           products in about 11 clocks with two vector units
 * REF       Intel 64 instruction set reference, VPDPBUSD; src/ref/ref_dequant.c */
#include <string.h>

#include "cpu/x86_avx512/x16_avx512.h"
#include "cpu/x86_avx512/x16_load.h"

/* Bytes ahead of the record that decoding asks for: the hardware's own prefetch stops at the end of each page. One
 * thread, share of the read bandwidth from memory without and with: q4_k 77 and 92 %, q5_0 73 and 89, q6_k 64 and 88.
 * 2 KiB are too few from the third-level cache (q8_0 77 % instead of 96), 6 KiB too many. May point past the end of the
 * weights: a prefetch never faults. */
#define PREFETCH 3072

/* Four digits in every lane. */
GA_INLINE __m512i four(const int8_t *digits, int t) {
  int32_t q;
  memcpy(&q, digits + 4 * t, sizeof q);
  return _mm512_set1_epi32(q);
}

/* Constant after inlining: everything from `load` to `cols`. */
GA_INLINE void dot_quantised(x16_loader load, const int group, const int head_bytes, const int record_bytes,
                             const int runs, const int has_min, const int most, const int cols, const uint8_t *panel,
                             const ga_x16_act *x, int64_t k, float *out) {
  (void)most;
  const int64_t blocks = k / 32;
  const int steps = 8 / runs; /* of a run */
  const uint8_t *record = panel + ((((blocks + group - 1) / group * head_bytes) + 63) & ~(int64_t)63);
  __m512 sum[GA_X16_MAX_COLS];
  GA_UNROLL for (int c = 0; c < cols; c++) sum[c] = _mm512_setzero_ps();
  for (int64_t b = 0; b < blocks; b++, record += record_bytes, x += cols) {
    x16_block w;
    if (cols <= 4) {
      GA_UNROLL for (int i = 0; i < record_bytes; i += 64)
          _mm_prefetch((const char *)record + PREFETCH + i, _MM_HINT_T0);
    }
    load(panel + b / group * head_bytes, record, b % group, 0, &w);
    GA_UNROLL for (int c = 0; c < cols; c++) {
      GA_UNROLL for (int run = 0; run < runs; run++) {
        __m512i high = _mm512_setzero_si512(), low = has_min ? high : _mm512_set1_epi32(x[c].sum[run].i);
        GA_UNROLL for (int i = 0; i < steps; i++) {
          const int t = steps * run + i;
          high = _mm512_dpbusd_epi32(high, w.q[t], four(x[c].high, t));
          low = _mm512_dpbusd_epi32(low, w.q[t], four(x[c].low, t));
        }
        const __m512i dot = _mm512_add_epi32(_mm512_slli_epi32(high, 7), low);
        sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(w.d[run], _mm512_set1_ps(x[c].d)), sum[c]);
        if (has_min) sum[c] = _mm512_fmadd_ps(w.m[run], _mm512_set1_ps(x[c].sum[run].f), sum[c]);
      }
    }
  }
  GA_UNROLL for (int c = 0; c < cols; c++) _mm512_storeu_ps(out + 16 * c, sum[c]);
}

#define IMPL(name, group, head, record, runs, offset, has_min, most)              \
  X16_MICRO(name, 1, group, head, record, runs, has_min, most)                    \
  X16_MICRO(name, 2, group, head, record, runs, has_min, most)                    \
  X16_MICRO(name, 3, group, head, record, runs, has_min, most)                    \
  X16_MICRO(name, 4, group, head, record, runs, has_min, most)                    \
  X16_MICRO(name, 8, group, head, record, runs, has_min, most)                    \
  const ga_x16_impl ga_x16_##name##_avx512 = {.quantise = ga_x16_quantise_avx512, \
                                              .epilogue = ga_x16_epilogue_avx512, \
                                              .micro = {[1] = dot_##name##_1,     \
                                                        [2] = dot_##name##_2,     \
                                                        [3] = dot_##name##_3,     \
                                                        [4] = dot_##name##_4,     \
                                                        [8] = dot_##name##_8}};
GA_X16_QUANTS(IMPL)
