/* The arithmetic of products: 16-bit values to float, and 64 x n += 64 x 16 by 16 x n. f32 sums in order of k; the hardware adds the 16
 * products of a step with one rounding, so results agree to within f32 rounding, not bitwise. */
#include <string.h>

#include "emu/machine.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("fp-contract=fast")))
#else
#define FAST
#endif

static inline float from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fffu;
  uint32_t u = rest << 13;
  float x;
  if (rest >= 0x7c00) {
    u |= 0x7f800000;
  } else if (rest >= 0x0400) {
    u += (127u - 15u) << 23;
  } else { /* subnormal: an integer times 2^-24 */
    x = (float)rest * 0x1p-24f;
    memcpy(&u, &x, 4);
  }
  u |= sign;
  memcpy(&x, &u, 4);
  return x;
}

static inline float from_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}

/* in: n contiguous values; out: every stride-th place. */
void emu_decode_16(int type, float *out, const uint16_t *in, int n, int stride) {
  if (type == EMU_WGMMA_F16)
    for (int i = 0; i < n; i++) out[i * stride] = from_f16(in[i]);
  else
    for (int i = 0; i < n; i++) out[i * stride] = from_bf16(in[i]);
}

/* Blocks of 4 rows by 16 columns of c stay in registers over the 16 steps of k. */
FAST void emu_multiply(float *restrict c, const float *restrict a, const float *restrict b, int n) {
  for (int j = 0; j + 16 <= n; j += 16)
    for (int r = 0; r < 64; r += 4) {
      float t[4][16];
      for (int i = 0; i < 4; i++)
        for (int x = 0; x < 16; x++) t[i][x] = c[(r + i) * n + j + x];
      for (int k = 0; k < 16; k++)
        for (int i = 0; i < 4; i++)
          for (int x = 0; x < 16; x++) t[i][x] += a[(r + i) * 16 + k] * b[k * n + j + x];
      for (int i = 0; i < 4; i++)
        for (int x = 0; x < 16; x++) c[(r + i) * n + j + x] = t[i][x];
    }
  for (int j = n / 16 * 16; j < n; j++)
    for (int r = 0; r < 64; r++)
      for (int k = 0; k < 16; k++) c[r * n + j] += a[r * 16 + k] * b[k * n + j];
}
