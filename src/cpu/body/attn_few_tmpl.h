/* Attention of few queries (decoding) for one attn_unit (cpu_attn.h). K and V are converted in registers as they are
 * loaded from the cache. */

/* Number of query rows that share each load of a key or of a value. */
#define FEW 4

/* In functions with the suffix _of, the element type and the number of rows are constants in each call. The compiler
 * therefore makes specialised code. */

/* Computes the dot products of keys a and b with `rows` queries. sum_a[r] and sum_b[r] become vectors of partial sums,
 * whose lanes the caller adds. */
GA_INLINE void dot_pair_of(ga_dtype dtype, int rows, const float *q, int64_t head_pad, const uint8_t *a,
                           const uint8_t *b, int64_t n, vf *sum_a, vf *sum_b) {
  int64_t i = 0;
  for (int r = 0; r < rows; r++) sum_a[r] = sum_b[r] = vf_set(0.0f);
  for (; i + VN <= n; i += VN) {
    const vf x = load_lanes(dtype, a, i), y = load_lanes(dtype, b, i);
    for (int r = 0; r < rows; r++) {
      const vf w = vf_load(q + r * head_pad + i);
      sum_a[r] = vf_fma(w, x, sum_a[r]);
      sum_b[r] = vf_fma(w, y, sum_b[r]);
    }
  }
  if (i == n) return;
  const vf x = load_rest(dtype, a, i, n - i), y = load_rest(dtype, b, i, n - i);
  for (int r = 0; r < rows; r++) {
    const vf w = vf_load(q + r * head_pad + i);
    sum_a[r] = vf_fma(w, x, sum_a[r]);
    sum_b[r] = vf_fma(w, y, sum_b[r]);
  }
}

/* Distance, in rows of K or V, of prefetches into the first-level cache. Rows are prefetched in the order of use: keys
 * of this tile, its values, keys of the next KV head or tile.
 *
 * A cache line then occupies a line fill buffer once. Prefetches into the second level, from farther away, would occupy
 * a buffer twice. These buffers limit a core's reads (docs/log/cpu-attention.md). */
#define PREFETCH 48

GA_INLINE void prefetch_bytes(const uint8_t *p, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i += 64) GA_PREFETCH(p + i);
}

/* Prefetches the row that is used PREFETCH rows after key k of n. v_part is the number of bytes of a row of V that the
 * first pass over the values reads. */
GA_INLINE void prefetch_after_key(const attn_tile *t, int64_t k, int64_t n, int64_t v_part) {
  if (k + PREFETCH < n)
    prefetch_bytes(t->k[k + PREFETCH] + t->k_at, 0, t->k_bytes);
  else if (k + PREFETCH < 2 * n)
    prefetch_bytes(t->v[k + PREFETCH - n] + t->v_at, 0, v_part);
}

/* Prefetches the row that is used PREFETCH rows after value k of n. The current pass over the values reads bytes [from,
 * to) of each row of V. */
GA_INLINE void prefetch_after_value(const attn_tile *t, int64_t k, int64_t n, int64_t from, int64_t to) {
  const int64_t next = k + PREFETCH - n;
  if (next < 0)
    prefetch_bytes(t->v[k + PREFETCH] + t->v_at, from, to);
  else if (next >= n)
    return;
  else if (to < t->v_bytes)
    prefetch_bytes(t->v[next] + t->v_at, to, ga_min_i64(2 * to - from, t->v_bytes));
  else if (t->last_head)
    prefetch_bytes(t->next_k[next], 0, t->n_next ? t->k_bytes : 0);
  else
    prefetch_bytes(t->k[next] + t->k_at + t->k_step, 0, t->k_bytes);
}

GA_INLINE void few_scores_of(ga_dtype dtype, int rows, const attn_tile *t, int first, int64_t n) {
  const float *q = t->q + first * t->head_pad;
  const int64_t v_part = ga_min_i64(t->v_bytes, BLOCK_VECS * VN * t->v_bytes / t->job->d->v_dim);
  for (int64_t k = 0; k < n; k += VN) {
    vf sum[FEW][VN];
    for (int64_t j = 0; j < VN; j += 2) {
      vf a[FEW], b[FEW];
      /* past the end the last key is read again; mask_row then masks the score */
      const int64_t ka = ga_min_i64(k + j, n - 1), kb = ga_min_i64(k + j + 1, n - 1);
      if (first == 0) {
        prefetch_after_key(t, k + j, n, v_part);
        prefetch_after_key(t, k + j + 1, n, v_part);
      }
      dot_pair_of(dtype, rows, q, t->head_pad, t->k[ka] + t->k_at, t->k[kb] + t->k_at, t->job->d->head_dim, a, b);
      for (int r = 0; r < rows; r++) {
        sum[r][j] = a[r];
        sum[r][j + 1] = b[r];
      }
    }
    for (int r = 0; r < rows; r++) vf_store(t->scores + (first + r) * ATTN_KEYS + k, vf_sum_each(sum[r]));
  }
}

/* Adds the tile's n values, times their softmax weights, to columns [i, i + vecs * VN) of t->acc. The rows are `first`
 * to first + rows - 1. */
GA_INLINE void few_values_block(ga_dtype dtype, int rows, int vecs, const attn_tile *t, int first, int64_t n,
                                int64_t i) {
  float *acc = t->acc + first * t->v_pad + i;
  const float *weight = t->scores + first * ATTN_KEYS;
  const int64_t dim = t->job->d->v_dim, part = i * t->v_bytes / dim, part_end = (i + vecs * VN) * t->v_bytes / dim;
  vf sum[FEW][4];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) sum[r][v] = vf_load(acc + r * t->v_pad + v * VN);
  for (int64_t k = 0; k < n; k++) {
    vf x[4];
    if (first == 0) prefetch_after_value(t, k, n, part, part_end);
    for (int v = 0; v < vecs; v++) x[v] = load_lanes(dtype, t->v[k] + t->v_at, i + v * VN);
    for (int r = 0; r < rows; r++) {
      const vf w = vf_set(weight[r * ATTN_KEYS + k]);
      for (int v = 0; v < vecs; v++) sum[r][v] = vf_fma(w, x[v], sum[r][v]);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) vf_store(acc + r * t->v_pad + v * VN, sum[r][v]);
}

/* Adds the tile's n values, times their softmax weights, to the last columns of t->acc, from column i on. Fewer than VN
 * columns are left. */
static void few_values_rest(ga_dtype dtype, int rows, const attn_tile *t, int first, int64_t n, int64_t i) {
  for (int64_t k = 0; k < n; k++) {
    const vf x = load_rest(dtype, t->v[k] + t->v_at, i, t->job->d->v_dim - i);
    for (int r = first; r < first + rows; r++) {
      float *acc = t->acc + r * t->v_pad + i;
      vf_store(acc, vf_fma(vf_set(t->scores[r * ATTN_KEYS + k]), x, vf_load(acc)));
    }
  }
}

GA_INLINE void few_values_of(ga_dtype dtype, int rows, const attn_tile *t, int first, int64_t n) {
  const int64_t dim = t->job->d->v_dim;
  int64_t i = 0;
  for (; i + BLOCK_VECS * VN <= dim; i += BLOCK_VECS * VN) few_values_block(dtype, rows, BLOCK_VECS, t, first, n, i);
  for (; i + VN <= dim; i += VN) few_values_block(dtype, rows, 1, t, first, n, i);
  if (i < dim) few_values_rest(dtype, rows, t, first, n, i);
}

/* Calls function `name` for all rows of the tile: for four rows at a time, then for the one to three that are left. The
 * number of rows is a constant in each call. */
#define FEW_BLOCKS(name, dtype, t, n)                    \
  for (int first = 0; first < (t)->rows; first += FEW) { \
    const int rows = (t)->rows - first;                  \
    if (rows >= 4)                                       \
      name(dtype, 4, t, first, n);                       \
    else if (rows == 3)                                  \
      name(dtype, 3, t, first, n);                       \
    else if (rows == 2)                                  \
      name(dtype, 2, t, first, n);                       \
    else                                                 \
      name(dtype, 1, t, first, n);                       \
  }

#define FEW_TYPE(type)                                                                                   \
  static void few_scores_##type(const attn_tile *t, int64_t n) { FEW_BLOCKS(few_scores_of, type, t, n) } \
  static void few_values_##type(const attn_tile *t, int64_t n) { FEW_BLOCKS(few_values_of, type, t, n) }
FEW_TYPE(GA_F32)
FEW_TYPE(GA_F16)
FEW_TYPE(GA_BF16)
FEW_TYPE(GA_E4M3)
FEW_TYPE(GA_Q8_0)
FEW_TYPE(GA_Q4_0)

static void few_scores(const attn_tile *t, int64_t n) {
  switch (t->job->d->kv_dtype) {
  case GA_F32: few_scores_GA_F32(t, n); break;
  case GA_F16: few_scores_GA_F16(t, n); break;
  case GA_BF16: few_scores_GA_BF16(t, n); break;
  case GA_E4M3: few_scores_GA_E4M3(t, n); break;
  case GA_Q8_0: few_scores_GA_Q8_0(t, n); break;
  default: few_scores_GA_Q4_0(t, n); break;
  }
}

static void few_values(const attn_tile *t, int64_t n) {
  switch (t->job->d->kv_dtype) {
  case GA_F32: few_values_GA_F32(t, n); break;
  case GA_F16: few_values_GA_F16(t, n); break;
  case GA_BF16: few_values_GA_BF16(t, n); break;
  case GA_E4M3: few_values_GA_E4M3(t, n); break;
  case GA_Q8_0: few_values_GA_Q8_0(t, n); break;
  default: few_values_GA_Q4_0(t, n); break;
  }
}
