/* Element e of a block of GGUF's IQ2, IQ3 and TQ types: their definition. As in ref_dequant.c, d is f16.
 *
 * A point of a grid has the magnitudes of 8 (IQ2) or 4 (IQ3) elements; base/quant_grid_tables.c lists the points. */
#include "base/half.h"
#include "base/quant_grid.h"
#include "ref/ref.h"

typedef const uint8_t *bytes;

static double grid_scale(bytes p) { return (double)ga_f16_to_f32((ga_f16)(p[0] | p[1] << 8)); }
static int nibble_at(bytes p, int i) { return p[i / 2] >> 4 * (i % 2) & 15; }
static int grid_bit(bytes p, int i) { return p[i / 8] >> (i % 8) & 1; }
/* Seven bits from bit 7i on of 4 bytes, and the top four. */
static int seven_at(bytes p, int i) {
  int v = 0;
  for (int k = 0; k < 7; k++) v |= grid_bit(p, 7 * i + k) << k;
  return v;
}
/* Sign j of 8 whose first seven are given: the last makes the number of minuses even. */
static double even_sign(int seven, int j) {
  int minuses = 0;
  for (int k = 0; k < 7; k++) minuses += seven >> k & 1;
  return (j < 7 ? seven >> j & 1 : minuses & 1) ? -1 : 1;
}

static double iq2_value(int point, int j) {
  static const double value[4] = {8, 25, 43, 0};
  return value[point >> 2 * j & 3];
}
static double iq3_xxs_value(int point, int j) {
  static const double value[8] = {4, 12, 20, 28, 36, 44, 52, 62};
  return value[point >> 3 * j & 7];
}

/* d, eight times: places[4], 4 x 7 sign bits with a scale of 4 above them */
static double iq2_xxs(bytes b, int e) {
  const bytes p = b + 2 + 8 * (e / 32);
  const int k = e % 32 / 8, j = e % 8;
  return grid_scale(b) * (0.5 + (p[7] >> 4)) / 4 * iq2_value(ga_iq2_xxs_grid[p[k]], j) *
         even_sign(seven_at(p + 4, k), j);
}

/* d, u16 q[32]: place of 9 bits, signs of 7; scales[8] */
static double iq2_xs(bytes b, int e) {
  const int i = e / 8, j = e % 8, q = b[2 + 2 * i] | b[3 + 2 * i] << 8;
  return grid_scale(b) * (0.5 + nibble_at(b + 66, e / 16)) / 4 * iq2_value(ga_iq2_xs_grid[q & 511], j) *
         even_sign(q >> 9, j);
}

/* d, places[32], signs[32], high bits of places[8], scales[8] */
static double iq2_s(bytes b, int e) {
  const int i = e / 8, place = b[2 + i] | grid_bit(b + 66, 2 * i) << 8 | grid_bit(b + 66, 2 * i + 1) << 9;
  return grid_scale(b) * (0.5 + nibble_at(b + 74, e / 16)) / 4 * iq2_value(ga_iq2_s_grid[place], e % 8) *
         (grid_bit(b + 34, e) ? -1 : 1);
}

/* d, places[64], eight times: 4 x 7 sign bits with a scale of 4 above them */
static double iq3_xxs(bytes b, int e) {
  const bytes p = b + 66 + 4 * (e / 32);
  return grid_scale(b) * (0.5 + (p[3] >> 4)) / 2 * iq3_xxs_value(ga_iq3_xxs_grid[b[2 + e / 4]], e % 4) *
         even_sign(seven_at(p, e % 32 / 8), e % 8);
}

/* d, places[64], high bits of places[8], signs[32], scales[4] */
static double iq3_s(bytes b, int e) {
  const int place = b[2 + e / 4] | grid_bit(b + 66, e / 4) << 8;
  const int magnitude = 2 * (ga_iq3_s_grid[place] >> 3 * (e % 4) & 7) + 1;
  return grid_scale(b) * (1 + 2 * nibble_at(b + 106, e / 32)) * magnitude * (grid_bit(b + 74, e) ? -1 : 1);
}

/* Digit n of base 3 of a byte that holds five of them as ceil(number * 256 / 243). */
static int ternary_digit(int byte, int n) {
  for (; n > 0; n--) byte = byte * 3 & 255;
  return (byte * 3 >> 8) - 1;
}

/* q[32], q[16] of five digits, q[4] of four, d */
static double tq1_0(bytes b, int e) {
  const int q = e < 160   ? ternary_digit(b[e % 32], e / 32)
                : e < 240 ? ternary_digit(b[32 + (e - 160) % 16], (e - 160) / 16)
                          : ternary_digit(b[48 + (e - 240) % 4], (e - 240) / 4);
  return grid_scale(b + 52) * q;
}

/* q[64]: planes of 2 bits of 32 elements; d */
static double tq2_0(bytes b, int e) {
  return grid_scale(b + 64) * ((b[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3) - 1);
}

double ga_ref_load_grid(ga_dtype dtype, const void *block, int e) {
  switch (dtype) {
  case GA_IQ2_XXS: return iq2_xxs(block, e);
  case GA_IQ2_XS: return iq2_xs(block, e);
  case GA_IQ2_S: return iq2_s(block, e);
  case GA_IQ3_XXS: return iq3_xxs(block, e);
  case GA_IQ3_S: return iq3_s(block, e);
  case GA_TQ1_0: return tq1_0(block, e);
  default: return tq2_0(block, e);
  }
}
