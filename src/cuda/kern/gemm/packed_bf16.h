/* Conversion of packed weights (GA_LAYOUT_MMA_PACKED, packed.h) to bf16, two weights at once. A run is the 16 or 32
 * elements of a row that share a scale.
 *   weight = (code - centre) * (high + low) + offset,   high + low = scale,   offset = minimum + centre * scale
 * All terms are bf16, and the scale is the sum of two. Each run has its centre near -minimum / scale, which makes the
 * offset as small as possible. So the weight is rounded once, apart from 2^-9 of the smaller terms. Runs without a
 * minimum have neither centre nor offset.
 *
 * Each lane computes the scales of a quarter of its rows' runs, and gets the remaining scales from the other lanes of
 * its quad, lanes 4g to 4g + 3. Where a row has one scale for the unit, each lane computes it. t is the type of the
 * weights; t and every index except q are constants after unrolling. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/gemm/packed.h"

#define PACKED_RUNS(t) (PACKED_GROUPS(t) * (PACKED_HALVES(t) ? 2 : 1))
/* Number of runs of a unit that a lane computes itself. */
#define PACKED_OWN(t) (PACKED_RUNS(t) / 4)
/* The lane of a quad (0 to 3) that computes run `run` of a unit. */
#define PACKED_OWNER(t, run) ((t) == T_NVFP4 ? (run) / 2 : (run) % 4)
/* Index of run `run` among the runs that its lane computes. */
#define PACKED_OWN_AT(t, run) ((t) == T_NVFP4 ? (run) % 2 : (run) / 4)
/* True for types whose scales have 4 bits and therefore no low part. */
#define PACKED_EXACT_SCALE(t) PACKED_FP4(t)
/* Largest code of a type whose runs have a minimum. */
#define PACKED_TOP(t) ((t) == T_Q2_K ? 3.0f : (t) == T_Q5_1 || (t) == T_Q5_K ? 31.0f : 15.0f)
/* Number of words of scales that packed_fetch_own loads (PACKED_OWN_WS), and number of all words that it loads
 * (PACKED_OWN_WORDS). */
#define PACKED_OWN_WS(t)    (PACKED_256(t) ? PACKED_WS(t) : PACKED_MIN(t) || PACKED_ONE_RUN(t) ? 2 : 1)
#define PACKED_OWN_WORDS(t) (PACKED_CODES(t) + PACKED_OWN_WS(t))

/* Parameters of a run, each a pair of bf16 for rows g and g+8. */
typedef struct {
  uint32_t high, low, centre /* stored as -128 - centre */, offset;
} packed_run;

/* Loads this lane's codes of a unit of packed weights, and the scales that it computes itself, from shared memory to w
 * [PACKED_OWN_WORDS(t)]. unit: shared address of the unit. */
GA_DEV void packed_fetch_own(int t, uint32_t *w, uint32_t unit, int lane) {
  const int g = lane / 4, q = lane % 4, wide = PACKED_W1(t) == 2 ? PACKED_CODES(t) - 2 : PACKED_CODES(t);
  GA_UNROLL for (int i = 0; i < wide; i += 4) lds_u4(w + i, unit + (uint32_t)packed_code_at(t, i, lane));
  GA_UNROLL for (int i = wide; i < PACKED_CODES(t); i++) w[i] =
      float_bits(lds_f1(unit + (uint32_t)packed_code_at(t, i, lane)));
  uint32_t *s = w + PACKED_CODES(t);
  if (PACKED_ONE_RUN(t)) {
    GA_UNROLL for (int r = 0; r < 2; r++) s[r] = float_bits(lds_f1(unit + (uint32_t)packed_scale_at(t, r, g)));
    return;
  }
  if (!PACKED_256(t)) {
    s[0] = float_bits(lds_f1(unit + (uint32_t)packed_scale_at(t, t == T_MXFP4 ? q / 2 : q, g)));
    if (PACKED_MIN(t)) s[1] = float_bits(lds_f1(unit + (uint32_t)packed_scale_at(t, 4 + q, g)));
    return;
  }
  const int fours = PACKED_WS(t) / 4 * 4 == PACKED_WS(t) || PACKED_WS(t) > 8 ? PACKED_WS(t) / 4 * 4 : 0;
  GA_UNROLL for (int i = 0; i < fours; i += 4) lds_u4(s + i, unit + (uint32_t)packed_scale_at(t, i, g));
  GA_UNROLL for (int i = fours; i < PACKED_WS(t); i++) s[i] =
      float_bits(lds_f1(unit + (uint32_t)packed_scale_at(t, i, g)));
}

/* Returns 0 after the loads of packed_fetch_own have arrived in registers. An address that is computed with the result
 * waits for the loads (loads_done in ptx/mem.h). */
GA_DEV uint32_t packed_own_done(int t, const uint32_t *w) {
  const int wide = PACKED_W1(t) == 2 ? PACKED_CODES(t) - 2 : PACKED_CODES(t);
  return loads_done(w, wide, 4) + loads_done(w + wide, PACKED_OWN_WORDS(t) - wide, 1);
}

/* Returns 2^23 + byte q of w as a float, without a conversion of integers, which is slow. */
GA_DEV float packed_lift_byte(uint32_t w, int q) {
  return __uint_as_float(prmt(w, 0x4b000000u, 0x7440u | (uint32_t)q));
}
/* Returns i as a float, for |i| < 2^22, without a conversion of integers, which is slow. */
GA_DEV float packed_float_int(int i) { return __uint_as_float(0x4b400000u + (uint32_t)i) - 12582912.0f; }

/* Returns, for row r (0: g, 1: g + 8), the scale of the j-th run that lane q computes. s has the lane's words of
 * scales. */
GA_DEV float packed_own_scale(int t, const uint32_t *s, int j, int q, int r) {
  if (PACKED_ONE_RUN(t)) return __uint_as_float(s[r]);
  if (t == T_MXFP4) return quant_e8m0(packed_byte(s[0], q % 2 * 2 + r));
  /* pack_sm80.cu stores no NaN */
  if (t == T_NVFP4) return 0.5f * packed_f16(f16x2_of_e4m3(s[0] >> 16 * j & 0x7f7fu), r);
  if (!PACKED_256(t)) return packed_f16(s[0], r);
  if (t == T_Q4_K || t == T_Q5_K) {
    const uint32_t *p = s + 4 * r,
                   all = j == 0 ? p[0] & 0x3f3f3f3fu : and_or(p[0] >> 2, 0x30303030u, p[2] & 0x0f0f0f0fu);
    return packed_f16(p[3], 0) * (packed_lift_byte(all, q) - 8388608.0f);
  }
  if (t == T_Q6_K) return packed_f16(s[8], r) * (packed_lift_byte(s[4 * r + j] ^ 0x80808080u, q) - 8388736.0f);
  if (t == T_Q2_K) return packed_f16(s[8 + r], 0) * (packed_lift_byte(s[4 * r + j] & 0x0f0f0f0fu, q) - 8388608.0f);
  if (t == T_Q3_K) {
    const uint32_t low = s[3 * r + j % 2] >> 8 * q >> (j < 2 ? 0 : 4) & 15, high = s[3 * r + 2] >> 8 * q >> 2 * j & 3;
    return packed_f16(s[6], r) * packed_float_int((int)(low | high << 4) - 32);
  }
  const uint32_t low = s[2 * r + 1] >> 4 * (4 * j + q) & 15,
                 high = s[2 * r] >> (16 + 2 * (4 * j + q)) & 3; /* the type is T_IQ4_XS */
  return packed_f16(s[2 * r], 0) * packed_float_int((int)(low | high << 4) - 32);
}

/* Returns, for row r, the minimum of the j-th run that lane q computes: a weight is scale * code + minimum. */
GA_DEV float packed_own_min(int t, const uint32_t *s, int j, int q, int r) {
  if (!PACKED_256(t)) return packed_f16(s[1], r);
  if (t == T_Q2_K)
    return -packed_f16(s[8 + r], 1) * (packed_lift_byte(s[4 * r + j] >> 4 & 0x0f0f0f0fu, q) - 8388608.0f);
  const uint32_t *p = s + 4 * r,
                 all = j == 0 ? p[1] & 0x3f3f3f3fu : and_or(p[1] >> 2, 0x30303030u, p[2] >> 4 & 0x0f0f0f0fu);
  return -packed_f16(p[3], 1) * (packed_lift_byte(all, q) - 8388608.0f);
}

/* Computes *run, the j-th run that lane q computes, from the lane's words of scales. An infinite scale keeps its sign,
 * with a finite low part and centre 0. */
GA_DEV void packed_own_run(int t, const uint32_t *s, int j, int q, packed_run *run) {
  float scale[2], low[2], offset[2];
  uint32_t centre[2];
  GA_UNROLL for (int r = 0; r < 2; r++) scale[r] = packed_own_scale(t, s, j, q, r);
  run->high = pack_bf16(scale[0], scale[1]);
  if (!PACKED_EXACT_SCALE(t)) {
    GA_UNROLL for (int r = 0; r < 2; r++) {
      const float rest = scale[r] - __uint_as_float(r ? run->high & 0xffff0000u : run->high << 16);
      /* An infinite scale makes `rest` NaN, and fmaxf returns its other operand for a NaN. Low parts of finite f16
       * scales are above -2^14, so that fmaxf keeps them. */
      low[r] = !PACKED_ONE_RUN(t) ? fmaxf(rest, -16384.0f) : rest != rest ? 0.0f : rest;
    }
    run->low = pack_bf16(low[0], low[1]);
  }
  if (!PACKED_MIN(t)) return;
  GA_UNROLL for (int r = 0; r < 2; r++) {
    const float min = packed_own_min(t, s, j, q, r);
    const float lifted = fminf(fmaxf(-min * rcp(scale[r]), 0.0f), PACKED_TOP(t)) + 12582912.0f /* 1.5 * 2^23 */,
                c = lifted - 12582912.0f;
    centre[r] = float_bits(lifted);
    offset[r] = c > 0.0f ? fmaf(c, scale[r], min) : min;
  }
  run->centre = prmt(centre[0], centre[1], 0x5410u) + 0xc300c300u;
  run->offset = pack_bf16(offset[0], offset[1]);
}

/* Gets run n of the unit from the lane of the quad that computed it. */
GA_DEV void packed_get_run(int t, const packed_run *own, int n, packed_run *run) {
  const packed_run *from = &own[PACKED_OWN_AT(t, n)];
  if (PACKED_ONE_RUN(t)) {
    *run = own[0];
    return;
  }
  run->high = shfl_quad_u32(from->high, PACKED_OWNER(t, n));
  if (!PACKED_EXACT_SCALE(t)) run->low = shfl_quad_u32(from->low, PACKED_OWNER(t, n));
  if (!PACKED_MIN(t)) return;
  run->centre = shfl_quad_u32(from->centre, PACKED_OWNER(t, n));
  run->offset = shfl_quad_u32(from->offset, PACKED_OWNER(t, n));
}

/* Computes the fragment of operand A of step `step` of a group, from the group's codes and its run. */
GA_DEV void packed_weights(int t, const uint32_t *w, const packed_run *run, int group, int step, uint32_t *a) {
  if (!PACKED_MIN(t)) packed_step(t, w, group, step, a);
  GA_UNROLL for (int j = 0; j < 4; j++) {
    const int r = j % 2;
    uint32_t rest = 0x80008000u; /* -0: adding it keeps the sign of a zero */
    if (PACKED_MIN(t)) {
      a[j] = add_bf16x2(packed_lifted(t, w, group, step, j), twice_16(run->centre, r));
      rest = twice_16(run->offset, r);
    }
    if (!PACKED_EXACT_SCALE(t)) rest = fma_bf16x2(a[j], twice_16(run->low, r), rest);
    a[j] = fma_bf16x2(a[j], twice_16(run->high, r), rest);
  }
}

/* Computes the fragments of operand A of 64 columns of a unit: 4 registers for every 16 columns. */
GA_DEV void packed_chunk(int t, const uint32_t *w, const packed_run *own, int chunk, uint32_t *f) {
  packed_run run;
  GA_UNROLL for (int i = 0; i < 4; i++) {
    const int group = 2 * chunk + i / 2, step = i % 2;
    if (PACKED_HALVES(t))
      packed_get_run(t, own, 2 * group + step, &run);
    else if (step == 0)
      packed_get_run(t, own, group, &run);
    packed_weights(t, w, &run, group, step, f + 4 * i);
  }
}
