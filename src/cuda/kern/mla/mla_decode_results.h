/* Results of mla_decode_sm90a.cu: the merge of the splits of a unit, and stores of O and of the log-sum-exp. A lane has
 * rows g and g + 8 of its warp's 16. */
#pragma once
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/mla/mla_decode_shape.h"

/* Where a lane's two rows of O are. NULL: there is no such row. */
typedef struct {
  char *o[2];
  float *lse[2];
} places;

GA_DEV places places_of(args a, const mla_unit *u, int half) {
  const int lane = thread_index() % 32, dtype = a->m.o_dtype;
  places p;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const int r = thread_index() % 128 / 32 * 16 + lane / 4 + 8 * h, head = mla_head_of(&a->m, u, r);
    const int64_t token = u->q_first + mla_query_of(&a->m, u, r), at = token * a->m.o_token + (int64_t)head * VALUES;
    const bool has = mla_has_row(&a->m, u, r);
    p.o[h] = has ? (char *)a->m.o + (at + half * HALF_COLS) * (dtype == T_F32 ? 4 : 2) : 0;
    p.lse[h] = has && a->m.lse && half == 0 && lane % 4 == 0 ? a->m.lse + head * a->m.lse_stride + token : 0;
  }
  return p;
}

/* Stores the 32 columns of group `group` of row `to`, of which this lane has x[0..7]: columns 8 i + 2 q + e in x[2 i +
 * e]. */
GA_DEV void store_group(args a, char *to, int group, const float *x) {
  const int c = thread_index() % 4;
  uint32_t r[4];
  if (a->m.o_dtype == T_F32) {
    GA_UNROLL for (int i = 0; i < 4; i++) if (to)
        stg_f2((float *)to + 32 * group + 8 * i + 2 * c, x[2 * i], x[2 * i + 1]);
    return;
  }
  const bool is_f16 = a->m.o_dtype == T_F16;
  GA_UNROLL for (int i = 0; i < 4; i++) r[i] =
      is_f16 ? pack_f16(x[2 * i], x[2 * i + 1]) : pack_bf16(x[2 * i], x[2 * i + 1]);
  quad_transpose(r, c);
  if (to) stg_u4(to + 64 * group + 16 * c, r[0], r[1], r[2], r[3]);
}

/* Stores both rows of a group of 32 columns, times the rows' factors. x is in the order of accumulators. */
GA_DEV void store_two_rows(args a, const places *p, int group, const float *x, const float *factor) {
  GA_UNROLL for (int h = 0; h < 2; h++) {
    float y[8]; /* a row that has seen nothing is zero, whatever its sums hold */
    GA_UNROLL for (int i = 0; i < 8; i++) y[i] = factor[h] == 0.0f ? 0.0f : x[i / 2 * 4 + 2 * h + i % 2] * factor[h];
    store_group(a, p->o[h], group, y);
  }
}

/* Returns 1 / sum, within half an ulp: one token's O is the token's V. 0 for a row that has seen nothing. */
GA_DEV float factor_of(float sum) {
  const float r = rcp(sum);
  return sum == 0.0f ? 0.0f : fmaf(r, fmaf(-sum, r, 1.0f), r);
}

/* Maxima and sums of a lane's two rows. */
typedef struct {
  float m[2], l[2];
} sums;

/* Returns 2^-m of what sums are in units of: 1 for a row that has seen nothing. */
GA_DEV float shrink(float m, float top) { return ex2(m - (top == GA_NEG_INF ? 0.0f : top)); }
GA_DEV void write_lse(const places *p, const sums *s) {
  GA_UNROLL for (int h = 0; h < 2; h++) if (p->lse[h])
      stg_f32(p->lse[h], s->l[h] == 0.0f ? GA_NEG_INF : (s->m[h] + lg2(s->l[h])) * 0.693147181f);
}

/* Loads maxima and sums of this lane's rows from block `rank` of the cluster. */
GA_DEV sums block_sums(uint32_t sb, int rank) {
  const uint32_t at = sb + OFF_ML + (uint32_t)((thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4) * ML_BYTES);
  sums s;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const ga_i4 x = lds_cluster_i4(cluster_address(at + (uint32_t)(8 * h * ML_BYTES), (uint32_t)rank));
    s.m[h] = __uint_as_float((uint32_t)x.x);
    s.l[h] = __uint_as_float((uint32_t)x.y);
  }
  return s;
}

/* Returns maxima and sums over the blocks of the cluster; weight becomes those of the blocks. */
GA_DEV sums cluster_sums(uint32_t sb, int parts, float (*weight)[2]) {
  sums all = {{GA_NEG_INF, GA_NEG_INF}, {0, 0}}, s[MOST_CLUSTER];
  GA_UNROLL for (int r = 0; r < MOST_CLUSTER; r++) {
    if (r >= parts) continue;
    s[r] = block_sums(sb, r);
    GA_UNROLL for (int h = 0; h < 2; h++) all.m[h] = fmaxf(all.m[h], s[r].m[h]);
  }
  GA_UNROLL for (int r = 0; r < MOST_CLUSTER; r++) GA_UNROLL for (int h = 0; h < 2; h++) {
    weight[r][h] = r < parts ? shrink(s[r].m[h], all.m[h]) : 0.0f;
    if (r < parts) all.l[h] = fmaf(weight[r][h], s[r].l[h], all.l[h]);
  }
  return all;
}

/* Returns the address of this lane's 16 bytes of the i-th 8 columns of group `group`. */
GA_DEV uint32_t shared_o(uint32_t sb, int group, int i) {
  return sb + (uint32_t)(((thread_index() / 32) * GROUPS + group) * GROUP_BYTES + 512 * i + thread_index() % 32 * 16);
}
GA_DEV void put_shared_o(uint32_t sb, const float *o) {
  GA_UNROLL for (int j = 0; j < HALF_COLS / 8; j++) sts_f4(shared_o(sb, j / 4, j % 4), o + 4 * j);
}

/* Adds weight[0] times the elements of row g, weight[1] times those of row g + 8. */
GA_DEV void add_weighted(float *x, const float *y, const float *weight) {
  GA_UNROLL for (int e = 0; e < 4; e++) x[e] = fmaf(weight[e / 2], y[e], x[e]);
}

/* Adds up the O of the cluster's blocks for the columns of group `group`. */
GA_DEV void cluster_group(uint32_t sb, int parts, int group, float (*weight)[2], float *x) {
  GA_UNROLL for (int e = 0; e < 16; e++) x[e] = 0;
  GA_UNROLL for (int r = 0; r < MOST_CLUSTER; r++) {
    if (r >= parts) continue;
    ga_i4 y[4];
    GA_UNROLL for (int i = 0; i < 4; i++) y[i] = lds_cluster_i4(cluster_address(shared_o(sb, group, i), (uint32_t)r));
    GA_UNROLL for (int i = 0; i < 4; i++) {
      const float z[4] = {__uint_as_float((uint32_t)y[i].x), __uint_as_float((uint32_t)y[i].y),
                          __uint_as_float((uint32_t)y[i].z), __uint_as_float((uint32_t)y[i].w)};
      add_weighted(x + 4 * i, z, weight[r]);
    }
  }
}

/* Returns the address of the lane's sums in the partial results of cluster `cluster` for the columns of block `rank`.
 * 16 bytes of each group's i-th 8 columns follow, those of all lanes together. */
GA_DEV float *partial_of(args a, const work *w, int cluster, int half) {
  const int64_t clusters = a->m.splits / a->cluster,
                at = (block_index() / a->m.splits * clusters + cluster) * a->cluster + w->rank;
  return a->m.partial + (at * (1 + 4 * (GROUPS / a->cluster)) * 256 + half * 128 + thread_index() % 128) * 4;
}

/* Returns true in all lanes of the values' warpgroups of the last of the unit's clusters to come here with columns of
 * block `rank`: it sees the partial results of all. */
GA_DEV bool is_last_cluster(args a, uint32_t sb, const work *w, int half) {
  int32_t *count = a->m.counter + block_index() / a->m.splits * a->cluster + w->rank;
  bar_sync(2, 256);
  if (half == 0 && thread_index() % 128 == 0) {
    fence_device();
    const int before = atomic_add_i32(count, 1);
    if (before == w->clusters - 1) stg_i32(count, 0);
    fence_device();
    sts_u1(sb + OFF_F, before == w->clusters - 1);
  }
  bar_sync(2, 256);
  return float_bits(lds_f1(sb + OFF_F)) != 0;
}

/* Adds up and stores the columns of block `rank` from the partial results of all clusters, in their order. */
GA_DEV void merge_clusters(args a, const work *w, int half, const places *p) {
  sums all = {{GA_NEG_INF, GA_NEG_INF}, {0, 0}};
  float factor[2];
  GA_ROLL for (int c = 0; c < w->clusters; c++) {
    float y[4];
    ldg_f4(y, partial_of(a, w, c, half));
    GA_UNROLL for (int h = 0; h < 2; h++) {
      const float top = fmaxf(all.m[h], y[h]);
      all.l[h] = fmaf(shrink(y[h], top), y[2 + h], all.l[h] * shrink(all.m[h], top));
      all.m[h] = top;
    }
  }
  GA_UNROLL for (int h = 0; h < 2; h++) factor[h] = factor_of(all.l[h]);
  if (w->rank == 0) write_lse(p, &all);
  GA_ROLL for (int i = 0; i < GROUPS / a->cluster; i++) {
    float x[16];
    GA_UNROLL for (int e = 0; e < 16; e++) x[e] = 0;
    _Pragma("unroll 4") for (int c = 0; c < w->clusters; c++) {
      const float *at = partial_of(a, w, c, half);
      float y[5][4];
      ldg_f4(y[4], at);
      GA_UNROLL for (int e = 0; e < 4; e++) ldg_f4(y[e], at + (1 + 4 * i + e) * 1024);
      const float weight[2] = {shrink(y[4][0], all.m[0]), shrink(y[4][1], all.m[1])};
      GA_UNROLL for (int e = 0; e < 4; e++) add_weighted(x + 4 * e, y[e], weight);
    }
    store_two_rows(a, p, w->rank * (GROUPS / a->cluster) + i, x, factor);
  }
}

/* Merges the blocks of the cluster, each for its share of the columns, and what the unit's clusters have. */
GA_DEV void merge_blocks(args a, uint32_t sb, const work *w, int half, const places *p) {
  float weight[MOST_CLUSTER][2], factor[2];
  const sums all = cluster_sums(sb, w->parts, weight);
  float *const partial = partial_of(a, w, w->cluster, half);
  const float own[4] = {all.m[0], all.m[1], all.l[0], all.l[1]};
  GA_UNROLL for (int h = 0; h < 2; h++) factor[h] = factor_of(all.l[h]);
  if (w->clusters == 1 && w->rank == 0) write_lse(p, &all);
  if (w->clusters > 1) stg_f4(partial, own);
  GA_ROLL for (int i = 0; i < GROUPS / a->cluster; i++) {
    const int group = w->rank * (GROUPS / a->cluster) + i;
    float x[16];
    cluster_group(sb, w->parts, group, weight, x);
    if (w->clusters == 1) {
      store_two_rows(a, p, group, x, factor);
      continue;
    }
    GA_UNROLL for (int e = 0; e < 4; e++) stg_f4(partial + (1 + 4 * i + e) * 1024, x + 4 * e);
  }
}

/* Writes the unit's results, or this block's share of them. */
GA_DEV void write_results(args a, uint32_t sb, const work *w, int half, const float *o) {
  if (a->m.splits == 1) {
    const places p = places_of(a, &w->u, half);
    const sums s = block_sums(sb, 0);
    const float factor[2] = {factor_of(s.l[0]), factor_of(s.l[1])};
    write_lse(&p, &s);
    GA_UNROLL for (int g = 0; g < GROUPS; g++) store_two_rows(a, &p, g, o + 16 * g, factor);
    return;
  }
  put_shared_o(sb, o);
  cluster_sync();
  const places p = places_of(a, &w->u, half);
  merge_blocks(a, sb, w, half, &p);
  cluster_sync();
  if (w->clusters > 1 && is_last_cluster(a, sb, w, half)) merge_clusters(a, w, half, &p);
}
