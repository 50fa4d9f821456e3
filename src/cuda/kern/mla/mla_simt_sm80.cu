/* KERNEL    mla_simt, sm80: latent attention of any legal sizes, without tensor cores
 * COMPUTES  O = softmax(scale Q C^T) V of ga/mla.h in f32; LSE
 * CONTRACT  head_dim and v_dim up to MOST; q and o of f32, f16 or bf16; a cache of these or of e4m3
 * DATA      a block has a tile of ROWS packed rows and a split of the tokens. Q: smem as f32. A warp has every WARPS-th
 *           token: gmem -> registers once for all rows, elements lane, lane + 32 and so on
 * MERGE     lanes add up dot products; warps meet in shared memory; splits as in mla_merge.h
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     Q -> products; states of warps -> their sum
 * BUDGET    32 WARPS lanes, (1 + ROWS) MOST / 32 registers a lane for a token and O
 */
#include "cuda/kern/mla/mla_merge.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_KV
#error "GA_P_KV: type of the cache: F32, F16, BF16 or E4M3"
#endif
#ifndef GA_P_ROWS
#error "GA_P_ROWS: packed rows of a tile"
#endif
#ifndef GA_P_KEYS
#error "GA_P_KEYS: tokens that splits have multiples of: a multiple of the warps"
#endif
#ifndef GA_P_WARPS
#error "GA_P_WARPS: warps of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

#define KV GA_CAT(T_, GA_P_KV)
enum {
  MOST = 1024 /* elements of a row of the cache */,
  EACH = MOST / 32 /* of a lane */,
  ROWS = GA_P_ROWS,
  WARPS = GA_P_WARPS,
  THREADS = 32 * WARPS
};

typedef const ga_kargs_mla *args;

typedef struct {
  float q[ROWS][MOST];
  float o[WARPS][MOST]; /* of one row at a time */
  float m[WARPS][ROWS], l[WARPS][ROWS];
  int is_last;
} block_shared;

/* A lane's elements of O, and the rows' maxima in log2 units and sums of weights, the same in all lanes of a warp. */
typedef struct {
  float m[ROWS], l[ROWS], o[ROWS][EACH];
} state;

GA_DEV void queries_to_smem(args a, const mla_unit *u, block_shared *s) {
  for (int i = thread_index(); i < ROWS * a->head_dim; i += THREADS) {
    const int r = i / a->head_dim, c = i - r * a->head_dim;
    const int64_t at =
        (int64_t)(u->q_first + mla_query_of(a, u, r)) * a->q_token + (int64_t)mla_head_of(a, u, r) * a->head_dim + c;
    s->q[r][c] = mla_has_row(a, u, r) ? plain_get(a->q_dtype, a->q, at) : 0.0f;
  }
}

/* Returns element i of a row of the cache. */
GA_DEV float latent_at(args a, const uint8_t *row, int i) {
  if (KV != T_E4M3) return plain_get(KV, row, i);
  if (i >= a->v_dim) return elem_get_bf16(row + a->v_dim + a->v_dim / 32, i - a->v_dim);
  return quant_e4m3(row[i]) * ((const float *)(row + a->v_dim))[i / 128];
}

/* Adds token j to the rows that see it. */
GA_DEV void take_latent(args a, const mla_unit *u, const block_shared *s, int j, int lane, state *z) {
  const uint8_t *row = mla_row_at(a, u, j);
  float x[EACH];
  GA_UNROLL for (int e = 0; e < EACH; e++) x[e] = 32 * e + lane < a->head_dim ? latent_at(a, row, 32 * e + lane) : 0.0f;
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    if (r >= u->n || j >= mla_seen_by(a, u, r)) continue;
    float dot = 0;
    GA_UNROLL for (int e = 0; e < EACH; e++) if (32 * e + lane < a->head_dim) dot =
        fmaf(s->q[r][32 * e + lane], x[e], dot);
    const float logit = row_sum_warp(dot) * (a->scale * 1.44269504f /* log2 e */), m = fmaxf(z->m[r], logit);
    const float ref = mla_reference(m), shrink = ex2(z->m[r] - ref), weight = ex2(logit - ref);
    z->m[r] = m;
    z->l[r] = z->l[r] * shrink + weight;
    GA_UNROLL for (int e = 0; e < EACH; e++) z->o[r][e] = fmaf(weight, x[e], z->o[r][e] * shrink);
  }
}

/* Returns column c of the row whose states of all warps are in s, and sets its maximum and sum of weights. */
GA_DEV float add_warps(const block_shared *s, int r, int c, float *m, float *l) {
  float o = 0;
  *m = GA_NEG_INFINITY;
  *l = 0;
  GA_UNROLL for (int w = 0; w < WARPS; w++) *m = fmaxf(*m, s->m[w][r]);
  GA_UNROLL for (int w = 0; w < WARPS; w++) {
    const float weight = ex2(s->m[w][r] - mla_reference(*m));
    *l += weight * s->l[w][r];
    o += weight * s->o[w][c];
  }
  return o;
}

GA_DEV void put_warps(args a, const mla_unit *u, const mla_share *own, const block_shared *s, int unit, int split,
                      int r) {
  if (!mla_has_row(a, u, r)) return;
  const int columns = own->parts == 1 ? a->v_dim : mla_partial_floats(a->v_dim) - 4;
  for (int c = thread_index(); c < columns; c += THREADS) { /* elements of O from v_dim on are not used */
    float m, l;
    const float o = add_warps(s, r, c, &m, &l);
    float *part = own->parts == 1 ? NULL : mla_partial_at(a, unit, split, ROWS, r);
    if (own->parts == 1) {
      mla_finish(a, u, r, c, 1, m, l, &o);
      continue;
    }
    stg_f32(part + c, o);
    if (c == 0) stg_f2(part + mla_partial_floats(a->v_dim) - 4, m, l);
  }
}

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_mla a) {
  GA_SHARED block_shared shared;
  const int unit = block_index() / a.splits, split = block_index() % a.splits;
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  grid_dependency_wait();
  grid_launch_dependents();
  const mla_unit u = mla_unit_of(&a, unit, ROWS);
  if (u.n <= 0) return; /* no such rows in this sequence: the same for all splits */
  const mla_share own = mla_share_of(&a, &u, split, GA_P_KEYS);
  if (split >= own.parts) return;
  state z;
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    z.m[r] = GA_NEG_INFINITY;
    z.l[r] = 0;
    GA_UNROLL for (int e = 0; e < EACH; e++) z.o[r][e] = 0;
  }
  queries_to_smem(&a, &u, &shared);
  block_sync();
  GA_ROLL for (int j = own.first + warp; j < own.last; j += WARPS) take_latent(&a, &u, &shared, j, lane, &z);
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    if (lane == 0) shared.m[warp][r] = z.m[r], shared.l[warp][r] = z.l[r];
    GA_UNROLL for (int e = 0; e < EACH; e++) shared.o[warp][32 * e + lane] = z.o[r][e];
    block_sync();
    put_warps(&a, &u, &own, &shared, unit, split, r);
    block_sync();
  }
  if (own.parts == 1) return;
  if (mla_is_last(&a, &shared.is_last, unit, own.parts)) mla_merge_unit(&a, &u, unit, own.parts, ROWS, THREADS);
}
