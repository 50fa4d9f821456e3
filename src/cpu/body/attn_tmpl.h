/* KERNEL    attn, f32 queries, keys and values f32, f16, bf16, e4m3 with scales, q8_0 or q4_0
 * COMPUTES  O = softmax(scale Q K^T + mask) V by the online softmax (arXiv 2205.14135), for one attn_unit of cpu_attn.h
 * DATA      a tile of ATTN_KEYS keys is converted once to floats in the first-level cache and serves all rows of the
 *           unit: the query heads of the KV head, times the queries. The KV cache is read once, in its own type.
 * ACCURACY  f32 products and sums; e^x of simd_math.h. Masked keys add exactly 0, even if they are NaN or infinite */
#include <math.h>

#include "base/mem.h"
#include "cpu/cpu_attn.h"

/* Width, in vectors, of the block of a product that stays in registers. The block has 4 rows, so that it has 16 or 8
 * accumulators. */
#define BLOCK_VECS (VN == 8 ? 2 : 4)
/* Units of at least this many rows transpose the keys, so that scores need no sums across lanes. */
#define TRANSPOSE_ROWS 8

typedef struct attn_tile {
  const attn_job *job;
  const attn_unit *u;
  /* Number of rows that the unit computes for each KV head: its queries times the query heads. */
  int rows;
  /* First query head of the current KV head. */
  int head;
  /* True: some row does not see all keys of the current tile. */
  bool masked;
  /* True: the unit has fewer than TRANSPOSE_ROWS rows. */
  bool few;
  /* Distance between rows in floats: head_pad of q, v_pad of acc and values, key_pad of keys. */
  int64_t head_pad, v_pad, key_pad;
  /* Memory of q, acc, m and l for all KV heads of the unit. */
  float *state;
  /* For the current KV head: q has queries, acc unnormalised rows of O, m the rows' largest logits, l their sums of
   * weights. */
  float *q, *acc, *m, *l;
  /* Scores Q K^T of the current tile, later softmax weights, [rows, ATTN_KEYS]. */
  float *scores;
  /* Keys and values of the tile as floats: keys [16, key_pad], columns [head_pad, ATTN_KEYS] (all keys, transposed),
   * values [16, v_pad]. */
  float *keys, *columns, *values;
  /* k_bytes and v_bytes are the bytes of a row of K and of V. k_step and v_step are the bytes from one KV head to the
   * next. */
  int64_t k_bytes, v_bytes, k_step, v_step;
  /* Offsets in bytes, from the addresses in k and v, to the rows of the current KV head. */
  int64_t k_at, v_at;
  /* Addresses of the rows of the current tile and of the next tile, [ATTN_KEYS] each. */
  const uint8_t **k, **v, **next_k, **next_v;
  /* Number of keys of the next tile. */
  int64_t n_next;
  /* True: the current KV head is the unit's last. */
  bool last_head;
  /* Index of the current KV head. */
  int kv_head;
  /* Scales of the tile's e4m3 keys and values, [ATTN_KEYS] each. */
  float *k_scale, *v_scale;
} attn_tile;

/* Returns the number of bytes of `elems` elements of type dtype. For block types elems must be a multiple of 32. */
GA_INLINE int64_t kv_bytes(int32_t dtype, int64_t elems) {
  switch (dtype) {
  case GA_F32: return elems * 4;
  case GA_E4M3: return elems;
  case GA_Q8_0: return elems / 32 * 34;
  case GA_Q4_0: return elems / 32 * 18;
  default: return elems * 2;
  }
}

static attn_tile tile_in(const attn_job *job, const attn_unit *u, float *scratch) {
  const attn_shape *h = &job->shape;
  const ga_attn_desc *d = job->d;
  const ga_attn_io *a = job->a;
  attn_tile t = {.job = job, .u = u, .rows = (int)u->n_q * u->n_heads, .head_pad = h->head_pad, .v_pad = h->v_pad};
  t.few = t.rows < TRANSPOSE_ROWS && !(d->flags & GA_ATTN_INVARIANT);
  t.key_pad = h->head_pad + 16; /* not a power of two, so that rows of a tile do not share cache sets */
  t.state = scratch;
  t.scores = t.state + h->state_rows * (h->head_pad + h->v_pad + 2);
  t.values = t.scores + h->rows * ATTN_KEYS;
  t.keys = t.values + 16 * h->v_pad;
  t.columns = t.keys + 16 * t.key_pad;
  t.k_bytes = kv_bytes(d->kv_dtype, d->head_dim);
  t.v_bytes = kv_bytes(d->kv_dtype, d->v_dim);
  t.k_step = kv_bytes(d->kv_dtype, a->k_stride.head);
  t.v_step = kv_bytes(d->kv_dtype, a->v_stride.head);
  return t;
}

/* Makes KV head i of the unit the current KV head. */
static void take_head(attn_tile *t, int i) {
  t->last_head = i + 1 == t->u->n_kv_heads;
  t->kv_head = t->u->kv_head + i;
  t->head = t->u->head + i * t->job->shape.group;
  t->q = t->state + i * t->rows * (t->head_pad + t->v_pad + 2);
  t->acc = t->q + t->rows * t->head_pad;
  t->m = t->acc + t->rows * t->v_pad;
  t->l = t->m + t->rows;
  t->k_at = i * t->k_step;
  t->v_at = i * t->v_step;
}

/* --- loading of queries, keys and values --- */

/* Returns VN elements of a row of any type as floats, from element i on. i is a multiple of VN, so that the elements
 * lie in one block of a block type. */
GA_INLINE vf load_lanes(ga_dtype dtype, const uint8_t *row, int64_t i) {
  switch (dtype) {
  case GA_F32: return vf_load((const float *)(const void *)row + i);
  case GA_F16: return vf_from_f16(row + 2 * i);
  case GA_BF16: return vf_from_bf16(row + 2 * i);
  case GA_E4M3: return vf_from_e4m3(row + i);
  default: break;
  }
  const int64_t block = (int64_t)((uint64_t)i / 32), e = i & 31;
  const uint8_t *b = row + block * (dtype == GA_Q8_0 ? 34 : 18);
  const vf scale = vf_set_f16(b);
  if (dtype == GA_Q8_0) return vf_mul(scale, vf_from_i8(b + 2 + e));
  return vf_mul(scale, vf_from_nibbles(b + 2 + (e & 15), e < 16 ? 0 : 4));
}

/* Returns the last n < VN elements of a row, from element i on, as floats. Nothing after them is read. The type has no
 * blocks. */
static vf load_rest(ga_dtype dtype, const uint8_t *row, int64_t i, int64_t n) {
  const size_t each = dtype == GA_F32 ? 4 : dtype == GA_E4M3 ? 1 : 2;
  uint8_t copy[4 * VN] = {0};
  memcpy(copy, row + (size_t)i * each, (size_t)n * each);
  return load_lanes(dtype, copy, 0);
}

GA_INLINE void load_row_of(ga_dtype dtype, const uint8_t *row, float *out, int64_t n, int64_t pad) {
  int64_t i = 0;
  for (; i + VN <= n; i += VN) vf_store(out + i, load_lanes(dtype, row, i));
  if (i < n) {
    vf_store(out + i, load_rest(dtype, row, i, n - i));
    i += VN;
  }
  for (; i < pad; i += VN) vf_store(out + i, vf_set(0.0f));
}

/* Converts n elements of a row to floats in `out`, and fills `out` with zeros up to `pad` elements. Each type has its
 * own loop, because load_row_of gets a constant type. */
static void load_row(ga_dtype dtype, const uint8_t *row, float *out, int64_t n, int64_t pad) {
  switch (dtype) {
  case GA_F32: load_row_of(GA_F32, row, out, n, pad); break;
  case GA_F16: load_row_of(GA_F16, row, out, n, pad); break;
  case GA_BF16: load_row_of(GA_BF16, row, out, n, pad); break;
  case GA_E4M3: load_row_of(GA_E4M3, row, out, n, pad); break;
  case GA_Q8_0: load_row_of(GA_Q8_0, row, out, n, pad); break;
  default: load_row_of(GA_Q4_0, row, out, n, pad); break;
  }
}

/* Returns the row of the tensor that holds key j, where j counts the rows of all stretches in order. Sets *left to the
 * number of rows from this row to the end of its stretch. */
static int64_t stretch_row(const ga_attn_stretch *kv, int64_t j, int64_t *left) {
  for (; j >= kv->rows; kv++) j -= kv->rows;
  *left = kv->rows - j;
  return kv->first + j;
}

/* Writes the addresses of keys [begin, begin + n) of the unit's first KV head to `rows`. Entries n to ATTN_KEYS - 1
 * repeat the last address. */
static void find_rows(const attn_tile *t, const void *base, const ga_attn_strides *stride, int64_t begin, int64_t n,
                      const uint8_t **rows) {
  const ga_attn_desc *d = t->job->d;
  const ga_attn_io *a = t->job->a;
  const attn_sequence *s = &t->u->s;
  const bool paged = d->flags & GA_ATTN_PAGED;
  const int64_t step = kv_bytes(d->kv_dtype, stride->token), size = paged ? d->page_size : INT64_MAX;
  int64_t page = paged ? begin / size : 0, slot = begin - page * (paged ? size : 0), end = size;
  for (int64_t k = 0; k < n; page++, slot = 0) {
    if (s->stretch) {
      slot = stretch_row(a->kv_stretches, begin + k, &end);
      page = paged ? slot / size : 0;
      slot -= paged ? page * size : 0;
      end = ga_min_i64(end + slot, size);
    }
    int64_t at = t->u->kv_head * stride->head + slot * stride->token;
    if (paged)
      at += a->page_table[s->b * a->page_table_stride + page] * stride->batch;
    else
      at += s->kv_first * stride->token + (d->flags & GA_ATTN_VARLEN ? 0 : s->b * stride->batch);
    const uint8_t *row = (const uint8_t *)base + kv_bytes(d->kv_dtype, at);
    for (; k < n && slot < end; k++, slot++, row += step) rows[k] = row;
  }
  for (int64_t k = n; k < ATTN_KEYS; k++) rows[k] = rows[n - 1];
}

/* Copies the scales of keys (or values) [begin, begin + n) of the current KV head to `out`. Entries n to ATTN_KEYS - 1
 * become 0. */
static void take_scales(const attn_tile *t, const ga_attn_scale *scale, int64_t begin, int64_t n, float *out) {
  const ga_attn_desc *d = t->job->d;
  const ga_attn_io *a = t->job->a;
  const attn_sequence *s = &t->u->s;
  const bool paged = d->flags & GA_ATTN_PAGED;
  const int64_t step = d->kv_scale_tokens ? scale->block : 0, size = paged ? d->page_size : INT64_MAX;
  int64_t page = paged ? begin / size : 0, slot = begin - page * (paged ? size : 0);
  for (int64_t k = 0; k < n; page++, slot = 0) {
    int64_t batch = d->flags & GA_ATTN_VARLEN ? 0 : s->b;
    if (paged) batch = a->page_table[s->b * a->page_table_stride + page];
    const float *p = scale->data + batch * scale->batch + t->kv_head * scale->head + (s->kv_first + slot) * step;
    for (; k < n && slot < size; k++, slot++, p += step) out[k] = *p;
  }
  for (int64_t k = n; k < ATTN_KEYS; k++) out[k] = 0;
}

static void load_queries(const attn_tile *t) {
  const ga_attn_desc *d = t->job->d;
  const ga_attn_io *a = t->job->a;
  const attn_unit *u = t->u;
  const int64_t batch = d->flags & GA_ATTN_VARLEN ? 0 : u->s.b * a->q_stride.batch;
  for (int r = 0; r < t->rows; r++) {
    const int64_t i = u->q + r / u->n_heads, h = t->head + r % u->n_heads;
    const float *q = (const float *)a->q + batch + (u->s.q_first + i) * a->q_stride.token + h * a->q_stride.head;
    float *out = t->q + r * t->head_pad;
    memcpy(out, q, (size_t)d->head_dim * sizeof *q);
    for (int64_t c = d->head_dim; c < t->head_pad; c++) out[c] = 0;
  }
}

/* --- matrix products, for units of many rows --- */

/* Computes C += A B for C [rows, vecs * VN], A [rows, n] and B [n, vecs * VN]. rows and vecs are constants in each
 * call. */
GA_INLINE void block_product(int rows, int vecs, float *c, int64_t ldc, const float *a, int64_t lda, const float *b,
                             int64_t ldb, int64_t n) {
  vf sum[4][4];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) sum[r][v] = vf_load(c + r * ldc + v * VN);
  for (int64_t k = 0; k < n; k++) {
    vf x[4];
    for (int v = 0; v < vecs; v++) x[v] = vf_load(b + k * ldb + v * VN);
    for (int r = 0; r < rows; r++) {
      const vf s = vf_set(a[r * lda + k]);
      for (int v = 0; v < vecs; v++) sum[r][v] = vf_fma(s, x[v], sum[r][v]);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) vf_store(c + r * ldc + v * VN, sum[r][v]);
}

GA_INLINE void rows_product(int vecs, int rows, float *c, int64_t ldc, const float *a, int64_t lda, const float *b,
                            int64_t ldb, int64_t n) {
  for (; rows >= 4; rows -= 4, c += 4 * ldc, a += 4 * lda) block_product(4, vecs, c, ldc, a, lda, b, ldb, n);
  if (rows == 3) block_product(3, vecs, c, ldc, a, lda, b, ldb, n);
  if (rows == 2) block_product(2, vecs, c, ldc, a, lda, b, ldb, n);
  if (rows == 1) block_product(1, vecs, c, ldc, a, lda, b, ldb, n);
}

/* Computes C [rows, width] += A [rows, n] B [n, width]. width is a multiple of 16. */
static void product(int rows, int64_t width, float *c, int64_t ldc, const float *a, int64_t lda, const float *b,
                    int64_t ldb, int64_t n) {
  int64_t i = 0;
  for (; i + BLOCK_VECS * VN <= width; i += BLOCK_VECS * VN)
    rows_product(BLOCK_VECS, rows, c + i, ldc, a, lda, b + i, ldb, n);
  for (; i < width; i += VN) rows_product(1, rows, c + i, ldc, a, lda, b + i, ldb, n);
}

/* Converts keys [first, first + n) of the tile, n <= VN, to floats in the first n rows of t->keys. Rows n to VN - 1
 * become zeros. */
static void load_keys(const attn_tile *t, int64_t first, int64_t n) {
  const ga_attn_desc *d = t->job->d;
  for (int64_t k = 0; k < n; k++)
    load_row((ga_dtype)d->kv_dtype, t->k[first + k] + t->k_at, t->keys + k * t->key_pad, d->head_dim, t->head_pad);
  for (int64_t k = n; k < VN; k++)
    for (int64_t i = 0; i < t->head_pad; i += VN) vf_store(t->keys + k * t->key_pad + i, vf_set(0.0f));
}

/* Transposes the VN rows of t->keys to columns k to k + VN - 1 of t->columns. */
static void transpose_keys(const attn_tile *t, int64_t k) {
  for (int64_t i = 0; i < t->head_pad; i += VN) {
    vf x[VN];
    for (int j = 0; j < VN; j++) x[j] = vf_load(t->keys + j * t->key_pad + i);
    vf_transpose(x);
    for (int j = 0; j < VN; j++) vf_store(t->columns + (i + j) * ATTN_KEYS + k, x[j]);
  }
}

static void many_scores(const attn_tile *t, int64_t n) {
  const int64_t width = (n + 15) / 16 * 16;
  for (int64_t k = 0; k < width; k += VN) {
    load_keys(t, k, ga_max_i64(0, ga_min_i64(VN, n - k)));
    transpose_keys(t, k);
  }
  for (int r = 0; r < t->rows; r++)
    for (int64_t k = 0; k < width; k += VN) vf_store(t->scores + r * ATTN_KEYS + k, vf_set(0.0f));
  product(t->rows, width, t->scores, ATTN_KEYS, t->q, t->head_pad, t->columns, ATTN_KEYS, t->job->d->head_dim);
}

static bool all_finite(const float *x, int64_t n) {
  const vf largest = vf_set(3.40282347e38f);
  for (int64_t i = 0; i < n; i += VN)
    if (vm_bits(vf_lt(largest, vf_abs(vf_load(x + i)))) || isnan(vf_sum(vf_load(x + i)))) return false;
  return true;
}

/* Adds weighted values to each row of t->acc, but only of keys that the row sees. A masked key's weight of 0 times an
 * infinite value or NaN would be NaN. */
static void many_values_masked(const attn_tile *t, int64_t begin, int64_t n, int64_t at) {
  for (int r = 0; r < t->rows; r++) {
    int64_t from, to;
    attn_visible(t->job, &t->u->s, t->u->q + r / t->u->n_heads, &from, &to);
    const int64_t first = ga_max_i64(0, ga_min_i64(n, from - begin)),
                  last = ga_max_i64(first, ga_min_i64(n, to - begin));
    product(1, t->v_pad, t->acc + r * t->v_pad, t->v_pad, t->scores + r * ATTN_KEYS + at + first, ATTN_KEYS,
            t->values + first * t->v_pad, t->v_pad, last - first);
  }
}

static void many_values(const attn_tile *t, int64_t begin, int64_t n) {
  const ga_attn_desc *d = t->job->d;
  for (int64_t k = 0; k < n; k += 16) {
    const int64_t some = ga_min_i64(16, n - k);
    for (int64_t j = 0; j < some; j++)
      load_row((ga_dtype)d->kv_dtype, t->v[k + j] + t->v_at, t->values + j * t->v_pad, d->v_dim, t->v_pad);
    if (t->masked && !all_finite(t->values, some * t->v_pad))
      many_values_masked(t, begin + k, some, k);
    else
      product(t->rows, t->v_pad, t->acc, t->v_pad, t->scores + k, ATTN_KEYS, t->values, t->v_pad, some);
  }
}

#include "cpu/body/attn_few_tmpl.h"

/* --- softmax --- */

/* Multiplies the ATTN_KEYS scores or weights of a row by the scales of the tile's keys or values. */
static void scale_keys(float *s, const float *scale) {
  for (int k = 0; k < ATTN_KEYS; k += VN) vf_store(s + k, vf_mul(vf_load(scale + k), vf_load(s + k)));
}

/* Applies scale, soft-cap and ALiBi to the scores of row r. The tile's first key is `begin`. Scaling q instead would
 * lose subnormal numbers. */
static void bend_scores(const attn_tile *t, int r, int64_t begin) {
  const ga_attn_desc *d = t->job->d;
  float *s = t->scores + r * ATTN_KEYS;
  const vf scale = vf_set(d->scale);
  for (int k = 0; k < ATTN_KEYS; k += VN) vf_store(s + k, vf_mul(scale, vf_load(s + k)));
  if (d->kv_dtype == GA_E4M3) scale_keys(s, t->k_scale);
  if (d->softcap > 0) {
    const vf cap = vf_set(d->softcap), inverse = vf_set(1 / d->softcap);
    for (int k = 0; k < ATTN_KEYS; k += VN) vf_store(s + k, vf_mul(cap, vf_tanh(vf_mul(inverse, vf_load(s + k)))));
  }
  if (d->flags & GA_ATTN_ALIBI) {
    const attn_unit *u = t->u;
    const float slope = t->job->a->alibi[t->head + r % u->n_heads];
    const int64_t first = begin - (u->q + r / u->n_heads + u->s.n_kv - u->s.n_q);
    const bool symmetric = d->flags & GA_ATTN_SYMMETRIC;
    for (int k = 0; k < ATTN_KEYS; k++) s[k] += slope * (float)(symmetric && first + k > 0 ? -first - k : first + k);
  }
}

static bool any_nan(const float *s, int n) {
  for (int i = 0; i < n; i++)
    if (isnan(s[i])) return true;
  return false;
}

static float tile_max(const float *s) {
  vf m = vf_load(s);
  for (int k = VN; k < ATTN_KEYS; k += VN) m = vf_max(m, vf_load(s + k));
  const float most = vf_hmax(m);
  return most == -INFINITY && any_nan(s, ATTN_KEYS) ? NAN : most; /* vf_max may have dropped a NaN */
}

static void scale_acc(const attn_tile *t, int r, float factor) {
  float *acc = t->acc + r * t->v_pad;
  const vf f = vf_set(factor);
  for (int64_t i = 0; i < t->v_pad; i += VN) vf_store(acc + i, vf_mul(f, vf_load(acc + i)));
}

/* Replaces each score s of row r by its weight e^(s - m), where m is the row's new maximum. Rescales l and acc to m. */
static void softmax_tile_row(const attn_tile *t, int r) {
  float *s = t->scores + r * ATTN_KEYS;
  const float most = tile_max(s), m = t->m[r] >= most ? t->m[r] : most;
  if (m == -INFINITY) { /* the row has seen no key yet */
    for (int k = 0; k < ATTN_KEYS; k += VN) vf_store(s + k, vf_set(0.0f));
    return;
  }
  const vf top = vf_set(m);
  vf sum = vf_set(0.0f);
  for (int k = 0; k < ATTN_KEYS; k += VN) {
    const vf e = vf_exp(vf_sub(vf_load(s + k), top));
    sum = vf_add(sum, e);
    vf_store(s + k, e);
  }
  float keep[VN];
  vf_store(keep, vf_exp(vf_sub(vf_set(t->m[r]), top)));
  t->l[r] = t->l[r] * keep[0] + vf_sum(sum);
  t->m[r] = m;
  if (keep[0] != 1) scale_acc(t, r, keep[0]);
}

/* Sets scores of row r to -infinity for keys of [begin, begin + n) that it does not see, and for entries from n on.
 * Returns true if the row does not see all n keys. */
static bool mask_row(const attn_tile *t, int r, int64_t begin, int64_t n) {
  int64_t from, to;
  attn_visible(t->job, &t->u->s, t->u->q + r / t->u->n_heads, &from, &to);
  float *s = t->scores + r * ATTN_KEYS;
  const int64_t first = ga_max_i64(0, ga_min_i64(n, from - begin)), last = ga_max_i64(first, ga_min_i64(n, to - begin));
  for (int64_t k = 0; k < first; k++) s[k] = -INFINITY;
  for (int64_t k = last; k < ATTN_KEYS; k++) s[k] = -INFINITY;
  return last - first < n;
}

/* --- the work of a unit --- */

static void start_rows(const attn_tile *t) {
  load_queries(t);
  for (int r = 0; r < t->rows; r++) {
    t->m[r] = -INFINITY;
    t->l[r] = 0;
    for (int64_t i = 0; i < t->v_pad; i += VN) vf_store(t->acc + r * t->v_pad + i, vf_set(0.0f));
  }
}

static void finish_rows(const attn_tile *t) {
  const attn_unit *u = t->u;
  for (int r = 0; r < t->rows; r++) {
    const int head = t->head + r % u->n_heads;
    const int64_t q = u->q + r / u->n_heads;
    const float *acc = t->acc + r * t->v_pad;
    if (u->split < 0) {
      attn_finish_row(t->job, &u->s, head, q, t->m[r], t->l[r], acc);
      continue;
    }
    float *out = attn_partial(t->job, u->s.b, head, q, u->split);
    out[0] = t->m[r];
    out[1] = t->l[r];
    memcpy(out + 2, acc, (size_t)t->job->d->v_dim * sizeof *acc);
  }
}

static void next_rows(attn_tile *t, int64_t begin, int64_t end) {
  const ga_attn_io *a = t->job->a;
  t->n_next = 0;
  if (begin >= end) return;
  find_rows(t, a->k, &a->k_stride, begin, ga_min_i64(ATTN_KEYS, end - begin), t->next_k);
  find_rows(t, a->v, &a->v_stride, begin, ga_min_i64(ATTN_KEYS, end - begin), t->next_v);
  t->n_next = ga_min_i64(ATTN_KEYS, end - begin);
}

static void swap_rows(attn_tile *t) {
  const uint8_t **k = t->k, **v = t->v;
  t->k = t->next_k;
  t->v = t->next_v;
  t->next_k = k;
  t->next_v = v;
}

/* Processes keys [begin, begin + n) for the current KV head. */
static void run_tile(attn_tile *t, int64_t begin, int64_t n) {
  const bool scales = t->job->d->kv_dtype == GA_E4M3;
  if (scales) take_scales(t, &t->job->a->k_scale, begin, n, t->k_scale);
  if (scales) take_scales(t, &t->job->a->v_scale, begin, n, t->v_scale);
  if (t->few)
    few_scores(t, n);
  else
    many_scores(t, n);
  t->masked = false;
  for (int r = 0; r < t->rows; r++) {
    bend_scores(t, r, begin);
    t->masked |= mask_row(t, r, begin, n);
    softmax_tile_row(t, r);
    if (scales) scale_keys(t->scores + r * ATTN_KEYS, t->v_scale);
  }
  if (t->few && !t->masked)
    few_values(t, n);
  else
    many_values(t, begin, n);
}

static void run_unit(const attn_job *job, const attn_unit *u, float *scratch) {
  const uint8_t *rows[4][ATTN_KEYS] = {{NULL}};
  float scales[2][ATTN_KEYS];
  attn_tile t = tile_in(job, u, scratch);
  t.k = rows[0], t.v = rows[1], t.next_k = rows[2], t.next_v = rows[3];
  t.k_scale = scales[0], t.v_scale = scales[1];
  for (int h = 0; h < u->n_kv_heads; h++) {
    take_head(&t, h);
    start_rows(&t);
  }
  /* tiles begin at multiples of ATTN_KEYS, even if the unit's first key is not one */
  int64_t begin = u->key_begin, end = begin / ATTN_KEYS * ATTN_KEYS + ATTN_KEYS;
  if (job->d->flags & GA_ATTN_INVARIANT) begin = end - ATTN_KEYS;
  next_rows(&t, begin, ga_min_i64(end, u->key_end));
  for (; begin < u->key_end; begin = end, end += ATTN_KEYS) {
    swap_rows(&t);
    next_rows(&t, end, u->key_end);
    for (int h = 0; h < u->n_kv_heads; h++) {
      take_head(&t, h);
      run_tile(&t, begin, ga_min_i64(end, u->key_end) - begin);
    }
  }
  for (int h = 0; h < u->n_kv_heads; h++) {
    take_head(&t, h);
    finish_rows(&t);
  }
}

ga_status ISA(ga_cpu_attn)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream) {
  return cpu_attn_run(kernel, desc, io, workspace, stream, run_unit);
}
