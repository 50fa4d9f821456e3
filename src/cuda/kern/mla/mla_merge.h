/* Latent attention: results of a unit's rows, from one block or from the partial results of all its splits, which the
 * last block merges in their order.
 *
 * A row's state is its unnormalised O, its maximum m in log2 units (logits times log2 e) and its sum of weights l,
 * where a weight is 2^(x - m). A row that has seen no token has m = -infinity and l = 0. */
#pragma once
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/mla/mla_packed.h"

enum { MLA_IN_FLIGHT = 8 /* partial results that a thread loads at once */ };

/* Returns the floats of a row of partial results: O in whole quads, of which all columns are
 * written, m, l and two that are not used. */
GA_DEV int mla_partial_floats(int v_dim) { return (v_dim + 3) / 4 * 4 + 4; }

/* Returns the partial result of row r of the unit's split. */
GA_DEV float *mla_partial_at(const ga_kargs_mla *a, int unit, int split, int rows_of_tile, int r) {
  return a->partial + (((int64_t)unit * a->splits + split) * rows_of_tile + r) * mla_partial_floats(a->v_dim);
}

/* Returns the number that is subtracted from logits before the exponential: 0 for a row that has seen no token, so that
 * 2^(-inf - 0) = 0. */
GA_DEV float mla_reference(float m) { return m == GA_NEG_INFINITY ? 0.0f : m; }

/* Four columns of a row, and its m and l. */
typedef struct {
  float m, l, o[4];
} mla_quad;

/* Adds MLA_IN_FLIGHT partial results, of which the first `there` exist, to r. */
GA_DEV void mla_quad_add(mla_quad *r, int there, const float *m, const float *l, float o[][4]) {
  float most = r->m;
  GA_UNROLL for (int e = 0; e < MLA_IN_FLIGHT; e++) if (e < there) most = fmaxf(most, m[e]);
  const float ref = mla_reference(most), shrink = ex2(r->m - ref);
  r->m = most;
  r->l *= shrink;
  GA_UNROLL for (int i = 0; i < 4; i++) r->o[i] *= shrink;
  GA_UNROLL for (int e = 0; e < MLA_IN_FLIGHT; e++) {
    if (e >= there) continue;
    const float weight = ex2(m[e] - ref);
    r->l += weight * l[e];
    GA_UNROLL for (int i = 0; i < 4; i++) r->o[i] += weight * o[e][i];
  }
}

/* Merges columns c to c + 3 of the partial results of `parts` splits, the first at `at`. */
GA_DEV mla_quad mla_merge_quad(const ga_kargs_mla *a, const float *at, int64_t step, int parts, int c) {
  mla_quad sum = {GA_NEG_INFINITY, 0, {0, 0, 0, 0}};
  const int ml_at = mla_partial_floats(a->v_dim) - 4;
  GA_ROLL for (int first = 0; first < parts; first += MLA_IN_FLIGHT) {
    float m[MLA_IN_FLIGHT], l[MLA_IN_FLIGHT], o[MLA_IN_FLIGHT][4];
    GA_UNROLL for (int e = 0; e < MLA_IN_FLIGHT; e++) {
      const float *p = at + (first + e < parts ? first + e : parts - 1) * step;
      ldg_f4(o[e], p + c);
      m[e] = ldg_f32(p + ml_at);
      l[e] = ldg_f32(p + ml_at + 1);
    }
    mla_quad_add(&sum, parts - first, m, l, o);
  }
  return sum;
}

/* Returns the log-sum-exp of a row, natural log: -infinity if it has seen no token. */
GA_DEV float mla_lse(float m, float l) {
  return m == GA_NEG_INFINITY && l == 0 ? GA_NEG_INFINITY : fmaf(m, 0.693147181f /* ln 2 */, logf(l));
}

/* Writes n columns from column c on of packed row r of O, and for c = 0 its log-sum-exp. o is unnormalised. */
GA_DEV void mla_finish(const ga_kargs_mla *a, const mla_unit *u, int r, int c, int n, float m, float l,
                       const float *o) {
  const int head = mla_head_of(a, u, r);
  const int64_t token = u->q_first + mla_query_of(a, u, r), at = token * a->o_token + (int64_t)head * a->v_dim + c;
  const bool none = m == GA_NEG_INFINITY && l == 0;
  const float factor = none ? 0.0f : 1.0f / l;
  for (int e = 0; e < n; e++) plain_put(a->o_dtype, a->o, at + e, none ? 0.0f : o[e] * factor);
  if (a->lse && c == 0) a->lse[head * a->lse_stride + token] = none ? GA_NEG_INFINITY : fmaf(m, 0.693147181f, logf(l));
}

/* Returns true in all threads of the last block to finish among the `parts` blocks of the unit, which then sees the
 * partial results of the others. *flag is shared memory of the block. All threads of the block call, and each has
 * written its partial results. */
GA_DEV bool mla_is_last(const ga_kargs_mla *a, int *flag, int unit, int parts) {
  block_sync();
  if (thread_index() == 0) {
    fence_device();
    *flag = atomic_add_i32(a->counter + unit, 1) == parts - 1;
    if (*flag) stg_i32(a->counter + unit, 0);
    fence_device();
  }
  block_sync();
  return *flag != 0;
}

/* Merges all splits of the unit and writes its results. All `threads` threads of the block call. */
GA_DEV void mla_merge_unit(const ga_kargs_mla *a, const mla_unit *u, int unit, int parts, int rows_of_tile,
                           int threads) {
  const int quads = (a->v_dim + 3) / 4;
  const int64_t step = (int64_t)rows_of_tile * mla_partial_floats(a->v_dim);
  GA_ROLL for (int i = thread_index(); i < u->n * quads; i += threads) {
    const int r = i / quads, c = 4 * (i - r * quads);
    if (!mla_has_row(a, u, r)) continue;
    const mla_quad x = mla_merge_quad(a, mla_partial_at(a, unit, 0, rows_of_tile, r), step, parts, c);
    mla_finish(a, u, r, c, a->v_dim - c < 4 ? a->v_dim - c : 4, x.m, x.l, x.o);
  }
}
