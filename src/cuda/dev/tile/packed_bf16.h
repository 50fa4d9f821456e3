/* GA_LAYOUT_T16 (packed.h) as weights in bf16, two at once: (code - centre) * scale + (min + centre * scale), the difference exact, scale and
 * offset rounded to bf16 before, the result once more. The centre keeps the offset small against the scale, and with it its rounding: a
 * weight is off by less than 2^-8 of scale * (code - centre) and 2^-9 of the offset. t and every index are constants once unrolled. */
#pragma once
#include "cuda/dev/tile/packed.h"

#define PACKED_CENTRE(t) ((t) == T_Q4_1 || (t) == T_Q4_K ? 8 : (t) == T_Q5_1 || (t) == T_Q5_K ? 16 : (t) == T_Q2_K ? 2 : 0)

/* Byte i of w, and the same as a signed one, without the slow conversion of integers. */
GA_DEV float packed_float_byte(uint32_t w, int i) {
  return __uint_as_float(prmt(w, 0x4b000000u, 0x7440u | (uint32_t)i)) - 8388608.0f; /* 2^23 + the byte */
}
GA_DEV float packed_float_signed(uint32_t w, int i) {
  return __uint_as_float(prmt(w ^ 0x80808080u, 0x4b000000u, 0x7440u | (uint32_t)i)) - 8388736.0f;
}
/* |i| < 2^22 */
GA_DEV float packed_float_int(int i) { return __uint_as_float(0x4b400000u + (uint32_t)i) - 12582912.0f; }

/* packed_scale. */
GA_DEV float packed_scale_fast(int t, const uint32_t *s, int group, int half, int r) {
  const int run = 2 * group + half;
  if (t == T_NVFP4) return 0.5f * packed_f16(f16x2_of_e4m3(s[group] >> 16 * half & 0x7f7fu), r); /* no NaN: pack_sm80.cu */
  if (!PACKED_256(t)) return packed_scale(t, s, group, half, r);
  if (t == T_Q4_K || t == T_Q5_K) {
    const uint32_t *p = s + 4 * r, all = group < 4 ? p[0] & 0x3f3f3f3fu : and_or(p[0] >> 2, 0x30303030u, p[2] & 0x0f0f0f0fu);
    return packed_f16(p[3], 0) * packed_float_byte(all, group % 4);
  }
  if (t == T_Q6_K) return packed_f16(s[8], r) * packed_float_signed(s[4 * r + run / 4], run % 4);
  if (t == T_Q2_K) return packed_f16(s[8 + r], 0) * packed_float_byte(s[4 * r + run / 4] & 0x0f0f0f0fu, run % 4);
  return packed_f16(t == T_Q3_K ? s[6] : s[2 * r], t == T_Q3_K ? r : 0) * packed_float_int(packed_int_scale(t, s, group, half, r));
}
/* packed_min. */
GA_DEV float packed_min_fast(int t, const uint32_t *s, int group, int half, int r) {
  const int run = 2 * group + half;
  if (t == T_Q4_K || t == T_Q5_K) {
    const uint32_t *p = s + 4 * r, all = group < 4 ? p[1] & 0x3f3f3f3fu : and_or(p[1] >> 2, 0x30303030u, p[2] >> 4 & 0x0f0f0f0fu);
    return -packed_f16(p[3], 1) * packed_float_byte(all, group % 4);
  }
  if (t == T_Q2_K) return -packed_f16(s[8 + r], 1) * packed_float_byte(s[4 * r + run / 4] >> 4 & 0x0f0f0f0fu, run % 4);
  return packed_min(t, s, group, half, r);
}

/* The A fragment of one step of a group: registers j = 2h + r. */
GA_DEV void packed_weights(int t, const uint32_t *w, int group, int step, uint32_t *a) {
  packed_centred(t, w, group, step, PACKED_CENTRE(t), a);
  GA_UNROLL for (int r = 0; r < 2; r++) {
    const float scale = packed_scale_fast(t, w + PACKED_CODES(t), group, PACKED_HALVES(t) ? step : 0, r);
    const uint32_t two = pack_bf16(scale, scale);
    if (PACKED_MIN(t)) {
      const float min = packed_min_fast(t, w + PACKED_CODES(t), group, PACKED_HALVES(t) ? step : 0, r);
      const float offset = fmaf((float)PACKED_CENTRE(t), scale, min);
      GA_UNROLL for (int h = 0; h < 2; h++) a[2 * h + r] = fma_bf16x2(a[2 * h + r], two, pack_bf16(offset, offset));
    } else {
      GA_UNROLL for (int h = 0; h < 2; h++) a[2 * h + r] = mul_bf16x2(a[2 * h + r], two);
    }
  }
}
