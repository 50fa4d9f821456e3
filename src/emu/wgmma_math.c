/* The arithmetic of products: 16-bit values to float, and 64 x n += 64 x 16 by 16 x n. f32 sums in order of k; the hardware adds the 16
 * products of a step with one rounding, so results agree to within f32 rounding, not bitwise. */
#include <math.h>
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

/* 8-bit floats: e4m3 has no infinity and one NaN (Micikevicius et al. 2022), e5m2 is the upper half of an f16. */
static inline float from_e4m3(uint8_t v) {
  float x = v & 0x78 ? ldexpf((float)(8 + (v & 7)), (v >> 3 & 15) - 10) : ldexpf((float)(v & 7), -9);
  if ((v & 0x7f) == 0x7f) x = NAN;
  return v & 0x80 ? -x : x;
}
static const float *table(int type) {
  static float tables[3][256];
  static bool made;
  for (int i = 0; !made && i < 256; i++) {
    tables[0][i] = from_e4m3((uint8_t)i);
    tables[1][i] = from_f16((uint16_t)(i << 8));
    tables[2][i] = (float)(int8_t)i;
  }
  made = true;
  return tables[type == EMU_WGMMA_E4M3 ? 0 : type == EMU_WGMMA_E5M2 ? 1 : 2];
}

int emu_bytes_of(int type) { return type <= EMU_WGMMA_F16 ? 2 : type == EMU_WGMMA_TF32 ? 4 : 1; }

/* in: n contiguous values; out: every stride-th place. */
void emu_decode(int type, float *out, const void *in, int n, int stride) {
  const uint16_t *h = in;
  const uint8_t *b = in;
  if (type == EMU_WGMMA_F16) {
    for (int i = 0; i < n; i++) out[i * stride] = from_f16(h[i]);
  } else if (type == EMU_WGMMA_BF16) {
    for (int i = 0; i < n; i++) out[i * stride] = from_bf16(h[i]);
  } else if (type == EMU_WGMMA_TF32) {
    for (int i = 0; i < n; i++) {
      uint32_t u = ((const uint32_t *)in)[i] & ~0x1fffu;
      memcpy(&out[i * stride], &u, 4);
    }
  } else {
    const float *t = table(type);
    for (int i = 0; i < n; i++) out[i * stride] = t[b[i]];
  }
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
