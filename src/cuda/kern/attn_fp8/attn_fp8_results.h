/* The results of attn_fp8_sm90a.cu: O, with the means of V added, and the log-sum-exp. */
#pragma once
#include "cuda/dev/tile/quad.h"
#include "cuda/kern/attn/attn_lse.h"
#include "cuda/kern/attn/attn_store.h"
#include "cuda/kern/attn_fp8/attn_fp8_warpgroup.h"

/* Multiplies the rows of O by their factors v and adds the means of V's columns. v becomes 1 for rows that have seen a
 * key and stays 0 for others. */
GA_DEV void add_means(const warpgroup *c, float *o, float *v, const tile_coord *t, int back) {
  args a = c->at.a;
  const float *mean = fp8_args(a)->v_mean + (int64_t)((t->batch * a->heads_q + t->head) / a->group) * DV + c->at.q2;
  const uint32_t here = c->at.sb + OFF_MEAN + ((c->tiles - back) % TILE_SLOTS) * 4 * DV + 4 * c->at.q2;
  float first[DV / 8]; /* a value of each load, on which the wait depends */
  GA_UNROLL for (int j = 0; j < DV / 8; j++) {
    float x[2];
    if (FAST_SUM)
      lds_f2(x, here + 32 * j);
    else
      x[0] = ldg_f32(mean + 8 * j), x[1] = ldg_f32(mean + 8 * j + 1);
    GA_UNROLL for (int e = 0; e < 4; e++) o[4 * j + e] = fmaf(o[4 * j + e], v[e / 2], x[e % 2]);
    first[j] = x[0];
  }
  const float one = FAST_SUM ? 1.f + (float)loads_done_f32(first, DV / 8, 1)
                             /* Waits until the means are loaded: Q's release, which follows, lets the producer
                              * overwrite them. */
                             : 1.f;
  GA_UNROLL for (int i = 0; i < 2; i++) v[i] = v[i] == 0.f ? 0.f : one;
}
/* Divides O by the rows' sums of weights: with DV64 by w, the sums of weights rounded to e4m3, otherwise by l. Writes
 * O and lse of the tile whose record is `back` records before the current record. */
GA_DEV void finish_tile(const warpgroup *c, float *o, float *m, float *l, float *w, int back) {
  args a = c->at.a;
  const tile_coord t = tile_coord_of(tile_slot(c, back));
  const int row = t.row0 + c->at.w * 64 + c->at.wl * 16 + c->at.g;
  float v[2], ref[2];
  GA_UNROLL for (int i = 0; i < 2; i++) {
    l[i] = quad_sum(l[i]);
    const float all = DV64 ? w[i] : l[i];
    v[i] = all == 0.f ? 0.f : rcp(all);
  }
  reference(m, ref);
  if (a->lse && (c->at.lane & 3) == 0) {
    float *lse = a->lse + t.batch * a->lse_stride_batch + t.head * a->lse_stride_head;
    if (row < t.rows_q) stg_f32(lse + row, log_sum(a, ref[0], l[0]));
    if (row + 8 < t.rows_q) stg_f32(lse + row + 8, log_sum(a, ref[1], l[1]));
  }
  if (fp8_args(a)->v_mean) add_means(c, o, v, &t, back);
  store_direct(&c->at, o, v, &t);
}
