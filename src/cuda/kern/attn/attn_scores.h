/* Functions that apply soft-cap, ALiBi and mask to S = Q K^T (attn_fwd_sm90a.cu). */
#pragma once
#include "cuda/kern/attn/attn_stretch_mask.h"

/* Returns the factor from S to logits in log2 units. With EXTRAS apply_features has already scaled S, and the factor is
 * 1. */
GA_DEV float log2_factor(args a) { return EXTRAS ? 1.f : a->scale_log2; }
/* Returns tanh x with an error of 2^-22. For small |x|, where the difference of exponentials would cancel, it uses a
 * series. tanh.approx has an error of 2^-11. */
GA_DEV float tanh_accurate(float x) {
  const float z = x * x, wide = 1.f - 2.f * rcp(ex2(fabsf(x) * (2.f * LOG2E)) + 1.f);
  const float near = fmaf(z * x, fmaf(z, fmaf(z, fmaf(z, 62.f / 2835.f, -17.f / 315.f), 2.f / 15.f), -1.f / 3.f), x);
  return fabsf(x) < 0.3f ? near : copysignf(wide, x);
}
/* Scales S of block n of the keys to log2 units, and applies soft-cap and ALiBi to it. Does nothing without EXTRAS. */
GA_DEV void apply_features(const warpgroup *c, float *s, int n) {
  if (!EXTRAS) return;
  args a = c->at.a;
  if (a->features & GA_KATTN_SOFTCAP) {
    const float in = a->softcap_in, out = a->softcap_out;
    GA_UNROLL for (int i = 0; i < NS; i++) s[i] = tanh_accurate(s[i] * in) * out;
  } else {
    const float f = a->scale_log2;
    GA_UNROLL for (int i = 0; i < NS; i++) s[i] *= f;
  }
  pin_f32(s, NS); /* keeps the two loops separate: a merged loop would hold two copies of S */
  if (a->features & GA_KATTN_ALIBI) {
    const int head = lds_i4(tile_slot(c, 1)).y, column = lds_i4(tile_slot(c, 1) + 32).w;
    GA_UNROLL for (int h = 0; h < 2; h++) {
      const float slope = ldg_f32(a->slope + row_head(&c->at, head, h)) * LOG2E;
      const float x0 = (float)(n * BN + c->at.q2 - row_query(&c->at, column, h));
      GA_UNROLL for (int i = 0; i < NS / 2; i++) s[4 * (i / 2) + 2 * h + i % 2] +=
          slope * (x0 + (float)(8 * (i / 2) + i % 2));
    }
  }
  pin_f32(s, NS);
}
GA_DEV void apply_mask(const warpgroup *c, float *s, int n) {
  if (STRETCH) {
    mask_stretch(c, s, n);
    return;
  }
  /* t.x, t.y, t.z, t.w: rows_q, rows_k, start_q and column of the tile's record */
  const ga_i4 t = lds_i4(tile_slot(c, 1) + 32);
  const int base = n * BN, last = t.y - 1 - base;
  const int at0 = row_query(&c->at, t.w, 0) - base, at1 = PACKS ? row_query(&c->at, t.w, 1) - base : at0 + 8;
  const int right = WINDOW ? c->at.a->window_right : 0;
  int hi0 = last, hi1 = last;
  if (MASKED) {
    hi0 = imin(hi0, at0 + right);
    hi1 = imin(hi1, at1 + right);
  }
  if (MASKED || last < BN - 1) tile_mask_above(s, BN, hi0, hi1, c->at.q2);
  if (WINDOW) tile_mask_below(s, BN, at0 - c->at.a->window_left, at1 - c->at.a->window_left, c->at.q2);
}
