/* Packed weights (GA_LAYOUT_MMA_PACKED), in the order of fragments of operand A of mma.sync. They have as many bytes as
 * the file's blocks.
 *
 * A tile is 16 rows of W. It is divided along k into units of PACKED_K elements, and a unit into groups of 32. Lane
 * 4g+q of a warp holds, of rows g and g+8 (r = 0, 1) and of each group, elements 16s + 4q + i (step s = 0, 1; i = 0 to
 * 3). One product with k = 16 processes a step: register j = 2h + r of A holds elements i = 2h, 2h+1 of row r. X must
 * therefore be ordered as [q][s][i] within a group (packed_x_at).
 *
 * A unit has arrays of 32-bit words, in this order; a type has some of them. A lane has its own words of each array of
 * codes. The first 16 bytes of all 32 lanes come first, then the second 16 bytes of all lanes.
 *   4-bit codes   word 2 * group + s: register j at bits 4j (element 2h) and 16 + 4j (element 2h + 1)
 *   8-bit codes   word 4 * group + 2s + r: bytes are elements i = 0, 2, 1, 3; e4m3 codes too
 *   2-bit codes   word group: step s, row r at bits 4s + 2r of each byte; bytes are i = 0, 2, 1, 3
 *   1-bit codes   word group / 2: step s, row r at bit 4 * (group % 2) + 2s + r of each byte; bytes are i = 0, 2, 1, 3
 *   f16, bf16     word 8 * group + 4s + j: register j
 *   scales        by g, for rows g and g+8 side by side
 * After a mask, the bytes of a word of 4-bit codes are a row's elements i = 0, 2, 1, 3. They are a register of operand
 * A of an 8-bit product (packed_s8.h). Codes of lookup tables (iq4, e2m1) are stored otherwise: row r in half r of a
 * word, with nibbles i = 0, 2, 1, 3, so that one lookup gives four 8-bit codes. */
#pragma once
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/gemm/gemm_args.h"

/* Returns the index, within a group of 32, at which element e (0 to 31) of X is stored. */
GA_DEV int packed_x_at(int e) { return (e >> 2 & 3) * 8 + (e >> 4) * 4 + (e & 3); }
/* Returns the element (0 to 31) of a group that lane q of a quad holds as element i of step s. */
GA_DEV int packed_element(int q, int s, int i) { return 16 * s + 4 * q + i; }

#define PACKED_HAS4(t)                                                                                   \
  ((t) == T_Q4_0 || (t) == T_Q4_1 || (t) == T_Q5_0 || (t) == T_Q5_1 || (t) == T_Q4_K || (t) == T_Q5_K || \
   (t) == T_Q6_K || (t) == T_IQ4_NL || (t) == T_IQ4_XS || (t) == T_MXFP4 || (t) == T_NVFP4)
#define PACKED_HAS8(t)  ((t) == T_Q8_0 || (t) == T_E4M3_128)
#define PACKED_HAS2(t)  ((t) == T_Q6_K || (t) == T_Q2_K || (t) == T_Q3_K)
#define PACKED_HAS1(t)  ((t) == T_Q5_0 || (t) == T_Q5_1 || (t) == T_Q5_K || (t) == T_Q3_K)
#define PACKED_PLAIN(t) ((t) == T_F16 || (t) == T_BF16)
/* True for types whose units have one f32 scale for each row. */
#define PACKED_ONE_RUN(t) ((t) == T_E4M3_128)
#define PACKED_MIN(t)     ((t) == T_Q4_1 || (t) == T_Q5_1 || (t) == T_Q4_K || (t) == T_Q5_K || (t) == T_Q2_K)
/* True for types with a scale for every 16 elements; other types have a scale for every 32. */
#define PACKED_HALVES(t) ((t) == T_Q6_K || (t) == T_Q2_K || (t) == T_Q3_K || (t) == T_NVFP4)
#define PACKED_256(t)    (((t) >= T_Q2_K && (t) <= T_Q6_K) || (t) == T_IQ4_XS)
#define PACKED_K(t)      (PACKED_PLAIN(t) ? 64 : PACKED_256(t) ? 256 : 128)
#define PACKED_GROUPS(t) (PACKED_K(t) / 32)

/* Numbers of 32-bit words of a unit that a lane holds. PACKED_W4: codes of 4, 8 or 16 bits. PACKED_W2: 2-bit codes.
 * PACKED_W1: 1-bit codes. */
#define PACKED_W4(t) \
  (PACKED_HAS4(t) ? 2 * PACKED_GROUPS(t) : PACKED_HAS8(t) ? 4 * PACKED_GROUPS(t) : PACKED_PLAIN(t) ? 16 : 0)
#define PACKED_W2(t)    (PACKED_HAS2(t) ? PACKED_GROUPS(t) : 0)
#define PACKED_W1(t)    (PACKED_HAS1(t) ? PACKED_GROUPS(t) / 2 : 0)
#define PACKED_CODES(t) (PACKED_W4(t) + PACKED_W2(t) + PACKED_W1(t))
/* Number of 32-bit words of scales in a unit for rows g and g+8 together, the two rows of lane 4g+q. */
#define PACKED_WS(t)                                                       \
  (PACKED_PLAIN(t)                                                    ? 0  \
   : (t) == T_Q4_1 || (t) == T_Q5_1 || (t) == T_Q4_K || (t) == T_Q5_K ? 8  \
   : (t) == T_Q6_K                                                    ? 9  \
   : (t) == T_Q2_K                                                    ? 10 \
   : (t) == T_Q3_K                                                    ? 7  \
   : (t) == T_MXFP4 || PACKED_ONE_RUN(t)                              ? 2  \
                                                                      : 4)
#define PACKED_WORDS(t) (PACKED_CODES(t) + PACKED_WS(t))
#define PACKED_BYTES(t) (128 * PACKED_CODES(t) + 32 * PACKED_WS(t))
#define PACKED_IQ4(t)   ((t) == T_IQ4_NL || (t) == T_IQ4_XS)
#define PACKED_FP4(t)   ((t) == T_MXFP4 || (t) == T_NVFP4)

/* Returns the byte offset of a lane's code word i in its unit. */
GA_DEV int packed_code_at(int t, int i, int lane) {
  if (i < PACKED_W4(t) + PACKED_W2(t) || PACKED_W1(t) == 4) return i / 4 * 512 + lane * 16 + i % 4 * 4;
  return (PACKED_W4(t) + PACKED_W2(t)) * 128 + lane * 8 + (i - PACKED_W4(t) - PACKED_W2(t)) * 4;
}
/* Returns the byte offset, in a unit, of scale word i of rows g and g+8. Words that are loaded together come before
 * single words. */
GA_DEV int packed_scale_at(int t, int i, int g) {
  const int base = 128 * PACKED_CODES(t), wide = t == T_Q6_K || t == T_Q2_K ? 8 : t == T_Q3_K ? 6 : PACKED_WS(t);
  return i < wide ? base + (g * wide + i) * 4 : base + 32 * wide + (g * (PACKED_WS(t) - wide) + i - wide) * 4;
}

/* --- functions that read a unit; t is the type of its weights, and t and every index are constants after unrolling
 * --- */

/* Loads all words of a unit that this lane needs from global memory to w: codes, then scales. */
GA_DEV void packed_load(int t, uint32_t *w, const uint8_t *unit, int lane) {
  const int g = lane / 4, wide = PACKED_W1(t) == 2 ? PACKED_CODES(t) - 2 : PACKED_CODES(t);
  GA_UNROLL for (int i = 0; i < wide; i += 4) ldg_stream_u4(w + i, unit + packed_code_at(t, i, lane));
  if (wide < PACKED_CODES(t)) ldg_stream_u2(w + wide, unit + packed_code_at(t, wide, lane));
  uint32_t *s = w + PACKED_CODES(t);
  if (PACKED_WS(t) == 4 || PACKED_WS(t) >= 8) ldg_stream_u4(s, unit + packed_scale_at(t, 0, g));
  if (PACKED_WS(t) >= 8) ldg_stream_u4(s + 4, unit + packed_scale_at(t, 4, g));
  if (PACKED_WS(t) == 2) ldg_stream_u2(s, unit + packed_scale_at(t, 0, g));
  if (t == T_Q6_K) ldg_stream_u1(s + 8, unit + packed_scale_at(t, 8, g));
  if (t == T_Q2_K) ldg_stream_u2(s + 8, unit + packed_scale_at(t, 8, g));
  if (t == T_Q3_K) {
    GA_UNROLL for (int i = 0; i < 6; i += 2) ldg_stream_u2(s + i, unit + packed_scale_at(t, i, g));
    ldg_stream_u1(s + 6, unit + packed_scale_at(t, 6, g));
  }
}

/* Converts bytes 0 and 2 of x, signed integers, to two bf16. Each is 128 + the low seven bits, minus 128, or minus 256
 * for a negative byte. */
GA_DEV uint32_t packed_signed(uint32_t x) {
  return add_bf16x2(and_or(x, 0x007f007fu, 0x43004300u), and_or(x, 0x00800080u, 0xc300c300u));
}

/* Converts a word of 8-bit codes of a row to bf16: elements 0 and 1 to *first, elements 2 and 3 to *second. */
GA_DEV void packed_row8(uint32_t x, uint32_t *first, uint32_t *second) {
  *first = packed_signed(x);
  *second = packed_signed(x >> 8);
}

/* Converts the e4m3 codes in bytes 1 and 3 of x to two bf16, exactly. The bits of a code, moved to the fields of a
 * bf16, are a number 2^120 times too small, which may be subnormal. No code is NaN. */
GA_DEV uint32_t packed_e4m3(uint32_t x) {
  return fma_bf16x2(and_or(x, 0x80008000u, x >> 4 & 0x07f007f0u), 0x7b807b80u /* 2^120 */, 0x80008000u /* -0 */);
}

/* Returns four values of the iq4 table as bytes, selected by the low four nibbles of x. */
GA_DEV uint32_t packed_look_up(uint32_t x) {
  const uint32_t i = x & 0x7777u, low = prmt(0xbfad9881u, 0xf6eaddcfu, i), high = prmt(0x26190d01u, 0x71594535u, i);
  return prmt(low, high, (x & 0x8888u) >> 1 | 0x3210u);
}

/* Looks up doubled values of e2m1 as bf16, by the low four nibbles of x. *first becomes elements 0 and 1, and *second
 * elements 2 and 3. */
GA_DEV void packed_fp4(uint32_t x, uint32_t *first, uint32_t *second) {
  const uint32_t i = x & 0x7777u, low = prmt(0x40008000u, 0x4000c080u, i), size = prmt(0x40403f00u, 0x41414040u, i),
                 high = prmt(size, size ^ 0x80808080u, (x & 0x8888u) >> 1 | 0x3210u);
  *first = prmt(low, high, 0x6240u);
  *second = prmt(low, high, 0x7351u);
}

/* Shifts the bits of x from position `from` to position `to`, both constants. */
GA_DEV uint32_t packed_move(uint32_t x, int from, int to) { return from > to ? x >> (from - to) : x << (to - from); }

/* Number that is subtracted from a code of 2 to 6 bits of a type to get a signed value. */
#define PACKED_OFFSET(t) ((t) == T_Q4_0 ? 8 : (t) == T_Q5_0 ? 16 : (t) == T_Q6_K ? 32 : (t) == T_Q3_K ? 4 : 0)

/* Returns register j of step s of a group for types with codes of 2 to 6 bits: two bf16 numbers 128 + code. */
GA_DEV uint32_t packed_lifted(int t, const uint32_t *w, int group, int s, int j) {
  uint32_t v = 0x43004300u;
  if (PACKED_HAS4(t)) v = and_or(w[2 * group + s] >> 4 * j, 0x000f000fu, v);
  if (PACKED_HAS2(t)) {
    const int to = PACKED_HAS4(t) ? 4 : 0;
    v = and_or(packed_move(w[PACKED_W4(t) + group], 8 * (j / 2) + 4 * s + 2 * (j % 2), to), 0x00030003u << to, v);
  }
  if (PACKED_HAS1(t)) {
    const int to = PACKED_HAS4(t) ? 4 : 2, from = 8 * (j / 2) + 4 * (group % 2) + 2 * s + j % 2;
    v = and_or(packed_move(w[PACKED_W4(t) + PACKED_W2(t) + group / 2], from, to), 0x00010001u << to, v);
  }
  return v;
}

/* Computes the fragment of operand A of one step of a group, exact in bf16. For f16 it computes only the high part;
 * packed_rest computes the rest. */
GA_DEV void packed_step(int t, const uint32_t *w, int group, int s, uint32_t *a) {
  if (t == T_BF16) {
    GA_UNROLL for (int j = 0; j < 4; j++) a[j] = w[8 * group + 4 * s + j];
  } else if (t == T_F16) {
    GA_UNROLL for (int j = 0; j < 4; j++) {
      const uint32_t x = w[8 * group + 4 * s + j];
      a[j] = pack_bf16(elem_f32_of_f16((uint16_t)x), elem_f32_of_f16((uint16_t)(x >> 16)));
    }
  } else if (t == T_E4M3_128) {
    GA_UNROLL for (int r = 0; r < 2; r++) {
      const uint32_t x = w[4 * group + 2 * s + r];
      a[r] = packed_e4m3(x << 8);
      a[2 + r] = packed_e4m3(x);
    }
  } else if (PACKED_HAS8(t)) {
    packed_row8(w[4 * group + 2 * s], &a[0], &a[2]);
    packed_row8(w[4 * group + 2 * s + 1], &a[1], &a[3]);
  } else if (PACKED_FP4(t)) {
    packed_fp4(w[2 * group + s], &a[0], &a[2]);
    packed_fp4(w[2 * group + s] >> 16, &a[1], &a[3]);
  } else if (PACKED_IQ4(t)) {
    packed_row8(packed_look_up(w[2 * group + s]), &a[0], &a[2]);
    packed_row8(packed_look_up(w[2 * group + s] >> 16), &a[1], &a[3]);
  } else {
    const uint32_t less = 0xc300c300u /* -128 */ + 0x00010001u * PACKED_OFFSET(t);
    GA_UNROLL for (int j = 0; j < 4; j++) a[j] = add_bf16x2(packed_lifted(t, w, group, s, j), less);
  }
}

/* Computes f16 weights minus their bf16 part `a`. At most three bits are left, so the result is exact. */
GA_DEV void packed_rest(const uint32_t *w, int group, int s, const uint32_t *a, uint32_t *rest) {
  GA_UNROLL for (int j = 0; j < 4; j++) {
    const uint32_t x = w[8 * group + 4 * s + j];
    rest[j] = pack_bf16(elem_f32_of_f16((uint16_t)x) - __uint_as_float(a[j] << 16),
                        elem_f32_of_f16((uint16_t)(x >> 16)) - __uint_as_float(a[j] & 0xffff0000u));
  }
}

GA_DEV float packed_f16(uint32_t w, int high) { return elem_f32_of_f16((uint16_t)(high ? w >> 16 : w)); }
GA_DEV int packed_byte(uint32_t w, int i) { return (int)(w >> 8 * i & 255); }

/* Returns the integer scale of row r (0: g, 1: g + 8) in half `half` of a group. The type's integer scales in a unit
 * share a float. s holds the words of scales. */
GA_DEV int packed_int_scale(int t, const uint32_t *s, int group, int half, int r) {
  const int run = 2 * group + half;
  if (t == T_Q4_K || t == T_Q5_K) {
    const uint32_t *p = s + 4 * r,
                   all = group < 4 ? p[0] & 0x3f3f3f3fu : (p[2] & 0x0f0f0f0fu) | (p[0] >> 2 & 0x30303030u);
    return packed_byte(all, group % 4);
  }
  if (t == T_Q6_K) return (int8_t)packed_byte(s[4 * r + run / 4], run % 4);
  if (t == T_Q2_K) return packed_byte(s[4 * r + run / 4], run % 4) & 15;
  if (t == T_Q3_K) {
    const uint32_t *p = s + 3 * r;
    const int low = packed_byte(p[run % 8 / 4], run % 4) >> (run < 8 ? 0 : 4) & 15,
              high = packed_byte(p[2], run % 4) >> 2 * (run / 4) & 3;
    return (low | high << 4) - 32;
  }
  /* the type is T_IQ4_XS */
  const int low = (int)(s[2 * r + 1] >> 4 * group & 15), high = (int)(s[2 * r] >> (16 + 2 * group) & 3);
  return (low | high << 4) - 32;
}

/* Returns the scale of row r (0: g, 1: g + 8) in half `half` of a group. s holds the words of scales. */
GA_DEV float packed_scale(int t, const uint32_t *s, int group, int half, int r) {
  if (PACKED_ONE_RUN(t)) return __uint_as_float(s[r]);
  if (t == T_MXFP4) return quant_e8m0(packed_byte(s[group / 2], 2 * (group % 2) + r));
  if (t == T_NVFP4) return quant_ue4m3_half(packed_byte(s[group], 2 * half + r));
  if (!PACKED_256(t)) return packed_f16(s[group], r);
  const int i = packed_int_scale(t, s, group, half, r);
  const uint32_t d = t == T_Q4_K || t == T_Q5_K ? s[4 * r + 3]
                     : t == T_Q6_K              ? s[8]
                     : t == T_Q2_K              ? s[8 + r]
                     : t == T_Q3_K              ? s[6]
                                                : s[2 * r];
  return packed_f16(d, t == T_Q6_K || t == T_Q3_K ? r : 0) * (float)i;
}

/* Returns the minimum of row r (0: g, 1: g + 8) in half `half` of a group, for PACKED_MIN types. It is added to every
 * element. */
GA_DEV float packed_min(int t, const uint32_t *s, int group, int half, int r) {
  const int run = 2 * group + half;
  if (t == T_Q4_K || t == T_Q5_K) {
    const uint32_t *p = s + 4 * r,
                   all = group < 4 ? p[1] & 0x3f3f3f3fu : (p[2] >> 4 & 0x0f0f0f0fu) | (p[1] >> 2 & 0x30303030u);
    return -packed_f16(p[3], 1) * (float)packed_byte(all, group % 4);
  }
  if (t == T_Q2_K) return -packed_f16(s[8 + r], 1) * (float)(packed_byte(s[4 * r + run / 4], run % 4) >> 4);
  return packed_f16(s[4 + group], r);
}
