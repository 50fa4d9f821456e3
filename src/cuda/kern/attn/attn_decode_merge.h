/* Attention of few queries (attn_decode_sm90a.cu): the merge of a tile's partial results. Warps merge in shared memory.
 * Blocks merge in the shared memory of a cluster, or in global memory. */
#pragma once
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/kern/attn/attn_decode_state.h"

/* Return shared addresses for the merge, which reuses the ring of stages. warp_o returns the address of row r of a
 * warp's O; warp_ml returns the address of the row's maximum and sum of weights. */
GA_DEV uint32_t warp_o(uint32_t ring, int warp, int r) { return ring + (uint32_t)((warp * ROWS + r) * O_PITCH * 4); }
GA_DEV uint32_t warp_ml(uint32_t ring, int warp, int r) {
  return ring + (uint32_t)(WARPS * ROWS * O_PITCH * 4 + (warp * ROWS + r) * 8);
}

/* Writes O, the maximum and the sum of weights of the warp's rows 0 to n - 1 to shared memory, at warp_o and
 * warp_ml. */
GA_DEV void put_state(uint32_t ring, int warp, int lane, int n, const state *s) {
  const float l = s->l + shfl_xor_f32(s->l, 1), sum = l + shfl_xor_f32(l, 2);
  const float unit = (SCALES ? __uint_as_float(0x7f000000u - float_bits(s->per_unit)) : 1.0f) / P_UNIT;
  if (lane / 4 >= n) return;
  if (lane % 4 == 0) sts_f2(warp_ml(ring, warp, lane / 4), s->m, sum);
  GA_UNROLL for (int b = 0; b < D / 32; b++) GA_UNROLL for (int e = 0; e < 2; e++) {
    float x[4];
    GA_UNROLL for (int i = 0; i < 4; i++) x[i] = (s->o[4 * b + i][e] + s->o[4 * b + i][2 + e]) * unit;
    sts_f4(warp_o(ring, warp, lane / 4) + (uint32_t)(32 * b + lane % 4 * 8 + 4 * e) * 4, x);
  }
}

/* A quad: four columns of a row of O, not yet divided by the row's sum of weights l. m is the row's maximum. */
typedef struct {
  float m, l, o[4];
} quad;

GA_DEV quad quad_none(void) {
  const quad r = {NONE, 0, {0, 0, 0, 0}};
  return r;
}
/* Merges n partial results for the same four columns, given by their m, l and o, into r. */
GA_DEV void quad_add(quad *r, int n, const float *m, const float *l, float o[][4]) {
  float most = r->m;
  GA_UNROLL for (int e = 0; e < n; e++) most = fmaxf(most, m[e]);
  const float ref = reference(most), shrink = weight_of(r->m, ref);
  r->m = most;
  r->l *= shrink;
  GA_UNROLL for (int i = 0; i < 4; i++) r->o[i] *= shrink;
  GA_UNROLL for (int e = 0; e < n; e++) {
    const float weight = weight_of(m[e], ref);
    r->l += weight * l[e];
    GA_UNROLL for (int i = 0; i < 4; i++) r->o[i] += weight * o[e][i];
  }
}

GA_DEV quad add_warps(uint32_t ring, int r, int c) {
  quad sum = quad_none();
  float m[WARPS], l[WARPS], o[WARPS][4];
  GA_UNROLL for (int w = 0; w < WARPS; w++) {
    float ml[2];
    lds_f2(ml, warp_ml(ring, w, r));
    m[w] = ml[0];
    l[w] = ml[1];
    lds_f4(o[w], warp_o(ring, w, r) + (uint32_t)c * 4);
  }
  quad_add(&sum, WARPS, m, l, o);
  return sum;
}

/* The division of a tile's quads (four columns of a row of O) for the merge. In a cluster each block owns up to `per`
 * quads and merges them in its shared memory. Otherwise the merge uses global memory. */
typedef struct {
  /* quads is the number of quads of the tile; per is the largest number of quads that a block owns. */
  int quads, per;
  /* Number of blocks that have a partial result, at least 1. */
  int parts;
} merge;

/* Packs a quad's place into a word: its row, its first column, the block that owns it, and its index among that block's
 * quads. */
GA_DEV uint32_t merge_place(int row, int c, int owner, int slot) {
  return (uint32_t)(row | c << 3 | owner << 11 | slot << 16);
}
GA_DEV int plan_row(uint32_t p) { return (int)(p & 7); }
GA_DEV int plan_column(uint32_t p) { return (int)(p >> 3 & 255); }
GA_DEV int plan_owner(uint32_t p) { return (int)(p >> 11 & 31); }
GA_DEV int plan_slot(uint32_t p) { return (int)(p >> 16); }

/* Returns true if the blocks of a tile form a cluster. */
GA_DEV bool in_cluster(const ga_kargs_attn_decode *a) { return a->cluster; }

GA_DEV void put_merge(const ga_kargs_attn_decode *a, const unit *u, const share *s, uint32_t own) {
  const int columns = a->v_dim / 4, quads = u->n * columns, parts = s->parts < 1 ? 1 : s->parts,
            owners = in_cluster(a) ? parts : 1;
  const int per = (quads + owners - 1) / owners, r = thread_index();
  if (r == 0) sts_i4(own + OFF_MERGE, quads, per, parts, 0);
  if (r < u->n) {
    const int i = query_of(a, u, r), head = head_of(a, u, r);
    const int64_t at = (a->q_start ? 0 : u->b * a->o_batch) + (int64_t)(u->q_first + i) * a->o_token + head * a->o_head;
    sts_i4(own + (uint32_t)(OFF_LINES + 16 * r), (int)(uint32_t)at, (int)(at >> 32), head, i);
  }
  GA_ROLL for (int i = r; i < quads; i += THREADS) {
    const int row = i / columns, owner = i / per;
    sts_u1(own + (uint32_t)(OFF_PLAN + 4 * i), merge_place(row, 4 * (i - row * columns), owner, i - owner * per));
  }
}
GA_DEV merge merge_of(uint32_t own) {
  const ga_i4 x = lds_i4(own + OFF_MERGE);
  const merge m = {x.x, x.y, x.z};
  return m;
}
GA_DEV uint32_t plan_at(uint32_t own, int i) { return float_bits(lds_f1(own + (uint32_t)(OFF_PLAN + 4 * i))); }
GA_DEV void send_quad(uint32_t sent, uint32_t bar, int owner, int slot, const quad *x) {
  const uint32_t to = cluster_address(sent + (uint32_t)(slot * 32), (uint32_t)owner),
                 counted = cluster_address(bar, (uint32_t)owner);
  sts_async_i4(to, (int)float_bits(x->o[0]), (int)float_bits(x->o[1]), (int)float_bits(x->o[2]),
               (int)float_bits(x->o[3]), counted);
  sts_async_i4(to + 16, (int)float_bits(x->m), (int)float_bits(x->l), 0, 0, counted);
}
/* Merges the first `there` of n partial results into r. The other entries of m, l and o hold copies of the last result,
 * which saves a branch in the loads. They are cleared before the merge. */
GA_DEV void quad_add_some(quad *r, int n, int there, float *m, float *l, float o[][4]) {
  GA_UNROLL for (int e = 1; e < n; e++) {
    if (e < there) continue;
    m[e] = NONE;
    l[e] = 0;
    GA_UNROLL for (int i = 0; i < 4; i++) o[e][i] = 0;
  }
  quad_add(r, n, m, l, o);
}
GA_DEV int imin(int x, int most) { return x < most ? x : most; }

/* Merges partial results that `parts` blocks of the cluster have sent, for the same four columns of a row of O. The
 * first is at shared address `at`; consecutive results are `step` bytes apart. */
GA_DEV quad add_sent(uint32_t at, int step, int parts) {
  enum { MANY = 8 };
  quad sum = quad_none();
  GA_ROLL for (int first = 0; first < parts; first += MANY) {
    float m[MANY], l[MANY], o[MANY][4];
    GA_UNROLL for (int e = 0; e < MANY; e++) {
      const uint32_t from = at + (uint32_t)(imin(first + e, parts - 1) * step);
      float ml[2];
      lds_f4(o[e], from);
      lds_f2(ml, from + 16);
      m[e] = ml[0];
      l[e] = ml[1];
    }
    quad_add_some(&sum, MANY, parts - first, m, l, o);
  }
  return sum;
}
GA_DEV void put_split(float *row, int c, int v_dim, const quad *x) {
  const float ml[4] = {x->m, x->l, 0, 0};
  stg_f4(row + c, x->o);
  if (c == 0) stg_f4(row + v_dim, ml);
}

/* Merges columns c to c + 3 of `parts` partial results in global memory. The first is at `at`; consecutive results are
 * `step` floats apart. */
GA_DEV quad add_splits_of(const float *at, int step, int parts, int c, int v_dim) {
  quad sum = quad_none();
  GA_ROLL for (int first = 0; first < parts; first += IN_FLIGHT) {
    float m[IN_FLIGHT], l[IN_FLIGHT], o[IN_FLIGHT][4];
    GA_UNROLL for (int e = 0; e < IN_FLIGHT; e++) {
      const float *p = at + imin(first + e, parts - 1) * step;
      float ml[4];
      ldg_f4(o[e], p + c);
      ldg_f4(ml, p + v_dim);
      m[e] = ml[0];
      l[e] = ml[1];
    }
    quad_add_some(&sum, IN_FLIGHT, parts - first, m, l, o);
  }
  return sum;
}

/* Writes columns c to c + 3 of row r of O, and for c = 0 the row's log-sum-exp. x has the four columns, merged over all
 * keys. */
GA_DEV void finish_merge(const ga_kargs_attn_decode *a, const unit *u, uint32_t own, int r, int c, const quad *x) {
  const ga_i4 line = lds_i4(own + (uint32_t)(OFF_LINES + 16 * r));
  const int64_t at = (int64_t)((uint64_t)(uint32_t)line.y << 32 | (uint32_t)line.x) + c;
  const int head = line.z, i = line.w;
  const bool none = x->m == NONE && x->l == 0;
  float m = x->m, l = x->l, shrink = 1;
  if (a->sinks && !none) {
    const float sink = a->sinks[head];
    m = fmaxf(m, sink);
    shrink = expf(x->m - m);
    l = l * shrink + expf(sink - m);
  }
  const float factor = none ? 0.0f : shrink / l;
  GA_UNROLL for (int e = 0; e < 4; e++) plain_put(a->o_dtype, a->o, at + e, none ? 0.0f : x->o[e] * factor);
  if (a->lse && c == 0) a->lse[packed_lse_at(a, u, head, i)] = none ? NONE : m + logf(l);
}
