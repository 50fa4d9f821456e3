/* Element e of a block, as a double: the definition of every block type of GGUF, and of e4m3_128.
 *
 * Blocks are little-endian bytes; d, m and dmin are f16 unless said otherwise. lo and hi are the nibbles of a byte.
 * tests/test_quant.c compares these formulas with vectors made by another implementation. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ref/ref.h"

typedef const uint8_t *bytes;

static double f16_at(bytes p) { return (double)ga_f16_to_f32((ga_f16)(p[0] | p[1] << 8)); }
/* Nibbles of 16 bytes hold 32 elements: the low ones first. */
static int nibble(bytes qs, int e) { return e < 16 ? qs[e] & 15 : qs[e - 16] >> 4; }
static int bit(bytes p, int i) { return p[i / 8] >> (i % 8) & 1; }

/* Values of the 4-bit non-linear types, and of e2m1 doubled. */
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* --- blocks of 32 --- */
/* d, qs[16] */
static double q4_0(bytes b, int e) { return f16_at(b) * (nibble(b + 2, e) - 8); }
/* d, m, qs[16] */
static double q4_1(bytes b, int e) { return f16_at(b) * nibble(b + 4, e) + f16_at(b + 2); }
/* d, qh[4], qs[16] */
static double q5_0(bytes b, int e) { return f16_at(b) * ((nibble(b + 6, e) | bit(b + 2, e) << 4) - 16); }
/* d, m, qh[4], qs[16] */
static double q5_1(bytes b, int e) { return f16_at(b) * (nibble(b + 8, e) | bit(b + 4, e) << 4) + f16_at(b + 2); }
/* d, i8 qs[32] */
static double q8_0(bytes b, int e) { return f16_at(b) * (int8_t)b[2 + e]; }
/* d, qs[16] */
static double iq4_nl(bytes b, int e) { return f16_at(b) * iq4_values[nibble(b + 2, e)]; }
/* exponent, qs[16]: 2^(e - 127) * e2m1 */
static double mxfp4(bytes b, int e) { return ldexp(fp4_values[nibble(b + 1, e)], b[0] - 128); }

/* --- block of 64: four unsigned e4m3 scales, qs[32]; runs of 16 elements share a scale and 8 bytes --- */
static double nvfp4(bytes b, int e) {
  uint8_t s = b[e / 16] & 0x7f; /* unsigned: the sign bit means nothing; 0x7f is 0 */
  double d = s == 0x7f || s == 0 ? 0 : (s >> 3 & 15) ? ldexp(8 + (s & 7), (s >> 3 & 15) - 10) : ldexp(s & 7, -9);
  uint8_t q = b[4 + e / 16 * 8 + e % 8];
  return d * 0.5 * fp4_values[e % 16 < 8 ? q & 15 : q >> 4];
}

/* --- block of 128: d as f32, e4m3 codes[128], which are all numbers: 0x7f is 480 --- */
static double e4m3_128(bytes b, int e) {
  float d;
  const int code = b[4 + e], exponent = code >> 3 & 15, m = code & 7;
  memcpy(&d, b, sizeof d);
  const double size = exponent ? ldexp(8 + m, exponent - 10) : ldexp(m, -9);
  return (double)d * (code & 128 ? -size : size);
}

/* --- blocks of 256 --- */
/* Scale (part 0) and min (part 1) j of the 8 pairs of 6 bits in s[12] of q4_k and q5_k. */
static int six_bits(bytes s, int j, int part) {
  if (j < 4) return s[j + 4 * part] & 63;
  return (part ? s[j + 4] >> 4 : s[j + 4] & 15) | (s[j - 4 + 4 * part] >> 6) << 4;
}

/* scales[16], qs[64], d, dmin: planes of 2 bits, a scale and a min for 16 elements */
static double q2_k(bytes b, int e) {
  int h = e / 128, j = e % 128 / 32, l = e % 32, s = b[8 * h + 2 * j + l / 16];
  return f16_at(b + 80) * (s & 15) * (b[16 + 32 * h + l] >> 2 * j & 3) - f16_at(b + 82) * (s >> 4);
}

/* hmask[32], qs[64], scales[12], d */
static double q3_k(bytes b, int e) {
  int h = e / 128, j = e % 128 / 32, l = e % 32, i = 8 * h + 2 * j + l / 16;
  bytes s = b + 96;
  int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4, high = s[8 + (i & 3)] >> 2 * (i >> 2) & 3;
  int q = (b[32 + 32 * h + l] >> 2 * j & 3) - (b[l] >> (4 * h + j) & 1 ? 0 : 4);
  return f16_at(b + 108) * ((low | high << 4) - 32) * q;
}

/* d, dmin, scales[12], qs[128] */
static double q4_k(bytes b, int e) {
  int sub = e / 32, q = b[16 + 32 * (e / 64) + e % 32];
  q = e % 64 < 32 ? q & 15 : q >> 4;
  return f16_at(b) * six_bits(b + 4, sub, 0) * q - f16_at(b + 2) * six_bits(b + 4, sub, 1);
}

/* d, dmin, scales[12], qh[32], qs[128] */
static double q5_k(bytes b, int e) {
  int sub = e / 32, q = b[48 + 32 * (e / 64) + e % 32];
  q = (e % 64 < 32 ? q & 15 : q >> 4) | (b[16 + e % 32] >> sub & 1) << 4;
  return f16_at(b) * six_bits(b + 4, sub, 0) * q - f16_at(b + 2) * six_bits(b + 4, sub, 1);
}

/* ql[128], qh[64], i8 scales[16], d */
static double q6_k(bytes b, int e) {
  int h = e / 128, k = e % 128 / 32, l = e % 32, q = b[64 * h + 32 * (k & 1) + l];
  q = ((k < 2 ? q & 15 : q >> 4) | (b[128 + 32 * h + l] >> 2 * k & 3) << 4) - 32;
  return f16_at(b + 208) * (int8_t)b[192 + 8 * h + 2 * k + l / 16] * q;
}

/* d, u16 scales_h, scales_l[4], qs[128] */
static double iq4_xs(bytes b, int e) {
  int sub = e / 32, high = b[2] | b[3] << 8;
  int scale = (b[4 + sub / 2] >> 4 * (sub & 1) & 15) | (high >> 2 * sub & 3) << 4;
  return f16_at(b) * (scale - 32) * iq4_values[nibble(b + 8 + 16 * sub, e % 32)];
}

double ga_ref_load_block(ga_dtype dtype, const void *block, int e) {
  switch (dtype) {
  case GA_Q4_0: return q4_0(block, e);
  case GA_Q4_1: return q4_1(block, e);
  case GA_Q5_0: return q5_0(block, e);
  case GA_Q5_1: return q5_1(block, e);
  case GA_Q8_0: return q8_0(block, e);
  case GA_Q2_K: return q2_k(block, e);
  case GA_Q3_K: return q3_k(block, e);
  case GA_Q4_K: return q4_k(block, e);
  case GA_Q5_K: return q5_k(block, e);
  case GA_Q6_K: return q6_k(block, e);
  case GA_IQ4_NL: return iq4_nl(block, e);
  case GA_IQ4_XS: return iq4_xs(block, e);
  case GA_MXFP4: return mxfp4(block, e);
  case GA_NVFP4: return nvfp4(block, e);
  case GA_E4M3_128: return e4m3_128(block, e);
  case GA_IQ2_XXS:
  case GA_IQ2_XS:
  case GA_IQ2_S:
  case GA_IQ3_XXS:
  case GA_IQ3_S:
  case GA_TQ1_0:
  case GA_TQ2_0: return ga_ref_load_grid(dtype, block, e);
  default: return (double)NAN;
  }
}
