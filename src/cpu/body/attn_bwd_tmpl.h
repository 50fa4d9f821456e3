/* KERNEL    attn_bwd, f32
 * COMPUTES  dQ, dK, dV of attention (ga/attn_bwd.h) for one bwd_unit of cpu_attn_bwd.h, from pairs of a tile of 64
 *           queries and a tile of 64 keys: S = Q K^T, P = e^(logit - lse), dP = dO V^T, dS = P (dP - delta) scale;
 *           dV += P^T dO, dK += dS^T Q, dQ += dS K
 * DATA      tiles are copied to the thread's scratch memory, with rows padded to multiples of 16 floats. K and V are
 *           also transposed, so that S and dP need no sums across lanes. A transposed left operand is read element by
 *           element, which costs nothing, since each element is broadcast.
 * ACCURACY  f32 products and sums; e^x and tanh of simd_math.h. P and dS of a masked pair of query and key are 0.
 *           A tile with infinities or NaN leaves masked pairs out of the products, since 0 times those is NaN */
#include <math.h>

#include "base/mem.h"

/* Width, in vectors, of the block of a product that stays in registers. The block has 4 rows, so that it has 16 or 8
 * accumulators. */
#define BLOCK_VECS (VN == 8 ? 2 : 4)

typedef struct bwd_tile {
  const bwd_job *job;
  const bwd_sequence *s;
  int head_q, head_kv;
  int64_t q, n_q, k, n_k; /* Queries [q, q + n_q) and keys [k, k + n_k) of the current pair of tiles. */
  float *q_rows, *dout, *k_rows, *k_columns,
      /* Copies of the current tiles: q_rows and k_rows [64, head_pad], dout [64, v_pad]. Transposed copies of K and V:
       * k_columns [head_pad, 64], v_columns [v_pad, 64]. */
      *v_columns;
  float *dq, *dk, *dv; /* Sums of the gradients of the current tiles: dq and dk [64, head_pad], dv [64, v_pad]. */
  /* Arrays [64, 64] for each query and key of the tiles. p has softmax weights, ds has dS, and bend has derivatives of
   * logits by scores. */
  float *p, *ds, *bend;
  /* Memory in which load_columns collects up to 16 rows, [16, the larger of head_pad and v_pad]. */
  float *some;
  float *lse, *delta;      /* Log-sum-exp, and delta = rowsum(dO O), of the tile's queries, [64]. */
  bool q_finite, k_finite; /* False: q_rows or dout, or k_rows, hold infinities or NaN. */
} bwd_tile;

static bwd_tile tile_in(const bwd_job *job, const bwd_unit *u, float *scratch) {
  const int64_t head = job->head_pad * BWD_TILE, v = job->v_pad * BWD_TILE, square = BWD_TILE * BWD_TILE;
  bwd_tile t = {.job = job, .s = &u->s, .q_rows = scratch};
  t.dout = t.q_rows + head;
  t.k_rows = t.dout + v;
  t.k_columns = t.k_rows + head;
  t.v_columns = t.k_columns + head;
  t.dq = t.v_columns + v;
  t.dk = t.dq + head;
  t.dv = t.dk + head;
  t.p = t.dv + v;
  t.ds = t.p + square;
  t.bend = t.ds + square;
  t.lse = t.bend + square;
  t.delta = t.lse + BWD_TILE;
  t.some = t.delta + BWD_TILE;
  return t;
}

static void clear_floats(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += VN) vf_store(x + i, vf_set(0.0f));
}

/* --- matrix products --- */

/* Computes C += A B for C [rows, vecs * VN], A [rows, n] and B [n, vecs * VN]. rows and vecs are constants in each
 * call. Element [r][k] of A is at r * a_row + k * a_col.
 *
 * The sum over n starts from 0 and is added to C once. If C itself were the accumulator, dV of a key that thousands of
 * queries see would be rounded thousands of times at its full size. */
GA_INLINE void block_product(int rows, int vecs, float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_col,
                             const float *b, int64_t ldb, int64_t n) {
  vf sum[4][4];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) sum[r][v] = vf_set(0.0f);
  for (int64_t k = 0; k < n; k++) {
    vf x[4];
    for (int v = 0; v < vecs; v++) x[v] = vf_load(b + k * ldb + v * VN);
    for (int r = 0; r < rows; r++) {
      const vf s = vf_set(a[r * a_row + k * a_col]);
      for (int v = 0; v < vecs; v++) sum[r][v] = vf_fma(s, x[v], sum[r][v]);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) vf_store(c + r * ldc + v * VN, vf_add(vf_load(c + r * ldc + v * VN), sum[r][v]));
}

GA_INLINE void rows_product(int vecs, int64_t rows, float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_col,
                            const float *b, int64_t ldb, int64_t n) {
  for (; rows >= 4; rows -= 4, c += 4 * ldc, a += 4 * a_row) block_product(4, vecs, c, ldc, a, a_row, a_col, b, ldb, n);
  for (; rows > 0; rows--, c += ldc, a += a_row) block_product(1, vecs, c, ldc, a, a_row, a_col, b, ldb, n);
}

/* Computes C [rows, width] += A [rows, n] B [n, width]. width is a multiple of 16. */
static void product(int64_t rows, int64_t width, float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_col,
                    const float *b, int64_t ldb, int64_t n) {
  int64_t i = 0;
  for (; i + BLOCK_VECS * VN <= width; i += BLOCK_VECS * VN)
    rows_product(BLOCK_VECS, rows, c + i, ldc, a, a_row, a_col, b + i, ldb, n);
  for (; i < width; i += VN) rows_product(1, rows, c + i, ldc, a, a_row, a_col, b + i, ldb, n);
}

/* --- loading and storing of tiles --- */

static void load_rows(float *to, int64_t pad, const float *x, int64_t step, int64_t n, int64_t width) {
  for (int64_t i = 0; i < n; i++) {
    memcpy(to + i * pad, x + i * step, (size_t)width * sizeof *x);
    for (int64_t c = width; c < pad; c++) to[i * pad + c] = 0;
  }
}

/* Transposes n <= 64 rows of x, [n, width] with `step` floats between rows, to columns of `to` [pad, 64]. Other
 * elements of `to` become 0. */
static void load_columns(const bwd_tile *t, float *to, int64_t pad, const float *x, int64_t step, int64_t n,
                         int64_t width) {
  for (int64_t k = 0; k < BWD_TILE; k += VN) {
    const int64_t here = ga_max_i64(0, ga_min_i64(VN, n - k));
    clear_floats(t->some, VN * pad);
    load_rows(t->some, pad, x + k * step, step, here, width);
    for (int64_t i = 0; i < pad; i += VN) {
      vf r[VN];
      for (int j = 0; j < VN; j++) r[j] = vf_load(t->some + j * pad + i);
      vf_transpose(r);
      for (int j = 0; j < VN; j++) vf_store(to + (i + j) * BWD_TILE + k, r[j]);
    }
  }
}

static bool tile_is_finite(const float *x, int64_t n) {
  const vf zero = vf_set(0.0f);
  vf sum = zero; /* 0 times each element: NaN where one is not finite */
  float lanes[VN];
  for (int64_t i = 0; i < n; i += VN) sum = vf_fma(vf_load(x + i), zero, sum);
  vf_store(lanes, sum);
  for (int i = 0; i < VN; i++)
    if (isnan(lanes[i])) return false;
  return true;
}

static void take_key_tile(bwd_tile *t, int64_t tile) {
  const ga_attn_bwd_desc *d = t->job->d;
  const ga_attn_bwd_io *a = t->job->a;
  t->k = tile * BWD_TILE;
  t->n_k = ga_min_i64(BWD_TILE, t->s->n_kv - t->k);
  const float *k = (const float *)a->k + bwd_at(d, &a->k_stride, t->s, t->s->kv_first, t->k, t->head_kv);
  const float *v = (const float *)a->v + bwd_at(d, &a->v_stride, t->s, t->s->kv_first, t->k, t->head_kv);
  load_rows(t->k_rows, t->job->head_pad, k, a->k_stride.token, t->n_k, d->head_dim);
  t->k_finite = tile_is_finite(t->k_rows, t->n_k * t->job->head_pad);
  load_columns(t, t->k_columns, t->job->head_pad, k, a->k_stride.token, t->n_k, d->head_dim);
  load_columns(t, t->v_columns, t->job->v_pad, v, a->v_stride.token, t->n_k, d->v_dim);
}

/* Computes delta[r] = sum of g[r] * o[r], the rows of dO and O, in the order in which block_product sums dP. If a query
 * sees a single key, its O equals V, and dP - delta is then exactly 0. Eight rows are summed at a time, to hide the
 * latency of additions. */
static void row_deltas(const float *g, int64_t g_step, const float *o, int64_t o_step, int64_t rows, int64_t n,
                       float *delta) {
  for (int64_t r = 0; r < rows; r += 8) {
    const int64_t here = ga_min_i64(8, rows - r);
    float sum[8] = {0};
    for (int64_t c = 0; c < n; c++)
      for (int64_t i = 0; i < here; i++) sum[i] = vf_fma_one(g[(r + i) * g_step + c], o[(r + i) * o_step + c], sum[i]);
    memcpy(delta + r, sum, (size_t)here * sizeof *sum);
  }
}

static void take_queries(bwd_tile *t, int64_t tile) {
  const ga_attn_bwd_desc *d = t->job->d;
  const ga_attn_bwd_io *a = t->job->a;
  t->q = tile * BWD_TILE;
  t->n_q = ga_min_i64(BWD_TILE, t->s->n_q - t->q);
  const float *q = (const float *)a->q + bwd_at(d, &a->q_stride, t->s, t->s->q_first, t->q, t->head_q);
  const float *o = (const float *)a->o + bwd_at(d, &a->o_stride, t->s, t->s->q_first, t->q, t->head_q);
  const float *g = (const float *)a->dout + bwd_at(d, &a->dout_stride, t->s, t->s->q_first, t->q, t->head_q);
  load_rows(t->q_rows, t->job->head_pad, q, a->q_stride.token, t->n_q, d->head_dim);
  load_rows(t->dout, t->job->v_pad, g, a->dout_stride.token, t->n_q, d->v_dim);
  t->q_finite = tile_is_finite(t->q_rows, t->n_q * t->job->head_pad) && tile_is_finite(t->dout, t->n_q * t->job->v_pad);
  const float *lse =
      a->lse + ga_attn_lse_at(d->lse_stride, t->s->q_first, t->s->b, d->q_heads, d->max_q, t->head_q, t->q);
  memcpy(t->lse, lse, (size_t)t->n_q * sizeof *lse);
  row_deltas(g, a->dout_stride.token, o, a->o_stride.token, t->n_q, d->v_dim, t->delta);
}

static float *dq_row(const bwd_tile *t, int64_t r) {
  const ga_attn_bwd_io *a = t->job->a;
  return (float *)a->dq + bwd_at(t->job->d, &a->dq_stride, t->s, t->s->q_first, t->q + r, t->head_q);
}

static void load_dq(const bwd_tile *t) {
  const int64_t dim = t->job->d->head_dim, pad = t->job->head_pad;
  for (int64_t r = 0; r < t->n_q; r++) load_rows(t->dq + r * pad, pad, dq_row(t, r), 0, 1, dim);
}

static void store_dq(const bwd_tile *t) {
  const int64_t dim = t->job->d->head_dim, pad = t->job->head_pad;
  for (int64_t r = 0; r < t->n_q; r++) memcpy(dq_row(t, r), t->dq + r * pad, (size_t)dim * sizeof(float));
}

/* Adds the values that dQ in the output has so far to the finished sums of this tile. */
static void add_dq(const bwd_tile *t) {
  const int64_t dim = t->job->d->head_dim;
  for (int64_t r = 0; r < t->n_q; r++) {
    float *sum = t->dq + r * t->job->head_pad;
    const float *old = dq_row(t, r);
    for (int64_t c = 0; c < dim; c++) sum[c] += old[c];
  }
}

static void store_kv(const bwd_tile *t, const float *x, int64_t pad, void *out, const ga_attn_strides *stride,
                     int64_t dim) {
  const ga_attn_bwd_desc *d = t->job->d;
  for (int64_t r = 0; r < t->n_k; r++) {
    float *to = (float *)out + bwd_at(d, stride, t->s, t->s->kv_first, t->k + r, t->head_kv);
    for (int64_t c = 0; c < dim; c++) to[c] = d->flags & GA_ATTN_BWD_ADD_DKV ? to[c] + x[r * pad + c] : x[r * pad + c];
  }
}

/* --- one pair of tiles --- */

/* Replaces row r of the scores Q K^T in t->p by logits: applies scale, soft-cap and ALiBi. Writes the derivative of
 * each logit by its score to t->bend. */
static void bend_row(const bwd_tile *t, int64_t r) {
  const ga_attn_bwd_desc *d = t->job->d;
  float *s = t->p + r * BWD_TILE, *bend = t->bend + r * BWD_TILE;
  const vf scale = vf_set(d->scale), cap = vf_set(d->softcap), one = vf_set(1.0f);
  for (int k = 0; k < BWD_TILE; k += VN) {
    vf x = vf_mul(scale, vf_load(s + k)), slope = scale;
    if (d->softcap > 0) {
      const vf y = vf_tanh(vf_div(x, cap));
      x = vf_mul(cap, y);
      slope = vf_mul(scale, vf_fnma(y, y, one));
    }
    vf_store(s + k, x);
    vf_store(bend + k, slope);
  }
  if (!(d->flags & GA_ATTN_ALIBI)) return;
  const float slope = t->job->a->alibi[t->head_q];
  const int64_t first = t->k - (t->q + r + t->s->n_kv - t->s->n_q);
  for (int k = 0; k < BWD_TILE; k++) s[k] += slope * (float)(first + k);
}

/* Sets [*first, *last) to the keys of the tile that row r sees. */
static void keys_in_tile(const bwd_tile *t, int64_t r, int64_t *first, int64_t *last) {
  int64_t from, to;
  bwd_keys_of(t->job->d, t->s, t->q + r, &from, &to);
  if (t->lse[r] == -INFINITY) to = from;
  *first = ga_max_i64(0, ga_min_i64(t->n_k, from - t->k));
  *last = ga_max_i64(*first, ga_min_i64(t->n_k, to - t->k));
}

/* Replaces, in row r, the logits in t->p by softmax weights and dP in t->ds by dS. Both become 0 for keys that the
 * query does not see. */
static void gradient_row(const bwd_tile *t, int64_t r) {
  float *p = t->p + r * BWD_TILE, *ds = t->ds + r * BWD_TILE;
  const float *bend = t->bend + r * BWD_TILE;
  const vf lse = vf_set(t->lse[r]), delta = vf_set(t->delta[r]);
  int64_t first, last;
  for (int k = 0; k < BWD_TILE; k += VN) {
    const vf w = vf_exp(vf_sub(vf_load(p + k), lse));
    vf_store(p + k, w);
    vf_store(ds + k, vf_mul(vf_mul(w, vf_sub(vf_load(ds + k), delta)), vf_load(bend + k)));
  }
  keys_in_tile(t, r, &first, &last);
  for (int64_t k = 0; k < BWD_TILE; k++)
    if (k < first || k >= last) p[k] = ds[k] = 0;
}

static void add_scaled_row(float *to, float factor, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] += factor * x[i];
}

/* The products of run_pair over the pairs that are not masked, one after the other. */
static void add_seen_pairs(const bwd_tile *t, bool keys, bool queries) {
  const int64_t head = t->job->head_pad, v = t->job->v_pad;
  for (int64_t r = 0; r < t->n_q; r++) {
    int64_t first, last;
    keys_in_tile(t, r, &first, &last);
    for (int64_t k = first; k < last; k++) {
      const float p = t->p[r * BWD_TILE + k], ds = t->ds[r * BWD_TILE + k];
      if (keys) add_scaled_row(t->dv + k * v, p, t->dout + r * v, v);
      if (keys) add_scaled_row(t->dk + k * head, ds, t->q_rows + r * head, head);
      if (queries) add_scaled_row(t->dq + r * head, ds, t->k_rows + k * head, head);
    }
  }
}

static void run_pair(const bwd_tile *t, bool keys, bool queries) {
  const ga_attn_bwd_desc *d = t->job->d;
  const int64_t head = t->job->head_pad, v = t->job->v_pad;
  clear_floats(t->p, t->n_q * BWD_TILE);
  clear_floats(t->ds, t->n_q * BWD_TILE);
  product(t->n_q, BWD_TILE, t->p, BWD_TILE, t->q_rows, head, 1, t->k_columns, BWD_TILE, d->head_dim);
  product(t->n_q, BWD_TILE, t->ds, BWD_TILE, t->dout, v, 1, t->v_columns, BWD_TILE, d->v_dim);
  for (int64_t r = 0; r < t->n_q; r++) {
    bend_row(t, r);
    gradient_row(t, r);
  }
  if (!t->q_finite || !t->k_finite) {
    add_seen_pairs(t, keys, queries);
    return;
  }
  if (keys) {
    product(t->n_k, v, t->dv, v, t->p, 1, BWD_TILE, t->dout, v, t->n_q);
    product(t->n_k, head, t->dk, head, t->ds, 1, BWD_TILE, t->q_rows, head, t->n_q);
  }
  if (queries) product(t->n_q, head, t->dq, head, t->ds, BWD_TILE, 1, t->k_rows, head, t->n_k);
}

/* --- units of work --- */

/* Computes dK and dV of one tile of keys. Sums over all queries that see them, of all query heads that share the KV
 * head. queries: also adds to dQ in the output. */
static void key_tile(bwd_tile *t, int64_t tile, bool queries) {
  const ga_attn_bwd_desc *d = t->job->d;
  const ga_attn_bwd_io *a = t->job->a;
  const int group = d->q_heads / d->kv_heads;
  int64_t from, to;
  take_key_tile(t, tile);
  clear_floats(t->dk, BWD_TILE * t->job->head_pad);
  clear_floats(t->dv, BWD_TILE * t->job->v_pad);
  bwd_queries_of(d, t->s, t->k, t->n_k, &from, &to);
  for (int h = 0; h < group; h++) {
    t->head_q = t->head_kv * group + h;
    for (int64_t i = from / BWD_TILE; i * BWD_TILE < to; i++) {
      take_queries(t, i);
      if (queries) load_dq(t);
      run_pair(t, true, queries);
      if (queries) store_dq(t);
    }
  }
  store_kv(t, t->dk, t->job->head_pad, a->dk, &a->dk_stride, d->head_dim);
  store_kv(t, t->dv, t->job->v_pad, a->dv, &a->dv_stride, d->v_dim);
}

static void whole_head(bwd_tile *t) {
  const int group = t->job->d->q_heads / t->job->d->kv_heads;
  clear_floats(t->dq, BWD_TILE * t->job->head_pad);
  for (int h = 0; h < group; h++) {
    t->head_q = t->head_kv * group + h;
    for (t->q = 0; t->q < t->s->n_q; t->q += BWD_TILE) {
      t->n_q = ga_min_i64(BWD_TILE, t->s->n_q - t->q);
      store_dq(t);
    }
  }
  for (int64_t i = 0; i * BWD_TILE < t->s->n_kv; i++) key_tile(t, i, true);
}

static void query_tile(bwd_tile *t, int64_t tile) {
  const ga_attn_bwd_desc *d = t->job->d;
  int64_t from, to, unused;
  take_queries(t, tile);
  clear_floats(t->dq, BWD_TILE * t->job->head_pad);
  bwd_keys_of(d, t->s, t->q, &from, &unused);
  bwd_keys_of(d, t->s, t->q + t->n_q - 1, &unused, &to);
  for (int64_t i = from / BWD_TILE; i * BWD_TILE < to; i++) {
    take_key_tile(t, i);
    run_pair(t, false, true);
  }
  if (d->flags & GA_ATTN_BWD_ADD_DQ) add_dq(t);
  store_dq(t);
}

static void run_unit(const bwd_job *job, const bwd_unit *u, float *scratch) {
  bwd_tile t = tile_in(job, u, scratch);
  const int64_t n = u->kind == BWD_QUERIES ? u->s.n_q : u->s.n_kv;
  t.head_q = t.head_kv = u->head;
  if (u->kind == BWD_HEAD) {
    whole_head(&t);
  } else if (u->tile * BWD_TILE < n && u->kind == BWD_KEYS) {
    key_tile(&t, u->tile, false);
  } else if (u->tile * BWD_TILE < n) {
    t.head_kv = u->head / (job->d->q_heads / job->d->kv_heads);
    query_tile(&t, u->tile);
  }
}

ga_status ISA(ga_cpu_attn_bwd)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                               ga_stream *stream) {
  return cpu_attn_bwd_run(kernel, desc, io, workspace, stream, run_unit);
}
