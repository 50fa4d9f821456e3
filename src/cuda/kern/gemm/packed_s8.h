/* Conversion of packed weights (GA_LAYOUT_MMA_PACKED, packed.h) to fragments of 8-bit products. Codes become small
 * signed integers, multiplied by a power of two where this saves an instruction.
 *
 * Scales are split into integers and the floats that they share. t is the type of the weights; t and every index are
 * constants after unrolling. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/gemm/packed.h"

/* True for types whose scale is an integer times a float that the whole unit shares. */
#define PACKED_INT_SCALE(t) (PACKED_256(t))
/* True for types whose unsigned 4-bit codes are used as bytes in place. Codes of row g are in the low halves of bytes.
 * Codes of row g+8 are in the high halves, and so are 16 times too large. */
#define PACKED_NIBBLES(t) ((t) == T_Q4_K || (t) == T_Q4_1)
/* log2 of the factor by which integers in the fragment of row r (0: g, 1: g + 8) exceed the codes. Signed codes are at
 * the top of their bytes, where the sign needs no extension. */
#define PACKED_LIFT(t, r)                                   \
  ((t) == T_Q4_0       ? 4                                  \
   : (t) == T_Q5_0     ? 3                                  \
   : (t) == T_Q6_K     ? 2                                  \
   : (t) == T_Q3_K     ? 5                                  \
   : (t) == T_NVFP4    ? 1 /* values of e2m1 are doubled */ \
   : PACKED_NIBBLES(t) ? 4 * (r)                            \
                       : 0)
/* True for types whose codes are indices of a table. They become two fragments, one for each half of the table, whose
 * products are added. */
#define PACKED_LOOKED_UP(t) (PACKED_IQ4(t) || PACKED_FP4(t))
/* True for types whose minimums are floats, one for each run. Other minimums are integers times a float that the unit
 * shares. */
#define PACKED_FLOAT_MIN(t) ((t) == T_Q4_1 || (t) == T_Q5_1)

/* Returns 0 after all loads of packed_fetch have arrived in registers. An address that is computed with the result
 * waits for the loads (loads_done in ptx/mem.h). n is the number of words. */
GA_DEV uint32_t packed_fetched(int t, const uint32_t *w, int n) {
  const int wide = PACKED_W1(t) == 2 ? PACKED_CODES(t) - 2 : PACKED_CODES(t);
  return loads_done(w, wide, 4) + loads_done(w + wide, n - wide, 2);
}

/* Loads all words that this lane needs of a unit in shared memory, in the order of packed_load. For PACKED_FLOAT_MIN
 * types, word PACKED_CODES + 4 is the minimum of group lane % 4.
 *
 * The address must have been pinned (pin_u32) after the wait for the unit's bytes. */
GA_DEV void packed_fetch(int t, uint32_t *w, uint32_t unit, int lane) {
  const int g = lane / 4, wide = PACKED_W1(t) == 2 ? PACKED_CODES(t) - 2 : PACKED_CODES(t);
  GA_UNROLL for (int i = 0; i < wide; i += 4) lds_nv_u4(w + i, unit + (uint32_t)packed_code_at(t, i, lane));
  if (wide < PACKED_CODES(t)) lds_nv_u2(w + wide, unit + (uint32_t)packed_code_at(t, wide, lane));
  uint32_t *s = w + PACKED_CODES(t);
  if (PACKED_WS(t) == 4 || PACKED_WS(t) >= 8) lds_nv_u4(s, unit + (uint32_t)packed_scale_at(t, 0, g));
  if (PACKED_FLOAT_MIN(t))
    lds_nv_u1(s + 4, unit + (uint32_t)packed_scale_at(t, 4 + lane % 4, g));
  else if (PACKED_WS(t) >= 8)
    lds_nv_u4(s + 4, unit + (uint32_t)packed_scale_at(t, 4, g));
  if (PACKED_WS(t) == 2) lds_nv_u2(s, unit + (uint32_t)packed_scale_at(t, 0, g));
  if (t == T_Q6_K) lds_nv_u1(s + 8, unit + (uint32_t)packed_scale_at(t, 8, g));
  if (t == T_Q2_K) lds_nv_u2(s + 8, unit + (uint32_t)packed_scale_at(t, 8, g));
  if (t == T_Q3_K) {
    GA_UNROLL for (int i = 0; i < 6; i += 2) lds_nv_u2(s + i, unit + (uint32_t)packed_scale_at(t, i, g));
    lds_nv_u1(s + 6, unit + (uint32_t)packed_scale_at(t, 6, g));
  }
}

/* Constants that are kept in registers. An instruction can hold one constant itself, and the compiler would load
 * further constants before each use. Loading them once from memory prevents this. */
typedef struct {
  /* 0x80808080, the top bit of each byte. */
  uint32_t top;
  uint32_t low, high; /* First four entries of the low half and of the high half of a lookup table. */
} packed_constants;
GA_DEV packed_constants packed_constants_of(int t) {
  packed_constants k = {0x80808080u, PACKED_IQ4(t) ? 0xbfad9881u : 0x04030200u,
                        PACKED_IQ4(t) ? 0x271a0e02u : 0xfdfeff00u};
  return k;
}

/* Returns (x & mask) ^ bits. */
GA_DEV uint32_t packed_flip(uint32_t x, uint32_t mask, uint32_t bits) { return (x & mask) ^ bits; }

/* Returns the register of operand A for step s of a group and row r. Its bytes are elements i = 0, 2, 1, 3. */
GA_DEV uint32_t packed_bytes(int t, uint32_t top, const uint32_t *w, int group, int s, int r) {
  if (PACKED_HAS8(t)) return w[4 * group + 2 * s + r];
  const uint32_t nibbles = PACKED_HAS4(t) ? w[2 * group + s] : 0;
  if (PACKED_NIBBLES(t)) return nibbles & (r ? 0xf0f0f0f0u : 0x0f0f0f0fu);
  if (t == T_Q4_0) return packed_flip(packed_move(nibbles, 4 * r, 4), 0xf0f0f0f0u, top);
  const uint32_t two = PACKED_HAS2(t) ? w[PACKED_W4(t) + group] : 0,
                 one = PACKED_HAS1(t) ? w[PACKED_W4(t) + PACKED_W2(t) + group / 2] : 0;
  const int at2 = 4 * s + 2 * r, at1 = 4 * (group % 2) + 2 * s + r;
  if (t == T_Q5_0) return and_or(packed_move(nibbles, 4 * r, 3), 0x78787878u, ~packed_move(one, at1, 7) & 0x80808080u);
  if (t == T_Q6_K)
    return and_or(packed_move(nibbles, 4 * r, 2), 0x3c3c3c3cu, packed_flip(packed_move(two, at2, 6), 0xc0c0c0c0u, top));
  if (t == T_Q3_K) return and_or(packed_move(two, at2, 5), 0x60606060u, ~packed_move(one, at1, 7) & 0x80808080u);
  if (t == T_Q2_K) return packed_move(two, at2, 0) & 0x03030303u;
  const uint32_t low = packed_move(nibbles, 4 * r, 0);
  if (PACKED_HAS1(t)) return and_or(low, 0x0f0f0f0fu, packed_move(one, at1, 4) & 0x10101010u);
  return low & 0x0f0f0f0fu;
}

/* Looks up two fragments for codes of a table, one for each half of the table. The sum of both has the values.
 *
 * For a code of the other half prmt_sign returns 0, or -1 if the entry with the same low bits is negative. The other
 * half's entry is then larger by 1. */
GA_DEV void packed_fragments(int t, const packed_constants *k, const uint32_t *w, int group, uint32_t *low,
                             uint32_t *high) {
  GA_UNROLL for (int s = 0; s < 2; s++) {
    const uint32_t x = w[2 * group + s], other = x ^ 0x88888888u;
    GA_UNROLL for (int r = 0; r < 2; r++) {
      low[2 * s + r] = prmt_sign(k->low, PACKED_IQ4(t) ? 0xf6eaddcfu : 0x0d090705u, x >> 16 * r);
      high[2 * s + r] = prmt_sign(k->high, PACKED_IQ4(t) ? 0x725a4636u : 0xf4f8fafcu, other >> 16 * r);
    }
  }
}

/* Computes the fragment of operand A of a group: registers of rows g and g+8 for step 0, then for step 1. */
GA_DEV void packed_fragment(int t, const packed_constants *k, const uint32_t *w, int group, uint32_t *a) {
  GA_UNROLL for (int j = 0; j < 4; j++) a[j] = packed_bytes(t, k->top, w, group, j / 2, j % 2);
}

GA_DEV float packed_pow2(int e) { return __uint_as_float((uint32_t)(127 + e) << 23); }

/* Returns the integer scale of row r (0: g, 1: g + 8) in half `half` of a group. It takes fewer instructions than
 * packed_int_scale: words are split once, and each byte is selected by one instruction. */
GA_DEV int packed_pick_scale(int t, const uint32_t *s, int group, int half, int r) {
  if (t == T_Q4_K || t == T_Q5_K) {
    const uint32_t *p = s + 4 * r;
    return (int)prmt(group < 4 ? p[0] & 0x3f3f3f3fu : and_or(p[0] >> 2, 0x30303030u, p[2] & 0x0f0f0f0fu), 0,
                     0x4440u | (uint32_t)(group % 4));
  }
  return packed_int_scale(t, s, group, half, r);
}

/* Returns the scale of row r (0: g, 1: g + 8) in half `half` of a group, times 2^PACKED_LIFT where this saves an
 * instruction. For NVFP4 a scale is e4m3 without sign and NaN (pack_sm80.cu). */
GA_DEV float packed_float_scale(int t, const uint32_t *s, int group, int half, int r) {
  return t == T_NVFP4 ? packed_f16(f16x2_of_e4m3(s[group] >> 16 * half & 0x7f7fu), r)
                      : packed_scale(t, s, group, half, r);
}

/* Computes all scales of a unit of MXFP4 to scale[group][r], r = 0 for row g and 1 for row g + 8. The four exponents of
 * a word are decremented at once. The two smallest exponents, whose scales are subnormal, are computed separately. */
GA_DEV void packed_e8m0_scales(const uint32_t *s, float (*scale)[2]) {
  uint32_t small = 0;
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const uint32_t less = s[i] - 0x01010101u, rest = s[i] & 0xfefefefeu;
    small |= (rest - 0x01010101u) & ~rest & 0x80808080u; /* a byte of rest is 0 */
    GA_UNROLL for (int j = 0; j < 4; j++) scale[2 * i + j / 2][j % 2] =
        __uint_as_float(prmt(less, 0, 0x0444u | (uint32_t)j << 12) >> 1);
  }
  if (small) GA_UNROLL
    for (int j = 0; j < 8; j++) scale[j / 2][j % 2] = quant_e8m0(packed_byte(s[j / 4], j % 4));
}

/* Returns the float that all integer scales of a unit's row r share, times 2^-PACKED_LIFT, for PACKED_INT_SCALE
 * types. */
GA_DEV float packed_shared_scale(int t, const uint32_t *s, int r) {
  const float d = t == T_Q4_K || t == T_Q5_K ? packed_f16(s[4 * r + 3], 0)
                  : t == T_Q6_K              ? packed_f16(s[8], r)
                  : t == T_Q2_K              ? packed_f16(s[8 + r], 0)
                  : t == T_Q3_K              ? packed_f16(s[6], r)
                                             : packed_f16(s[2 * r], 0);
  return d * packed_pow2(-PACKED_LIFT(t, r));
}
/* Returns the negative of the float that all integer minimums of a unit's row r share. */
GA_DEV float packed_shared_min(int t, const uint32_t *s, int r) {
  return -packed_f16(t == T_Q2_K ? s[8 + r] : s[4 * r + 3], 1);
}

/* Computes integer minimums as the fragment of operand A of a tf32 product over runs. a[0] and a[1] are rows g and g+8
 * of run q + 8j; a[2] and a[3] are run q + 8j + 4. */
GA_DEV void packed_mins(int t, const uint32_t *s, int j, int q, uint32_t *a) {
  GA_UNROLL for (int i = 0; i < 4; i++) {
    const uint32_t *p = s + 4 * (i % 2);
    const int word = 2 * j + i / 2;
    const uint32_t four = t == T_Q2_K ? p[word] >> 4 & 0x0f0f0f0fu
                          : word == 0 ? p[1] & 0x3f3f3f3fu
                                      : (p[2] >> 4 & 0x0f0f0f0fu) | (p[1] >> 2 & 0x30303030u);
    const uint32_t biased = prmt(four, 0x4b000000u, 0x7650u | (uint32_t)q); /* 2^23 + the byte */
    a[i] = float_bits(__uint_as_float(biased) - 8388608.0f);
  }
}
