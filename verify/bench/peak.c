#include "verify/bench/peak.h"

#include "core/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ROUNDS 200000
#define CHAINS 12 /* > latency 4 x two units */

/* Whole functions for one instruction set, chosen at run time like the kernels. */
#define PEAK(name, isa, vec, set1, fma, add, first)                                     \
  __attribute__((target(isa))) static void name(void *arg, int64_t piece, int thread) { \
    (void)arg, (void)piece;                                                             \
    vec a[CHAINS], x = set1(1.0f - 1e-7f), y = set1((float)thread * 1e-9f + 1e-9f);     \
    for (int j = 0; j < CHAINS; j++) a[j] = set1((float)j);                             \
    for (int i = 0; i < ROUNDS; i++)                                                    \
      for (int j = 0; j < CHAINS; j++) a[j] = fma(a[j], x, y);                          \
    for (int j = 1; j < CHAINS; j++) a[0] = add(a[0], a[j]);                            \
    volatile float sink = first(a[0]);                                                  \
    (void)sink;                                                                         \
  }

PEAK(peak_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_cvtss_f32)
PEAK(peak_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_cvtss_f32)

/* Four 16 x 16 sums, each waiting for itself only; 16 rows of 64 bytes everywhere. */
#define TILE_ROUNDS 50000
#define TILE_PEAK(name, isa, dp)                                                            \
  __attribute__((target(isa))) static void name(void *arg, int64_t piece, int thread) {     \
    (void)arg, (void)thread, (void)piece;                                                   \
    static const tile_config config = {                                                     \
        .palette = 1, .bytes = {64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16}}; \
    _tile_loadconfig(&config);                                                              \
    _tile_zero(0);                                                                          \
    _tile_zero(1);                                                                          \
    _tile_zero(2);                                                                          \
    _tile_zero(3);                                                                          \
    _tile_zero(4);                                                                          \
    _tile_zero(5);                                                                          \
    for (int i = 0; i < TILE_ROUNDS; i++) {                                                 \
      dp(0, 4, 5);                                                                          \
      dp(1, 4, 5);                                                                          \
      dp(2, 4, 5);                                                                          \
      dp(3, 4, 5);                                                                          \
    }                                                                                       \
    _tile_release();                                                                        \
  }
typedef struct tile_config {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} tile_config;
TILE_PEAK(peak_amx_bf16, "amx-tile,amx-bf16", _tile_dpbf16ps)
TILE_PEAK(peak_amx_int8, "amx-tile,amx-int8", _tile_dpbssd)

bench_peak bench_amx_peak(uint32_t isas, bool int8) {
  const double products = 4.0 * TILE_ROUNDS * 2 * 16 * 16;
  if (!(isas >> GA_ISA_amx & 1)) return (bench_peak){0};
  return int8 ? (bench_peak){.run = peak_amx_int8, .flops = products * 64}
              : (bench_peak){.run = peak_amx_bf16, .flops = products * 32};
}

bench_peak bench_peak_for(uint32_t isas) {
  const double chains = 2.0 * CHAINS * ROUNDS;
  if (isas >> GA_ISA_avx512 & 1) return (bench_peak){.run = peak_avx512, .flops = chains * 16};
  if (isas >> GA_ISA_avx2 & 1) return (bench_peak){.run = peak_avx2, .flops = chains * 8};
  return (bench_peak){0};
}
#else
bench_peak bench_amx_peak(uint32_t isas, bool int8) {
  (void)isas, (void)int8;
  return (bench_peak){0};
}
bench_peak bench_peak_for(uint32_t isas) {
  (void)isas;
  return (bench_peak){0};
}
#endif
