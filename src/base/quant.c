#include "base/quant.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/quant_pack.h"

static float get_f16(const uint8_t *p) { return ga_f16_to_f32((ga_f16)(p[0] | p[1] << 8)); }

static int clamp_round(float x, int low, int high) {
  if (!(x > (float)low)) return low; /* NaN of 0 * inf too */
  return x >= (float)high ? high : (int)lrintf(x);
}
static float inverse(float x) { return x != 0 ? 1 / x : 0; }

/* The element of largest magnitude, with its sign. */
static float signed_max(const float *x, int n) {
  float best = 0;
  for (int i = 0; i < n; i++)
    if (fabsf(x[i]) > fabsf(best)) best = x[i];
  return best;
}

/* Scale and (non-positive) minimum of n elements on 0..levels. */
static float value_range(const float *x, int n, int levels, bool below_zero, float *low) {
  float lo = below_zero ? 0 : x[0], hi = lo;
  for (int i = 0; i < n; i++) {
    lo = fminf(lo, x[i]);
    hi = fmaxf(hi, x[i]);
  }
  *low = lo;
  return (hi - lo) / (float)levels;
}

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static int nearest_iq4(float x) {
  int best = 0;
  for (int i = 1; i < 16; i++)
    if (fabsf(x - (float)iq4_values[i]) < fabsf(x - (float)iq4_values[best])) best = i;
  return best;
}

/* --- blocks of 32 --- */

static void quantise_q4_0(const float *x, uint8_t *b) {
  int q[32];
  ga_pack_f16(b, signed_max(x, 32) / -8);
  float id = inverse(get_f16(b));
  for (int e = 0; e < 32; e++) q[e] = clamp_round(x[e] * id + 8, 0, 15);
  ga_pack_nibbles(b + 2, q);
}

static void quantise_q5_0(const float *x, uint8_t *b) {
  int q[32];
  ga_pack_f16(b, signed_max(x, 32) / -16);
  float id = inverse(get_f16(b));
  for (int e = 0; e < 32; e++) q[e] = clamp_round(x[e] * id + 16, 0, 31);
  ga_pack_five(b + 2, b + 6, q);
}

static void quantise_min(const float *x, uint8_t *b, int levels, int *q) {
  float low;
  ga_pack_f16(b, value_range(x, 32, levels, false, &low));
  ga_pack_f16(b + 2, low);
  float id = inverse(get_f16(b)), m = get_f16(b + 2);
  for (int e = 0; e < 32; e++) q[e] = clamp_round((x[e] - m) * id, 0, levels);
}

static void quantise_q4_1(const float *x, uint8_t *b) {
  int q[32];
  quantise_min(x, b, 15, q);
  ga_pack_nibbles(b + 4, q);
}

static void quantise_q5_1(const float *x, uint8_t *b) {
  int q[32];
  quantise_min(x, b, 31, q);
  ga_pack_five(b + 4, b + 8, q);
}

static void quantise_q8_0(const float *x, uint8_t *b) {
  ga_pack_f16(b, fabsf(signed_max(x, 32)) / 127);
  float id = inverse(get_f16(b));
  for (int e = 0; e < 32; e++) b[2 + e] = (uint8_t)(int8_t)clamp_round(x[e] * id, -127, 127);
}

static void quantise_iq4_nl(const float *x, uint8_t *b) {
  int q[32];
  ga_pack_f16(b, signed_max(x, 32) / -127);
  float id = inverse(get_f16(b));
  for (int e = 0; e < 32; e++) q[e] = nearest_iq4(x[e] * id);
  ga_pack_nibbles(b + 2, q);
}

/* The shared exponent is that of the largest element less 2, the largest exponent of e2m1 (OCP MX 1.0, 6.3). */
static void quantise_mxfp4(const float *x, uint8_t *b) {
  int q[32], exponent = 0;
  float most = fabsf(signed_max(x, 32));
  (void)frexpf(most, &exponent);
  exponent = most > 0 ? exponent - 1 - 2 + 127 : 0;
  b[0] = (uint8_t)(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent);
  for (int e = 0; e < 32; e++) q[e] = ga_f32_to_e2m1(ldexpf(x[e], 127 - b[0]));
  ga_pack_nibbles(b + 1, q);
}

/* --- block of 64 --- */

static void quantise_nvfp4(const float *x, uint8_t *b) {
  for (int run = 0; run < 4; run++, x += 16) {
    uint8_t s = ga_f32_to_e4m3(fabsf(signed_max(x, 16)) / 6);
    b[run] = s;
    float id = inverse(ga_e4m3_to_f32(s));
    for (int j = 0; j < 8; j++)
      b[4 + 8 * run + j] = (uint8_t)(ga_f32_to_e2m1(x[j] * id) | ga_f32_to_e2m1(x[j + 8] * id) << 4);
  }
}

/* --- block of 128: a scale of f32, then codes whose largest is 448 --- */

static void quantise_e4m3_128(const float *x, uint8_t *b) {
  const float d = fabsf(signed_max(x, 128)) / 448, id = inverse(d);
  memcpy(b, &d, sizeof d);
  for (int e = 0; e < 128; e++) b[4 + e] = isfinite(id) ? ga_f32_to_e4m3(x[e] * id) : 0;
}

/* --- blocks of 256 --- */

/* Codes 0..levels of runs of `run` elements, with scales and minimums of 0..limit units of d and dmin. */
static void k_minimum(const float *x, int run, int levels, int limit, uint8_t *d, uint8_t *dmin, int *sc, int *mn,
                      int *q) {
  float scale[16], low[16], most = 0, least = 0;
  int runs = 256 / run;
  for (int i = 0; i < runs; i++) {
    scale[i] = value_range(x + i * run, run, levels, true, &low[i]);
    most = fmaxf(most, scale[i]);
    least = fminf(least, low[i]);
  }
  ga_pack_f16(d, most / (float)limit);
  ga_pack_f16(dmin, -least / (float)limit);
  float id = inverse(get_f16(d)), im = inverse(get_f16(dmin));
  for (int i = 0; i < runs; i++) {
    sc[i] = clamp_round(scale[i] * id, 0, limit);
    mn[i] = clamp_round(-low[i] * im, 0, limit);
    float inv = inverse(get_f16(d) * (float)sc[i]), m = get_f16(dmin) * (float)mn[i];
    for (int e = i * run; e < (i + 1) * run; e++) q[e] = clamp_round((x[e] + m) * inv, 0, levels);
  }
}

/* Codes -half..half-1 of runs of 16, with scales of -limit..limit-1 units of d. */
static void k_signed(const float *x, int half, int limit, uint8_t *d, int *sc, int *q) {
  float scale[16];
  for (int i = 0; i < 16; i++) scale[i] = signed_max(x + 16 * i, 16) / (float)-half;
  ga_pack_f16(d, signed_max(scale, 16) / (float)-limit);
  float id = inverse(get_f16(d));
  for (int i = 0; i < 16; i++) {
    sc[i] = clamp_round(scale[i] * id, -limit, limit - 1);
    float inv = inverse(get_f16(d) * (float)sc[i]);
    for (int e = 16 * i; e < 16 * i + 16; e++) q[e] = clamp_round(x[e] * inv, -half, half - 1);
  }
}

static void quantise_q2_k(const float *x, uint8_t *b) {
  int sc[16], mn[16], q[256];
  k_minimum(x, 16, 3, 15, b + 80, b + 82, sc, mn, q);
  ga_pack_q2_k(b, sc, mn, q);
}

static void quantise_q3_k(const float *x, uint8_t *b) {
  int sc[16], q[256];
  k_signed(x, 4, 32, b + 108, sc, q);
  ga_pack_q3_k(b, sc, q);
}

static void quantise_q4_k(const float *x, uint8_t *b) {
  int sc[8], mn[8], q[256];
  k_minimum(x, 32, 15, 63, b, b + 2, sc, mn, q);
  ga_pack_q4_k(b, sc, mn, q);
}

static void quantise_q5_k(const float *x, uint8_t *b) {
  int sc[8], mn[8], q[256];
  k_minimum(x, 32, 31, 63, b, b + 2, sc, mn, q);
  ga_pack_q5_k(b, sc, mn, q);
}

static void quantise_q6_k(const float *x, uint8_t *b) {
  int sc[16], q[256];
  k_signed(x, 32, 128, b + 208, sc, q);
  ga_pack_q6_k(b, sc, q);
}

static void quantise_iq4_xs(const float *x, uint8_t *b) {
  float scale[8];
  int sc[8], q[256];
  for (int i = 0; i < 8; i++) scale[i] = signed_max(x + 32 * i, 32) / -127;
  ga_pack_f16(b, signed_max(scale, 8) / -32);
  float id = inverse(get_f16(b));
  for (int i = 0; i < 8; i++) {
    sc[i] = clamp_round(scale[i] * id, -32, 31);
    float inv = inverse(get_f16(b) * (float)sc[i]);
    for (int e = 32 * i; e < 32 * i + 32; e++) q[e] = nearest_iq4(x[e] * inv);
  }
  ga_pack_iq4_xs(b, sc, q);
}

void ga_quantise_block(ga_dtype dtype, const float *source, void *block) {
  float x[GA_QUANT_MAX_BLOCK];
  int n = ga_dtype_info(dtype)->block_elems;
  for (int i = 0; i < n; i++) x[i] = isfinite(source[i]) ? source[i] : 0;
  switch (dtype) {
  case GA_Q4_0: quantise_q4_0(x, block); break;
  case GA_Q4_1: quantise_q4_1(x, block); break;
  case GA_Q5_0: quantise_q5_0(x, block); break;
  case GA_Q5_1: quantise_q5_1(x, block); break;
  case GA_Q8_0: quantise_q8_0(x, block); break;
  case GA_Q2_K: quantise_q2_k(x, block); break;
  case GA_Q3_K: quantise_q3_k(x, block); break;
  case GA_Q4_K: quantise_q4_k(x, block); break;
  case GA_Q5_K: quantise_q5_k(x, block); break;
  case GA_Q6_K: quantise_q6_k(x, block); break;
  case GA_IQ4_NL: quantise_iq4_nl(x, block); break;
  case GA_IQ4_XS: quantise_iq4_xs(x, block); break;
  case GA_MXFP4: quantise_mxfp4(x, block); break;
  case GA_NVFP4: quantise_nvfp4(x, block); break;
  case GA_E4M3_128: quantise_e4m3_128(x, block); break;
  default: break;
  }
}
