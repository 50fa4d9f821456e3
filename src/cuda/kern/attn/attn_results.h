/* The results of attn_fwd_sm90a.cu: functions that write O and the log-sum-exp. */
#pragma once
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/attn/attn_fwd_warpgroup.h"
#include "cuda/kern/attn/attn_lse.h"
#include "cuda/kern/attn/attn_store.h"
#include "cuda/kern/attn/attn_tiles.h"

/* Returns the index of this lane's row g (h = 0) or g+8 (h = 1) in the arrays lse, state_m and state_l. `first` is the
 * query of row g. */
GA_DEV int64_t row_at(const warpgroup *c, const tile_coord *t, int first, int h) {
  const int before = EXTRAS && c->at.a->lse_stride_batch == 0 ? t->start_q : 0;
  return t->batch * c->at.a->lse_stride_batch + row_head(&c->at, t->head, h) * c->at.a->lse_stride_head + before +
         query_of(&c->at, t, first, h);
}
/* Stores this warp's 16 rows of O to shared memory, then issues one bulk store per panel. The function first waits
 * until the stores of the previous tile have read this shared memory. */
GA_DEV void store_bulk(const warpgroup *c, const float *o, const float *v, const tile_coord *t) {
  const uint32_t so = c->at.sb + OFF_O + c->at.w * O_BYTES + c->at.wl * PANELS_V * O_PANEL;
  const uint32_t k0 = keep_bits(v[0]), k1 = keep_bits(v[1]);
  if (c->at.lane == 0) bulk_wait_read();
  warp_sync();
  GA_UNROLL for (int j = 0; j < DV / 16; j++) stmatrix_x4(
      panel_chunk(so + (j / 4) * O_PANEL, (uint32_t)(c->at.lane & 15), (uint32_t)((j % 4) * 2 + (c->at.lane >> 4))),
      PACK(o[8 * j] * v[0], o[8 * j + 1] * v[0]) & k0, PACK(o[8 * j + 2] * v[1], o[8 * j + 3] * v[1]) & k1,
      PACK(o[8 * j + 4] * v[0], o[8 * j + 5] * v[0]) & k0, PACK(o[8 * j + 6] * v[1], o[8 * j + 7] * v[1]) & k1);
  fence_async_smem(); /* orders stmatrix before the copy engine's reads */
  warp_sync();
  if (c->at.lane == 0) {
    GA_UNROLL for (int i = 0; i < PANELS_V; i++) bulk_store_4d(
        &c->at.a->o, so + i * O_PANEL, i * PANEL_COLS, t->row0 + c->at.w * 64 + c->at.wl * 16, t->head, t->batch);
    bulk_commit();
  }
}
/* Loads the state (O, m, l) that an earlier launch stored for the rows of the current tile. One lane of the four of a
 * row gets l, the others get 0. */
GA_DEV void load_state(const warpgroup *c, float *o, float *m, float *l) {
  args a = c->at.a;
  const tile_coord t = tile_coord_of(tile_slot(c, 1));
  const int row = row_query(&c->at, t.row0, 0);
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const int in = row_in(&c->at, &t, row, h);
    const int64_t r = row_at(c, &t, row, h);
    const float *o0 = a->state_o + r * a->cols_v + c->at.q2;
    m[h] = in ? ldg_f32(a->state_m + r) : GA_NEG_INF;
    l[h] = in && (c->at.lane & 3) == 0 ? ldg_f32(a->state_l + r) : 0.f;
    GA_UNROLL for (int j = 0; j < DV / 8; j++) GA_UNROLL for (int e = 0; e < 2; e++) o[4 * j + 2 * h + e] =
        in && 8 * j < a->cols_v ? ldg_f32(o0 + 8 * j + e) : 0.f;
  }
}
/* Stores the state (O, m, l) of the tile's rows for a later launch. */
GA_DEV void store_state(const warpgroup *c, const float *o, const float *m, const float *l, const tile_coord *t,
                        int row) {
  args a = c->at.a;
  warp_sync(); /* orders the four lanes' reads of m before the writes */
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const int64_t r = row_at(c, t, row, h);
    float *o0 = a->state_o + r * a->cols_v + c->at.q2;
    if (!row_in(&c->at, t, row, h)) continue;
    if ((c->at.lane & 3) == 0) {
      stg_f32(a->state_m + r, m[h]);
      stg_f32(a->state_l + r, l[h]);
    }
    GA_UNROLL for (int j = 0; j < DV / 8; j++) GA_UNROLL for (int e = 0; e < 2; e++) if (8 * j < a->cols_v)
        stg_f32(o0 + 8 * j + e, l[h] == 0.f ? 0.f : o[4 * j + 2 * h + e]);
  }
}
/* ---- partial results of a tile whose keys are divided among blocks (splits) ---- */
enum {
  /* Number of floats of a group, which a lane stores at once. The first group is m and l of both rows; each further
   * group is two columns of O of both rows. */
  LANE_FLOATS = 4,
  SPLIT_FLOATS = 32 * (LANE_FLOATS + DV / 2), /* Number of floats that a warp stores for a split. */
  AT_ONCE = DV == 128 ? 3
                      /* Number of splits that are loaded together: a load from L2 takes longer than the computation on
                       * its data. */
                      : 2,
  GROUP = 8 /* Number of groups of four floats of O that are added together. */
};
static_assert(!SPLITS || DV / 8 % GROUP == 0, "whole groups of O");
/* Returns the address, in the workspace, of this lane's data of split 0 for the warp's rows of a tile. */
GA_DEV float *split_rows(const warpgroup *c, int tile) {
  const int64_t warp = ((int64_t)tile * WGS + c->at.w) * 4 + c->at.wl;
  return c->at.a->partial + warp * c->at.a->splits * SPLIT_FLOATS + c->at.lane * LANE_FLOATS;
}
GA_DEV void store_split(float *at, const float *o, const float *m, const float *l) {
  const float sums[4] = {m[0], m[1], l[0], l[1]};
  stg_f4(at, sums);
  GA_UNROLL for (int j = 0; j < DV / 8; j++) {
    float x[4];
    GA_UNROLL for (int i = 0; i < 4; i++) x[i] = l[i / 2] == 0.f ? 0.f : o[4 * j + i];
    stg_f4(at + 32 * LANE_FLOATS * (j + 1), x);
  }
}
/* Loads m and l of AT_ONCE splits from split s on to x. Splits from `pieces` on do not exist; their m is set to
 * -infinity. */
GA_DEV void load_sums(const float *at, float (*x)[4], int s, int pieces) {
  GA_UNROLL for (int i = 0; i < AT_ONCE; i++) ldg_f4(x[i], at + imin(s + i, pieces - 1) * SPLIT_FLOATS);
  GA_UNROLL for (int i = 0; i < AT_ONCE; i++) if (s + i >= pieces) x[i][0] = x[i][1] = GA_NEG_INF;
}
/* Adds the weighted O of all splits, in their order, for GROUP groups of four floats from group j on. top has the rows'
 * maxima over all splits. The call for the first groups also adds l. */
GA_DEV void add_group(const float *at, float *o, float *l, const float *top, int j, int pieces) {
  GA_ROLL for (int s = 0; s < pieces; s += AT_ONCE) {
    float sums[AT_ONCE][4], x[AT_ONCE][GROUP][4];
    load_sums(at, sums, s, pieces);
    GA_UNROLL for (int i = 0; i < AT_ONCE; i++) GA_UNROLL for (int g = 0; g < GROUP; g++)
        ldg_f4(x[i][g], at + imin(s + i, pieces - 1) * SPLIT_FLOATS + 32 * LANE_FLOATS * (j + g + 1));
    GA_UNROLL for (int i = 0; i < AT_ONCE; i++) GA_UNROLL for (int h = 0; h < 2; h++) {
      const float m = sums[i][h], weight = m == GA_NEG_INF ? 0.f : ex2(m - top[h]);
      if (j == 0) l[h] += weight * sums[i][2 + h];
      GA_UNROLL for (int g = 0; g < GROUP; g++) GA_UNROLL for (int e = 0; e < 2; e++) o[4 * (j + g) + 2 * h + e] +=
          weight * x[i][g][2 * h + e];
    }
  }
}
/* Writes this warp's rows of a split to the workspace. Returns 1 if this split is the last to finish for these rows.
 * Then o, m and l become the sums over all splits, added in the order of the splits. */
GA_DEV int join_splits(const warpgroup *c, float *o, float *m, float *l, const tile_coord *t, int split, int pieces) {
  args a = c->at.a;
  const int tile = (t->batch * a->heads_q + t->head) * a->tiles_per_head + t->row0 / tile_queries(a);
  int32_t *count = a->counter + 2 + (tile * WGS + c->at.w) * 4 + c->at.wl;
  float *at = split_rows(c, tile);
  store_split(at + split * SPLIT_FLOATS, o, m, l);
  warp_sync();
  int before = 0;
  if (c->at.lane == 0) {
    fence_device(); /* publishes the warp's writes, which warp_sync made visible to this lane */
    before = atomic_add_i32(count, 1);
    fence_device();
  }
  before = warp_uniform(before);
  warp_sync(); /* makes the writes that lane 0 has observed visible to all lanes */
  if (before != pieces - 1) return 0;
  if (c->at.lane == 0) stg_i32(count, 0); /* resets the counter for the next launch */
  float top[2] = {GA_NEG_INF, GA_NEG_INF};
  GA_ROLL for (int s = 0; s < pieces; s += AT_ONCE) {
    float sums[AT_ONCE][4];
    load_sums(at, sums, s, pieces);
    GA_UNROLL for (int i = 0; i < AT_ONCE; i++) GA_UNROLL for (int h = 0; h < 2; h++) top[h] =
        fmaxf(top[h], sums[i][h]);
  }
  m[0] = top[0];
  m[1] = top[1];
  l[0] = l[1] = 0.f;
  tile_fill(o, DV, 0.f);
  GA_UNROLL for (int j = 0; j < DV / 8; j += GROUP) add_group(at, o, l, top, j, pieces);
  return 1;
}
/* Adds to the row sums a column that has no value and whose logit is the head's sink. Rows that see no key are
 * unchanged. v becomes the factors by which O must be multiplied. */
GA_DEV void add_sink(const warpgroup *c, const tile_coord *t, const float *m, float *ref, float *l, float *v) {
  GA_UNROLL for (int i = 0; i < 2; i++) {
    if (m[i] == GA_NEG_INF) continue;
    const float sink = ldg_f32(c->at.a->sink + row_head(&c->at, t->head, i)) * LOG2E;
    const float top = fmaxf(ref[i], sink);
    v[i] = ex2(ref[i] - top);
    l[i] = l[i] * v[i] + ex2(sink - top);
    ref[i] = top;
  }
}
/* Divides O by the row sums, and writes O and lse of the tile whose record is `back` records before the current record.
 * With splits or stored states, writes partial results instead. */
GA_DEV void epilogue(const warpgroup *c, float *o, float *m, float *l, int back) {
  args a = c->at.a;
  const tile_coord t = tile_coord_of(tile_slot(c, back));
  const int row = row_query(&c->at, t.row0, 0);
  float v[2] = {1.f, 1.f}, ref[2];
  l[0] = quad_sum(l[0]);
  l[1] = quad_sum(l[1]);
  const int which = SPLITS ? lds_i4(tile_slot(c, back) + 16).w : 0, pieces = which >> 16;
  if (SPLITS && pieces > 1) {
    if (!join_splits(c, o, m, l, &t, which >> 1 & 0x7fff, pieces)) return;
  } else if (CARRY && a->features & GA_KATTN_STATE_OUT) {
    store_state(c, o, m, l, &t, row);
    return;
  }
  reference(m, ref);
  if (EXTRAS && (a->features & GA_KATTN_SINK)) add_sink(c, &t, m, ref, l, v);
  GA_UNROLL for (int i = 0; i < 2; i++) v[i] = l[i] == 0.f ? 0.f : v[i] * rcp(l[i]);
  if (a->lse && (c->at.lane & 3) == 0) GA_UNROLL
    for (int h = 0; h < 2; h++)
      if (row_in(&c->at, &t, row, h)) stg_f32(a->lse + row_at(c, &t, row, h), log_sum(a, ref[h], l[h]));
  if (STORE_REG)
    store_direct(&c->at, o, v, &t);
  else
    store_bulk(c, o, v, &t);
}
