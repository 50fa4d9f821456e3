#include "quant/halves.h"

#include <string.h>

#include "base/compiler.h"
#include "base/half.h"

/* What may lie at odd addresses goes through an array of so many. */
enum { PART = 64 };

static inline uint16_t f16_of(float x) {
  const uint32_t u = ga_f32_bits(x), a = u & 0x7fffffff;
  const uint32_t small = ga_f32_bits(ga_bits_f32(a) + 0.5f) - 0x3f000000; /* below 2^-14 */
  const uint32_t normal = (a + 0xc8000fff + ((a >> 13) & 1)) >> 13;
  const uint32_t large = a > 0x7f800000 ? 0x7e00 : 0x7c00; /* from 65520 on: infinite */
  return (uint16_t)((a < 0x38800000 ? small : a < 0x477ff000 ? normal : large) | ((u >> 16) & 0x8000));
}

static inline uint16_t rounded_to_bf16(float x) {
  const uint32_t u = ga_f32_bits(x);
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static inline float float_of_f16(uint16_t h) {
  const uint32_t a = h & 0x7fff, normal = (a << 13) + 0x38000000, large = a << 13 | 0x7f800000;
  const uint32_t small = ga_f32_bits(ga_bits_f32(a | 0x3f000000) - 0.5f);
  return ga_bits_f32((a < 0x400 ? small : a < 0x7c00 ? normal : large) | (uint32_t)(h & 0x8000) << 16);
}

static GA_CLONES void put_floats_to_f16(const float *x, int64_t n, void *y) {
  uint16_t part[PART];
  for (int64_t i = 0; i < n; i += PART) {
    const int64_t m = n - i < PART ? n - i : PART;
    for (int64_t k = 0; k < m; k++) part[k] = f16_of(x[i + k]);
    memcpy((uint8_t *)y + 2 * i, part, (size_t)m * 2);
  }
}

static GA_CLONES void put_floats_to_bf16(const float *x, int64_t n, void *y) {
  uint16_t part[PART];
  for (int64_t i = 0; i < n; i += PART) {
    const int64_t m = n - i < PART ? n - i : PART;
    for (int64_t k = 0; k < m; k++) part[k] = rounded_to_bf16(x[i + k]);
    memcpy((uint8_t *)y + 2 * i, part, (size_t)m * 2);
  }
}

static GA_CLONES void put_f16_to_floats(const void *x, int64_t n, float *y) {
  uint16_t part[PART];
  for (int64_t i = 0; i < n; i += PART) {
    const int64_t m = n - i < PART ? n - i : PART;
    memcpy(part, (const uint8_t *)x + 2 * i, (size_t)m * 2);
    for (int64_t k = 0; k < m; k++) y[i + k] = float_of_f16(part[k]);
  }
}

static GA_CLONES void put_bf16_to_floats(const void *x, int64_t n, float *y) {
  uint16_t part[PART];
  for (int64_t i = 0; i < n; i += PART) {
    const int64_t m = n - i < PART ? n - i : PART;
    memcpy(part, (const uint8_t *)x + 2 * i, (size_t)m * 2);
    for (int64_t k = 0; k < m; k++) y[i + k] = ga_bits_f32((uint32_t)part[k] << 16);
  }
}

/* Compilers export what they clone: so these are not. */
void quant_floats_to_f16(const float *x, int64_t n, void *y) { put_floats_to_f16(x, n, y); }
void quant_floats_to_bf16(const float *x, int64_t n, void *y) { put_floats_to_bf16(x, n, y); }
void quant_f16_to_floats(const void *x, int64_t n, float *y) { put_f16_to_floats(x, n, y); }
void quant_bf16_to_floats(const void *x, int64_t n, float *y) { put_bf16_to_floats(x, n, y); }
