#include "base/quant_grid.h"

#include "base/half.h"

static const int8_t iq2_value[4] = {8, 25, 43, 0};
static const int8_t iq3_xxs_value[8] = {4, 12, 20, 28, 36, 44, 52, 62};

static float grid_half(const uint8_t *p) { return ga_f16_to_f32((ga_f16)(p[0] | p[1] << 8)); }
static uint32_t grid_word(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Signs of eight elements from seven bits: an even number of them is negative. */
static unsigned even_signs(unsigned seven) {
  const unsigned folded = seven ^ seven >> 4, pairs = folded ^ folded >> 2;
  return seven | ((pairs ^ pairs >> 1) & 1) << 7;
}

static void put_iq2(unsigned point, unsigned signs, int8_t *code) {
  for (int j = 0; j < 8; j++) {
    const int8_t v = iq2_value[point >> 2 * j & 3];
    code[j] = (int8_t)(signs >> j & 1 ? -v : v);
  }
}

static void put_iq3_xxs(unsigned point, unsigned signs, int8_t *code) {
  for (int j = 0; j < 4; j++) {
    const int8_t v = iq3_xxs_value[point >> 3 * j & 7];
    code[j] = (int8_t)(signs >> j & 1 ? -v : v);
  }
}

static void put_iq3_s(unsigned point, unsigned signs, int8_t *code) {
  for (int j = 0; j < 4; j++) {
    const int v = 2 * (int)(point >> 3 * j & 7) + 1;
    code[j] = (int8_t)(signs >> j & 1 ? -v : v);
  }
}

/* d, then for 32 elements: four places in the grid, 4 x 7 bits of signs and 4 of the scale. */
static void codes_iq2_xxs(const uint8_t *b, int8_t *code, float *scale) {
  for (int i = 0; i < 8; i++) {
    const uint8_t *p = b + 2 + 8 * i;
    const uint32_t rest = grid_word(p + 4);
    scale[2 * i] = scale[2 * i + 1] = grid_half(b) * (0.5f + (float)(rest >> 28)) * 0.25f;
    for (int k = 0; k < 4; k++) put_iq2(ga_iq2_xxs_grid[p[k]], even_signs(rest >> 7 * k & 127), code + 32 * i + 8 * k);
  }
}

/* d, 32 x (9 bits of a place, 7 of signs), 16 scales of 4 bits. */
static void codes_iq2_xs(const uint8_t *b, int8_t *code, float *scale) {
  for (int i = 0; i < 16; i++) scale[i] = grid_half(b) * (0.5f + (float)(b[66 + i / 2] >> 4 * (i & 1) & 15)) * 0.25f;
  for (int i = 0; i < 32; i++) {
    const unsigned q = b[2 + 2 * i] | (unsigned)b[3 + 2 * i] << 8;
    put_iq2(ga_iq2_xs_grid[q & 511], even_signs(q >> 9), code + 8 * i);
  }
}

/* d, 32 low bytes of places, 32 bytes of signs, 32 x 2 high bits, 16 scales of 4 bits. */
static void codes_iq2_s(const uint8_t *b, int8_t *code, float *scale) {
  for (int i = 0; i < 16; i++) scale[i] = grid_half(b) * (0.5f + (float)(b[74 + i / 2] >> 4 * (i & 1) & 15)) * 0.25f;
  for (int i = 0; i < 32; i++) {
    const unsigned place = b[2 + i] | ((unsigned)b[66 + i / 4] >> 2 * (i % 4) & 3) << 8;
    put_iq2(ga_iq2_s_grid[place], b[34 + i], code + 8 * i);
  }
}

/* d, 64 places, then for 32 elements 4 x 7 bits of signs and 4 of the scale. */
static void codes_iq3_xxs(const uint8_t *b, int8_t *code, float *scale) {
  for (int i = 0; i < 8; i++) {
    const uint32_t rest = grid_word(b + 66 + 4 * i);
    scale[2 * i] = scale[2 * i + 1] = grid_half(b) * (0.5f + (float)(rest >> 28)) * 0.5f;
    for (int k = 0; k < 8; k++) {
      const unsigned signs = even_signs(rest >> 7 * (k / 2) & 127) >> 4 * (k & 1);
      put_iq3_xxs(ga_iq3_xxs_grid[b[2 + 8 * i + k]], signs, code + 32 * i + 4 * k);
    }
  }
}

/* d, 64 low bytes of places, 64 high bits, 32 bytes of signs, 8 scales of 4 bits. */
static void codes_iq3_s(const uint8_t *b, int8_t *code, float *scale) {
  for (int i = 0; i < 8; i++)
    scale[2 * i] = scale[2 * i + 1] = grid_half(b) * (float)(1 + 2 * (b[106 + i / 2] >> 4 * (i & 1) & 15));
  for (int i = 0; i < 64; i++) {
    const unsigned place = b[2 + i] | ((unsigned)b[66 + i / 8] >> i % 8 & 1) << 8;
    put_iq3_s(ga_iq3_s_grid[place], (unsigned)b[74 + i / 2] >> 4 * (i & 1), code + 4 * i);
  }
}

/* Digit n of a byte of base-3 digits, the first one highest; a byte is the number's fraction of 243, rounded up. */
static int8_t ternary_code(unsigned byte, int n) {
  static const uint8_t power[5] = {1, 3, 9, 27, 81};
  return (int8_t)(((byte * power[n] & 255) * 3 >> 8) - 1);
}

/* 32 and 16 bytes of five digits, 4 of four, d. */
static void codes_tq1_0(const uint8_t *b, int8_t *code, float *scale) {
  for (int e = 0; e < 160; e++) code[e] = ternary_code(b[e % 32], e / 32);
  for (int e = 0; e < 80; e++) code[160 + e] = ternary_code(b[32 + e % 16], e / 16);
  for (int e = 0; e < 16; e++) code[240 + e] = ternary_code(b[48 + e % 4], e / 4);
  for (int i = 0; i < GA_GRID_RUNS; i++) scale[i] = grid_half(b + 52);
}

/* 2 x 32 bytes of four codes, d. */
static void codes_tq2_0(const uint8_t *b, int8_t *code, float *scale) {
  for (int e = 0; e < GA_GRID_BLOCK; e++)
    code[e] = (int8_t)((b[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3) - 1);
  for (int i = 0; i < GA_GRID_RUNS; i++) scale[i] = grid_half(b + 64);
}

void ga_grid_codes(ga_dtype dtype, const uint8_t *block, int8_t code[GA_GRID_BLOCK], float scale[GA_GRID_RUNS]) {
  switch (dtype) {
  case GA_IQ2_XXS: codes_iq2_xxs(block, code, scale); break;
  case GA_IQ2_XS: codes_iq2_xs(block, code, scale); break;
  case GA_IQ2_S: codes_iq2_s(block, code, scale); break;
  case GA_IQ3_XXS: codes_iq3_xxs(block, code, scale); break;
  case GA_IQ3_S: codes_iq3_s(block, code, scale); break;
  case GA_TQ1_0: codes_tq1_0(block, code, scale); break;
  case GA_TQ2_0: codes_tq2_0(block, code, scale); break;
  default: break;
  }
}
