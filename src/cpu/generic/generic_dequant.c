/* Any element type to f32, a block at a time. Formulas: src/ref/ref_dequant.c. */
#include <string.h>

#include "base/half.h"
#include "base/quant_grid.h"
#include "cpu/cpu_gemm.h"

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/* e2m1 doubled */
static const int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static float half_at(const uint8_t *p) {
  ga_f16 h;
  memcpy(&h, p, sizeof h);
  return ga_f16_to_f32(h);
}

static void q4_0(const uint8_t *b, float *y) {
  float d = half_at(b);
  for (int j = 0; j < 16; j++) {
    y[j] = d * (float)((b[2 + j] & 15) - 8);
    y[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
  }
}

static void q4_1(const uint8_t *b, float *y) {
  float d = half_at(b), m = half_at(b + 2);
  for (int j = 0; j < 16; j++) {
    y[j] = d * (float)(b[4 + j] & 15) + m;
    y[j + 16] = d * (float)(b[4 + j] >> 4) + m;
  }
}

static void q5(const uint8_t *qh, const uint8_t *qs, float d, float m, float *y) {
  uint32_t high;
  memcpy(&high, qh, sizeof high);
  for (int j = 0; j < 16; j++) {
    y[j] = d * (float)((qs[j] & 15) | (high >> j & 1) << 4) + m;
    y[j + 16] = d * (float)((qs[j] >> 4) | (high >> (j + 16) & 1) << 4) + m;
  }
}

static void q5_0(const uint8_t *b, float *y) { q5(b + 2, b + 6, half_at(b), -16 * half_at(b), y); }
static void q5_1(const uint8_t *b, float *y) { q5(b + 4, b + 8, half_at(b), half_at(b + 2), y); }

static void q8_0(const uint8_t *b, float *y) {
  float d = half_at(b);
  for (int e = 0; e < 32; e++) y[e] = d * (float)(int8_t)b[2 + e];
}

static void table_nibbles(const uint8_t *qs, const int8_t *table, float d, float *y) {
  for (int j = 0; j < 16; j++) {
    y[j] = d * (float)table[qs[j] & 15];
    y[j + 16] = d * (float)table[qs[j] >> 4];
  }
}

static void iq4_nl(const uint8_t *b, float *y) { table_nibbles(b + 2, iq4_values, half_at(b), y); }
/* 2^(e - 128), subnormal for e < 2 */
static void mxfp4(const uint8_t *b, float *y) {
  table_nibbles(b + 1, fp4_values, ga_bits_f32(b[0] < 2 ? 0x00200000u << b[0] : (uint32_t)(b[0] - 1) << 23), y);
}

static void nvfp4(const uint8_t *b, float *y) {
  for (int run = 0; run < 4; run++) {
    float d = (b[run] & 0x7f) == 0x7f ? 0 : 0.5f * ga_e4m3_to_f32(b[run] & 0x7f);
    for (int j = 0; j < 8; j++) {
      y[16 * run + j] = d * (float)fp4_values[b[4 + 8 * run + j] & 15];
      y[16 * run + 8 + j] = d * (float)fp4_values[b[4 + 8 * run + j] >> 4];
    }
  }
}

static void q2_k(const uint8_t *b, float *y) {
  float d = half_at(b + 80), dmin = half_at(b + 82);
  for (int i = 0; i < 16; i++) { /* runs of 16: i = 8 half + 2 plane + which */
    float scale = d * (float)(b[i] & 15), m = dmin * (float)(b[i] >> 4);
    const uint8_t *q = b + 16 + 32 * (i / 8) + 16 * (i & 1);
    for (int l = 0; l < 16; l++) *y++ = scale * (float)(q[l] >> 2 * (i / 2 % 4) & 3) - m;
  }
}

static void q3_k(const uint8_t *b, float *y) {
  const uint8_t *s = b + 96;
  float d = half_at(b + 108);
  for (int i = 0; i < 16; i++) {
    int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4, high = s[8 + (i & 3)] >> 2 * (i >> 2) & 3;
    float scale = d * (float)((low | high << 4) - 32);
    const uint8_t *q = b + 32 + 32 * (i / 8) + 16 * (i & 1), *mask = b + 16 * (i & 1);
    for (int l = 0; l < 16; l++) *y++ = scale * (float)((q[l] >> 2 * (i / 2 % 4) & 3) - (mask[l] >> i / 2 & 1 ? 0 : 4));
  }
}

/* Pair j of the 8 six-bit scales and minimums. */
static void six_bits(const uint8_t *s, int j, int *scale, int *min) {
  *scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
  *min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
}

static void q4_k(const uint8_t *b, float *y) {
  float d = half_at(b), dmin = half_at(b + 2);
  for (int j = 0; j < 8; j++) {
    int scale, min;
    six_bits(b + 4, j, &scale, &min);
    float ds = d * (float)scale, m = dmin * (float)min;
    const uint8_t *q = b + 16 + 32 * (j / 2);
    for (int l = 0; l < 32; l++) *y++ = ds * (float)(q[l] >> 4 * (j & 1) & 15) - m;
  }
}

static void q5_k(const uint8_t *b, float *y) {
  float d = half_at(b), dmin = half_at(b + 2);
  for (int j = 0; j < 8; j++) {
    int scale, min;
    six_bits(b + 4, j, &scale, &min);
    float ds = d * (float)scale, m = dmin * (float)min;
    const uint8_t *q = b + 48 + 32 * (j / 2), *high = b + 16;
    for (int l = 0; l < 32; l++) *y++ = ds * (float)((q[l] >> 4 * (j & 1) & 15) | (high[l] >> j & 1) << 4) - m;
  }
}

static void q6_k(const uint8_t *b, float *y) {
  float d = half_at(b + 208);
  for (int i = 0; i < 16; i++) { /* runs of 16: i = 8 half + 2 plane + which */
    int plane = i / 2 % 4;
    const uint8_t *low = b + 64 * (i / 8) + 32 * (plane & 1) + 16 * (i & 1),
                  *high = b + 128 + 32 * (i / 8) + 16 * (i & 1);
    float scale = d * (float)(int8_t)b[192 + i];
    for (int l = 0; l < 16; l++)
      *y++ = scale * (float)(((low[l] >> 4 * (plane / 2) & 15) | (high[l] >> 2 * plane & 3) << 4) - 32);
  }
}

static void iq4_xs(const uint8_t *b, float *y) {
  float d = half_at(b);
  int high = b[2] | b[3] << 8;
  for (int j = 0; j < 8; j++) {
    int scale = (b[4 + j / 2] >> 4 * (j & 1) & 15) | (high >> 2 * j & 3) << 4;
    table_nibbles(b + 8 + 16 * j, iq4_values, d * (float)(scale - 32), y + 32 * j);
  }
}

/* Codes have no NaN: its place is a number. */
static void e4m3_128(const uint8_t *b, float *y) {
  float d;
  memcpy(&d, b, sizeof d);
  for (int e = 0; e < 128; e++) {
    const uint8_t c = b[4 + e];
    y[e] = d * ((c & 127) < 127 ? ga_e4m3_to_f32(c) : c & 128 ? -480.0f : 480.0f);
  }
}

static void grid(ga_dtype dtype, const uint8_t *b, int64_t n, float *y) {
  int8_t code[GA_GRID_BLOCK];
  float scale[GA_GRID_RUNS];
  for (; n >= GA_GRID_BLOCK; n -= GA_GRID_BLOCK, b += ga_dtype_info(dtype)->block_bytes, y += GA_GRID_BLOCK) {
    ga_grid_codes(dtype, b, code, scale);
    for (int e = 0; e < GA_GRID_BLOCK; e++) y[e] = scale[e / GA_GRID_RUN] * (float)code[e];
  }
}

#define EACH_BLOCK(fn, elems, bytes) \
  for (int64_t i = 0; i < n / (elems); i++) fn(p + i * (bytes), dst + i * (elems))
#define EACH(expr) \
  for (int64_t i = 0; i < n; i++) dst[i] = (expr)

void ga_cpu_dequantise(ga_dtype dtype, const void *src, int64_t n, float *dst) {
  const uint8_t *p = src;
  if (n == 0) return; /* then dst may be no memory at all */
  switch (dtype) {
  case GA_F32: memcpy(dst, src, (size_t)n * sizeof *dst); break;
  case GA_F16: EACH(ga_f16_to_f32(((const ga_f16 *)src)[i])); break;
  case GA_BF16: EACH(ga_bf16_to_f32(((const ga_bf16 *)src)[i])); break;
  case GA_F64: EACH((float)((const double *)src)[i]); break;
  case GA_I8: EACH((float)((const int8_t *)src)[i]); break;
  case GA_I16: EACH((float)((const int16_t *)src)[i]); break;
  case GA_I32: EACH((float)((const int32_t *)src)[i]); break;
  case GA_I64: EACH((float)((const int64_t *)src)[i]); break;
  case GA_U8: EACH((float)p[i]); break;
  case GA_E4M3: EACH(ga_e4m3_to_f32(p[i])); break;
  case GA_E5M2: EACH(ga_e5m2_to_f32(p[i])); break;
  case GA_Q4_0: EACH_BLOCK(q4_0, 32, 18); break;
  case GA_Q4_1: EACH_BLOCK(q4_1, 32, 20); break;
  case GA_Q5_0: EACH_BLOCK(q5_0, 32, 22); break;
  case GA_Q5_1: EACH_BLOCK(q5_1, 32, 24); break;
  case GA_Q8_0: EACH_BLOCK(q8_0, 32, 34); break;
  case GA_Q2_K: EACH_BLOCK(q2_k, 256, 84); break;
  case GA_Q3_K: EACH_BLOCK(q3_k, 256, 110); break;
  case GA_Q4_K: EACH_BLOCK(q4_k, 256, 144); break;
  case GA_Q5_K: EACH_BLOCK(q5_k, 256, 176); break;
  case GA_Q6_K: EACH_BLOCK(q6_k, 256, 210); break;
  case GA_IQ4_NL: EACH_BLOCK(iq4_nl, 32, 18); break;
  case GA_IQ4_XS: EACH_BLOCK(iq4_xs, 256, 136); break;
  case GA_MXFP4: EACH_BLOCK(mxfp4, 32, 17); break;
  case GA_NVFP4: EACH_BLOCK(nvfp4, 64, 36); break;
  case GA_E4M3_128: EACH_BLOCK(e4m3_128, 128, 132); break;
  case GA_IQ2_XXS:
  case GA_IQ2_XS:
  case GA_IQ2_S:
  case GA_IQ3_XXS:
  case GA_IQ3_S:
  case GA_TQ1_0:
  case GA_TQ2_0: grid(dtype, src, n, dst); break;
  default: break;
  }
}
