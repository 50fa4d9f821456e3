/* Consumers of the schedule `fast_sum` (attn_fp8_sm90a.cu). S of the next block and P V of the current block are issued
 * together. P V accumulates over all keys of a row, in sums that are truncated to 13 fraction bits (GA_ATTN_FAST_SUM).
 *
 * V's scale, at least 2^-100, is part of the weights, 2^(x + lg2 scale - m), so that sums of blocks need no factors.
 * The sums l of weights divide it out again for every 64 keys.
 *
 * A row's reference m is raised only when the exponent of one of its weights exceeds a limit. The limit depends on V's
 * scale in the current block. */
#pragma once
#include "cuda/dev/ptx/words.h"
#include "cuda/kern/attn_fp8/attn_fp8_products.h"
#include "cuda/kern/attn_fp8/attn_fp8_results.h"
#include "cuda/kern/attn_fp8/attn_fp8_softmax.h"

typedef struct {
  float s[NS], o[NO];
  uint32_t p[NP];
  float m[2], l[2];
} fast_sum_state;

/* Issues O += P V with the current stage of V. */
GA_DEV void fast_sum_values(const warpgroup *c, fast_sum_state *f) {
  const uint32_t v = c->desc_v + stage_v(c) * (V_STAGE >> 4);
  pin_u32(f->p, NP);
  pin_f32(f->o, NO);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < BN / 32; k++)
      PV(f->o, f->p + 4 * k, V_KEYS == 128 ? desc(v + 2 * k) : desc_64(v + k / 2 * (DV * 64 >> 4) + 2 * (k % 2)), 1);
  wgmma_commit();
}
/* Issues S of the next block, then P V of the current block. */
GA_DEV void fast_sum_issue(warpgroup *c, fast_sum_state *f) {
  wait_k(c);
  pingpong_wait(c, 1);
  issue_qk(c, f->s);
  wait_v(c);
  fast_sum_values(c, f);
  pingpong_signal(c, 1);
}
/* Waits for all products and releases V. No product is in flight afterwards. */
GA_DEV void fast_sum_values_end(const warpgroup *c, fast_sum_state *f) {
  wgmma_wait(0);
  pin_u32(f->p, NP);
  pin_f32(f->o, NO);
  release_v(c);
}
GA_DEV void fast_sum_begin(fast_sum_state *f) {
  tile_fill(f->o, DV, 0.f);
  f->m[0] = f->m[1] = GA_NEG_INF;
  f->l[0] = f->l[1] = 0.f;
}
/* Loads three arrays of scales, one entry for every 64 keys of the current block: K's scales, log2 of V's scales, and
 * inverses of V's scales. */
GA_DEV void fast_sum_scales(const warpgroup *c, float *x) {
  const uint32_t slot = c->at.sb + OFF_SCALE + (c->parity_k * ST + c->stage_k) * SCALE_BYTES;
  GA_UNROLL for (int i = 0; i < 3 * SUBS / 4; i++) lds_f4(x + 4 * i, slot + 16 * i);
  GA_UNROLL for (int i = 3 * SUBS / 4 * 4; i < 3 * SUBS; i++) x[i] = lds_f1(slot + 4 * i);
}
GA_DEV void fast_sum_exponents(const warpgroup *c, float *s, const float *x, const float *m) {
  GA_UNROLL for (int h = 0; h < SUBS; h++) {
    float f[2];
    const float ref[2] = {m[0] - x[SUBS + h], m[1] - x[SUBS + h]};
    row_factors(c, x[h], f);
    exponents(s, h, f, ref);
  }
}
/* Computes the block's weights from the exponents, and adds them to l. Signals the next warpgroup after the weights of
 * the first 64 keys. */
GA_DEV void fast_sum_weights(const warpgroup *c, fast_sum_state *f, const float *x) {
  GA_UNROLL for (int h = 0; h < SUBS; h++) {
    float sum[2] = {0.f, 0.f};
    weights(f->s + SUB * h, f->p + 8 * h, sum);
    weights(f->s + SUB * h + 16, f->p + 8 * h + 4, sum);
    GA_UNROLL for (int i = 0; i < 2; i++) f->l[i] = fmaf(sum[i], x[2 * SUBS + h], f->l[i]);
    if (h == 0) pingpong_signal_after(c, f->p + 4);
  }
}
/* Processes a block that neither begins a tile nor is masked: every row has seen a key before. The product P V ends
 * after the exponents are computed and before the exponentials, so that weights need no registers of their own. */
GA_DEV void fast_sum_fast(warpgroup *c, fast_sum_state *f) {
  float x[4 * SCALES], limit[2], factor[2];
  int most[2] = {0, 0};
  fast_sum_issue(c, f);
  fast_sum_scales(c, x);
  float least = x[SUBS];
  GA_UNROLL for (int h = 1; h < SUBS; h++) least = fminf(least, x[SUBS + h]);
  GA_UNROLL for (int i = 0; i < 2; i++) limit[i] = fminf(fmaxf(lg2(f->l[i]) + least - 2.f, OFFSET), LIMIT);
  wgmma_wait(1);
  pin_f32(f->s, NS);
  numbers(f->s, NS);
  release_k(c);
  fast_sum_exponents(c, f->s, x, f->m);
  GA_UNROLL for (int h = 0; h < SUBS; h++) largest_logits(f->s, h, most);
  pingpong_wait(c, 2);
  const int raise = warp_any(most[0] > bits_of(limit[0]) || most[1] > bits_of(limit[1]));
  if (raise) raise_reference(f->s, f->m, f->l, 0, 0, factor);
  fast_sum_values_end(c, f);
  if (raise) tile_scale_rows(f->o, DV, factor);
  fast_sum_weights(c, f, x);
}
/* Computes the weights of a block from its S. The block begins a tile (edge = 1) or is masked. */
GA_DEV void fast_sum_softmax(const warpgroup *c, fast_sum_state *f, int edge) {
  float x[4 * SCALES], ref[2], factor[2];
  pin_f32(f->s, NS);
  numbers(f->s, NS);
  apply_mask(c, f->s);
  fast_sum_scales(c, x);
  reference(f->m, ref);
  fast_sum_exponents(c, f->s, x, ref);
  release_k(c);
  pingpong_wait(c, 2);
  raise_reference(f->s, f->m, f->l, 0, 0, factor);
  if (!edge) tile_scale_rows(f->o, DV, factor);
  fast_sum_weights(c, f, x);
}
/* Processes a block that begins a tile or is masked, and is not this warpgroup's first. With edge = 1 it begins a tile,
 * and the function also writes the results of the previous tile. */
GA_DEV void fast_sum_slow(warpgroup *c, fast_sum_state *f, int edge) {
  fast_sum_issue(c, f);
  fast_sum_values_end(c, f);
  if (edge) {
    finish_tile(c, f->o, f->m, f->l, f->l, 2);
    fast_sum_begin(f);
  }
  fast_sum_softmax(c, f, edge);
}
GA_DEV void consume_fast_sum(warpgroup *c) {
  fast_sum_state f;
  next_tile(c);
  if (c->n < 0) return;
  wait_k(c);
  pingpong_wait(c, 1);
  issue_qk(c, f.s);
  pingpong_signal(c, 1);
  wgmma_wait(0);
  fast_sum_begin(&f);
  fast_sum_softmax(c, &f, 1);
  GA_ROLL for (;;) {
    const int edge = c->n == 0;
    advance(c);
    if (edge)
      next_tile(c);
    else
      c->n--;
    if (c->n < 0) break;
    if (!edge && (!MASKED || c->n < c->mask_hi))
      fast_sum_fast(c, &f);
    else
      fast_sum_slow(c, &f, edge);
  }
  pingpong_wait(c, 1);
  wait_v(c);
  fast_sum_values(c, &f);
  fast_sum_values_end(c, &f);
  finish_tile(c, f.o, f.m, f.l, f.l, 2);
  pingpong_signal(c, 1);
}
