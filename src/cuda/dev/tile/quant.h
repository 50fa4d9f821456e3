/* Functions that read element i of a tensor of any GGUF type as a float. Their formulas equal those of
 * src/ref/ref_dequant.c. Kernels that must be correct for every type use these functions; fast kernels read packed
 * weights (packed.h). */
#pragma once
#include "cuda/dev/ptx/elem.h"

/* Values of the enum ga_dtype (ga/tensor.h), which never change. */
enum {
  T_F32 = 1,
  T_F16 = 2,
  T_BF16 = 3,
  T_E4M3 = 10,
  T_Q4_0 = 20,
  T_Q4_1 = 21,
  T_Q5_0 = 22,
  T_Q5_1 = 23,
  T_Q8_0 = 24,
  T_Q2_K = 25,
  T_Q3_K = 26,
  T_Q4_K = 27,
  T_Q5_K = 28,
  T_Q6_K = 29,
  T_IQ4_NL = 30,
  T_IQ4_XS = 31,
  T_MXFP4 = 32,
  T_NVFP4 = 33,
  T_E4M3_128 = 41
};

GA_DEV float quant_f16(const uint8_t *p) { return elem_f32_of_f16((uint16_t)(p[0] | p[1] << 8)); }
/* Returns 4-bit code e of 32. The 16 bytes at qs have codes 0 to 15 in their low halves and codes 16 to 31 in their
 * high halves. */
GA_DEV int quant_nibble(const uint8_t *qs, int e) { return e < 16 ? qs[e] & 15 : qs[e - 16] >> 4; }
GA_DEV int quant_bit(const uint8_t *p, int i) { return p[i >> 3] >> (i & 7) & 1; }
/* Returns byte i of 16 as a signed number: low has bytes 0 to 7, high has bytes 8 to 15. */
GA_DEV int quant_pick(uint64_t low, uint64_t high, int i) { return (int8_t)((i < 8 ? low : high) >> 8 * (i & 7)); }
/* Returns the value of 4-bit code i of the IQ4 types. Values: -127 -104 -83 -65 -49 -35 -22 -10 | 1 13 25 38 53 69 89
 * 113. */
GA_DEV int quant_iq4(int i) { return quant_pick(0xf6eaddcfbfad9881ull, 0x7159453526190d01ull, i); }
/* Returns twice the value of e2m1 code i: 0 1 2 3 4 6 8 12, then the same numbers negated. */
GA_DEV int quant_fp4(int i) { return quant_pick(0x0c08060403020100ull, 0xf4f8fafcfdfeff00ull, i); }
/* Returns 2^(e - 128): half the scale of an MXFP4 block, because quant_fp4 returns doubled values. The result is
 * subnormal for e < 2. */
GA_DEV float quant_e8m0(int e) { return __uint_as_float(e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23); }
/* Returns e4m3 code b as a number. 0x7f and 0xff are numbers rather than NaN, as e4m3_128 stores them. */
GA_DEV float quant_e4m3_number(int b) {
  const int e = b >> 3 & 15, m = b & 7;
  float x = e ? __uint_as_float((uint32_t)(e + 120) << 23 | (uint32_t)m << 20) : (float)m * 0.001953125f; /* 2^-9 */
  return b & 0x80 ? -x : x;
}
/* Returns OCP e4m3 code b as a number: there are no infinities, and 0x7f and 0xff are NaN. */
GA_DEV float quant_e4m3(int b) { return (b & 0x7f) == 0x7f ? __uint_as_float(0x7fc00000u) : quant_e4m3_number(b); }
/* Returns half the value of an NVFP4 scale, because quant_fp4 returns doubled values. A scale is e4m3 whose sign is
 * ignored and whose NaN is read as 0. */
GA_DEV float quant_ue4m3_half(int b) { return (b & 0x7f) == 0x7f ? 0.0f : 0.5f * quant_e4m3(b & 0x7f); }

/* Returns scale j (part 0) or minimum j (part 1) of a q4_k or q5_k block. s[12] holds 8 pairs of 6-bit numbers. */
GA_DEV int quant_six_bits(const uint8_t *s, int j, int part) {
  if (j < 4) return s[j + 4 * part] & 63;
  return (part ? s[j + 4] >> 4 : s[j + 4] & 15) | (s[j - 4 + 4 * part] >> 6) << 4;
}
/* Returns scale i (0 to 15) of a q3_k block, -32 to 31. s[12] holds the block's 6-bit scales. */
GA_DEV int quant_scale3(const uint8_t *s, int i) {
  const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4, high = s[8 + (i & 3)] >> 2 * (i >> 2) & 3;
  return (low | high << 4) - 32;
}
/* Returns scale `sub` (0 to 7) of the iq4_xs block at b, -32 to 31. */
GA_DEV int quant_scale_xs(const uint8_t *b, int sub) {
  const int high = b[2] | b[3] << 8;
  return ((b[4 + sub / 2] >> 4 * (sub & 1) & 15) | (high >> 2 * sub & 3) << 4) - 32;
}

/* An element of a block as scale * q + min, where q is a small integer. 16 or 32 consecutive elements share scale and
 * min. */
typedef struct {
  float scale, min;
  int q;
} quant_parts;

GA_DEV quant_parts quant_k(int type, const uint8_t *b, int e) {
  const int h = e >> 7, j = e >> 5 & 3, l = e & 31, sub = e >> 5, run = 8 * h + 2 * j + l / 16;
  quant_parts r = {0, 0, 0};
  if (type == T_Q4_K || type == T_Q5_K) {
    const uint8_t *s = b + 4, *qs = type == T_Q4_K ? b + 16 : b + 48;
    const int q = qs[32 * (e >> 6) + l];
    r.q = (e & 63) < 32 ? q & 15 : q >> 4;
    if (type == T_Q5_K) r.q |= (b[16 + l] >> sub & 1) << 4;
    r.scale = quant_f16(b) * (float)quant_six_bits(s, sub, 0);
    r.min = -quant_f16(b + 2) * (float)quant_six_bits(s, sub, 1);
  } else if (type == T_Q6_K) {
    const int q = b[64 * h + 32 * (j & 1) + l];
    r.q = ((j < 2 ? q & 15 : q >> 4) | (b[128 + 32 * h + l] >> 2 * j & 3) << 4) - 32;
    r.scale = quant_f16(b + 208) * (float)(int8_t)b[192 + run];
  } else if (type == T_Q2_K) {
    r.q = b[16 + 32 * h + l] >> 2 * j & 3;
    r.scale = quant_f16(b + 80) * (float)(b[run] & 15);
    r.min = -quant_f16(b + 82) * (float)(b[run] >> 4);
  } else if (type == T_Q3_K) {
    r.q = (b[32 + 32 * h + l] >> 2 * j & 3) - (b[l] >> (4 * h + j) & 1 ? 0 : 4);
    r.scale = quant_f16(b + 108) * (float)quant_scale3(b + 96, run);
  } else { /* the type is T_IQ4_XS */
    r.q = quant_iq4(quant_nibble(b + 8 + 16 * sub, l));
    r.scale = quant_f16(b) * (float)quant_scale_xs(b, sub);
  }
  return r;
}

GA_DEV quant_parts quant_32(int type, const uint8_t *b, int e) {
  quant_parts r = {0, 0, 0};
  if (type == T_MXFP4) {
    r.scale = quant_e8m0(b[0]);
    r.q = quant_fp4(quant_nibble(b + 1, e));
    return r;
  }
  if (type == T_NVFP4) { /* blocks of 64 elements: four scales, and 8 bytes for every 16 elements */
    const int q = b[4 + e / 16 * 8 + (e & 7)];
    r.scale = quant_ue4m3_half(b[e / 16]);
    r.q = quant_fp4(e & 8 ? q >> 4 : q & 15);
    return r;
  }
  r.scale = quant_f16(b);
  if (type == T_Q4_0) r.q = quant_nibble(b + 2, e) - 8;
  if (type == T_Q5_0) r.q = (quant_nibble(b + 6, e) | quant_bit(b + 2, e) << 4) - 16;
  if (type == T_Q8_0) r.q = (int8_t)b[2 + e];
  if (type == T_IQ4_NL) r.q = quant_iq4(quant_nibble(b + 2, e));
  if (type == T_Q4_1) r.q = quant_nibble(b + 4, e);
  if (type == T_Q5_1) r.q = quant_nibble(b + 8, e) | quant_bit(b + 4, e) << 4;
  if (type == T_Q4_1 || type == T_Q5_1) r.min = quant_f16(b + 2);
  return r;
}

/* quant_block_shift returns log2 of the number of elements in a block of a type. quant_block_bytes returns the block's
 * bytes. */
GA_DEV int quant_block_shift(int type) {
  return type < T_Q4_0                                            ? 0
         : type == T_NVFP4                                        ? 6
         : type == T_E4M3_128                                     ? 7
         : (type >= T_Q2_K && type <= T_Q6_K) || type == T_IQ4_XS ? 8
                                                                  : 5;
}
GA_DEV int quant_block_bytes(int type) {
  switch (type) {
  case T_F32: return 4;
  case T_F16:
  case T_BF16: return 2;
  case T_E4M3: return 1;
  case T_Q4_0:
  case T_IQ4_NL: return 18;
  case T_Q4_1: return 20;
  case T_Q5_0: return 22;
  case T_Q5_1: return 24;
  case T_Q8_0: return 34;
  case T_Q2_K: return 84;
  case T_Q3_K: return 110;
  case T_Q4_K: return 144;
  case T_Q5_K: return 176;
  case T_Q6_K: return 210;
  case T_IQ4_XS: return 136;
  case T_MXFP4: return 17;
  case T_E4M3_128: return 132;
  default: return 36; /* the type is T_NVFP4 */
  }
}

GA_DEV quant_parts quant_parts_at(int type, const void *base, int64_t i) {
  const int shift = quant_block_shift(type), e = (int)(i & ((1 << shift) - 1));
  const uint8_t *b = (const uint8_t *)base + (i >> shift) * quant_block_bytes(type);
  return shift == 8 ? quant_k(type, b, e) : quant_32(type, b, e);
}

/* Returns element i of a tensor of type e4m3_128, whose blocks have an f32 scale and 128 codes. */
GA_DEV float quant_e4m3_128_at(const void *base, int64_t i) {
  const uint8_t *b = (const uint8_t *)base + (i >> 7) * 132;
  const uint32_t scale = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
  return elem_mul(__uint_as_float(scale), quant_e4m3_number(b[4 + (i & 127)]));
}

GA_DEV float quant_at(int type, const void *base, int64_t i) {
  if (type == T_F32) return elem_get_f32(base, i);
  if (type == T_F16) return elem_get_f16(base, i);
  if (type == T_BF16) return elem_get_bf16(base, i);
  if (type == T_E4M3) return quant_e4m3(((const uint8_t *)base)[i]);
  if (type == T_E4M3_128) return quant_e4m3_128_at(base, i);
  const quant_parts r = quant_parts_at(type, base, i);
  return elem_mul(r.scale, (float)r.q) + r.min;
}

/* Returns element i of a tensor of type f32, f16 or bf16. Its code is shorter than the code of quant_at: a kernel that
 * executes code only once must wait while the code is fetched. */
GA_DEV float plain_get(int type, const void *base, int64_t i) {
  return type == T_F32 ? elem_get_f32(base, i) : type == T_F16 ? elem_get_f16(base, i) : elem_get_bf16(base, i);
}
GA_DEV void plain_put(int type, void *base, int64_t i, float x) {
  if (type == T_F32)
    elem_put_f32(base, i, x);
  else if (type == T_F16)
    elem_put_f16(base, i, x);
  else
    elem_put_bf16(base, i, x);
}
