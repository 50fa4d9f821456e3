/* The ops as handlers of XLA: attention and its gradients, products, blocks of weights. Arrays are contiguous, as
 * XLA hands them over. Leading dimensions are those that vmap has put there. Shapes and types are checked here, for
 * anybody may call these targets. */
#include "python/ext/jax.h"

#include <stdio.h>
#include <string.h>

JAX_FORM(attn)
JAX_FORM(attn_bwd)
JAX_FORM(gemm)
JAX_FORM(convert)
JAX_FORM(embed)

/* ---- attention ---- */

/* Takes arguments first to first + n - 1, all of one type. */
static ga_status take_all(jax_call *call, int64_t first, int32_t n, const xla_buffer **buffers, const void **data,
                          ga_dtype *dtype) {
  ga_status status = GA_OK;
  for (int32_t i = 0; i < n && status == GA_OK; i++) {
    buffers[i] = jax_argument(call, first + i);
    if (!buffers[i]) return GA_ERR_ARG;
    status = jax_take(call, buffers[i], &data[i], dtype);
  }
  return status;
}

/* Refuses a buffer of another type, rank or shape; a size of -1 is any. `rank` counts the dimensions behind those that
 * vmap has put there, whose product must be `lead` (-1: any). */
static ga_status need(jax_call *call, const char *name, const xla_buffer *x, ga_dtype dtype, int64_t lead, int32_t rank,
                      const int64_t *dims) {
  char wanted[96];
  size_t used = 0;
  bool same = x->rank >= rank && jax_dtype(x) == dtype;
  wanted[0] = 0;
  if (same && lead >= 0) same = jax_product(x, 0, x->rank - rank) == lead;
  for (int32_t i = 0; i < rank; i++) {
    if (same && dims[i] >= 0) same = x->dims[x->rank - rank + i] == dims[i];
    if (used + 24 < sizeof wanted)
      used += (size_t)snprintf(wanted + used, sizeof wanted - used, dims[i] < 0 ? "%sany" : "%s%lld", i ? ", " : "",
                               (long long)dims[i]);
  }
  if (same) return GA_OK;
  char seen[96];
  used = 0;
  seen[0] = 0;
  for (int32_t i = 0; i < x->rank && used + 24 < sizeof seen; i++)
    used += (size_t)snprintf(seen + used, sizeof seen - used, "%s%lld", i ? ", " : "", (long long)x->dims[i]);
  if (lead < 0)
    return jax_fail(call, GA_ERR_SHAPE, "%s is %s [%s]; allowed is %s [..., %s]", name, ga_dtype_name(jax_dtype(x)),
                    seen, ga_dtype_name(dtype), wanted);
  return jax_fail(call, GA_ERR_SHAPE, "%s is %s [%s]; allowed is %s [..., %s], %lld of them", name,
                  ga_dtype_name(jax_dtype(x)), seen, ga_dtype_name(dtype), wanted, (long long)lead);
}

/* Sizes of q, k and v, and the arrays that options bring: sinks [heads] f32, and borders of packed sequences, i32
 * [sequences + 1] each for queries and keys, with which tokens are not [batch, tokens] but one list. */
typedef struct attention_call {
  int64_t batch, n_q, n_kv, q_heads, kv_heads, dim, v_dim;
  int32_t causal, has_sinks, packed, max_q, max_kv;
  int64_t sequences; /* of packed tokens */
  const float *sinks;
  const int32_t *q_start, *kv_start;
} attention_call;

/* q, k and v, whose leading dimensions are those of vmap and the batch. */
static ga_status take_sizes(jax_call *call, const xla_buffer *const b[3], attention_call *a) {
  static const char *const names[3] = {"q", "k", "v"};
  for (int i = 0; i < 3; i++)
    if (b[i]->rank < 4)
      return jax_fail(call, GA_ERR_SHAPE, "%s has %d dimensions; allowed are 4 and more", names[i], (int)b[i]->rank);
  const int64_t *q = b[0]->dims + b[0]->rank - 3, *k = b[1]->dims + b[1]->rank - 3, *v = b[2]->dims + b[2]->rank - 3;
  a->batch = jax_product(b[0], 0, b[0]->rank - 3);
  a->n_q = q[0], a->q_heads = q[1], a->dim = q[2];
  a->n_kv = k[0], a->kv_heads = k[1], a->v_dim = v[2];
  const int64_t as_k[3] = {a->n_kv, a->kv_heads, a->dim}, as_v[3] = {a->n_kv, a->kv_heads, a->v_dim};
  const ga_status status = need(call, "k", b[1], jax_dtype(b[0]), a->batch, 3, as_k);
  return status == GA_OK ? need(call, "v", b[2], jax_dtype(b[0]), a->batch, 3, as_v) : status;
}

/* On the CPU values are looked at too, for a wrong one would make a kernel read outside of the arrays. The first is 0;
 * tokens behind the last one are padding. */
static ga_status take_borders(jax_call *call, const char *name, const xla_buffer *x, int64_t tokens, int32_t most,
                              int64_t *sequences, const int32_t **out) {
  const int64_t n = x->rank ? x->dims[x->rank - 1] : 0, dims[1] = {*sequences < 0 ? -1 : *sequences + 1};
  const ga_status status = need(call, name, x, GA_I32, 1, 1, dims);
  if (status != GA_OK) return status;
  if (n < 2) return jax_fail(call, GA_ERR_SHAPE, "%s has %d borders; allowed are 2 and more", name, (int)n);
  *sequences = n - 1;
  *out = x->data;
  for (int64_t i = 0; !call->is_cuda && i + 1 < n; i++) {
    const int64_t first = (*out)[i], end = (*out)[i + 1];
    if (first < 0 || (i == 0 && first != 0) || end < first || end > tokens || end - first > most)
      return jax_fail(call, GA_ERR_ARG,
                      "%s: borders %lld and %lld are %lld and %lld; allowed are rising ones from 0 to %lld, %d apart",
                      name, (long long)i, (long long)i + 1, (long long)first, (long long)end, (long long)tokens,
                      (int)most);
  }
  return GA_OK;
}

/* Reads the options, and the arrays behind the first `at` ones. */
static ga_status take_attention_options(jax_call *call, int64_t at, attention_call *a) {
  ga_status status = jax_int(call, "causal", &a->causal);
  if (status == GA_OK) status = jax_int(call, "sinks", &a->has_sinks);
  if (status == GA_OK) status = jax_int(call, "packed", &a->packed);
  if (status == GA_OK) status = jax_int(call, "max_q", &a->max_q);
  if (status == GA_OK) status = jax_int(call, "max_kv", &a->max_kv);
  if (status == GA_OK && a->has_sinks) {
    const xla_buffer *sinks = jax_argument(call, at++);
    const int64_t dims[1] = {a->q_heads};
    if (!sinks) return GA_ERR_ARG;
    status = need(call, "sinks", sinks, GA_F32, 1, 1, dims);
    a->sinks = sinks->data;
  }
  if (status != GA_OK || !a->packed) return status;
  if (a->batch != 1)
    return jax_fail(call, GA_ERR_SHAPE, "q has a batch of %lld beside packed sequences; allowed is 1",
                    (long long)a->batch);
  const xla_buffer *q_start = jax_argument(call, at), *kv_start = jax_argument(call, at + 1);
  if (!q_start || !kv_start) return GA_ERR_ARG;
  a->sequences = -1;
  status = take_borders(call, "q_start", q_start, a->n_q, a->max_q, &a->sequences, &a->q_start);
  if (status == GA_OK)
    status = take_borders(call, "kv_start", kv_start, a->n_kv, a->max_kv, &a->sequences, &a->kv_start);
  return status;
}

/* lse [..., heads, queries], or of packed sequences [sequences, heads, max_q]. */
static ga_status need_lse(jax_call *call, const xla_buffer *lse, const attention_call *a) {
  const int64_t dims[2] = {a->q_heads, a->packed ? a->max_q : a->n_q};
  return need(call, "lse", lse, GA_F32, a->packed ? a->sequences : a->batch, 2, dims);
}

/* q, k, v, with options sinks, q_start and kv_start, to o, lse. */
static ga_status jax_attention(jax_call *call) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  ga_attn_io io = {0};
  attention_call a = {0};
  const xla_buffer *b[3];
  const void *x[3];
  ga_dtype dtype = GA_DTYPE_NONE, o_dtype = GA_DTYPE_NONE;
  const xla_buffer *o = jax_result(call, 0), *lse = jax_result(call, 1);
  if (!o || !lse) return GA_ERR_ARG;
  ga_status status = take_all(call, 0, 3, b, x, &dtype);
  if (status == GA_OK) status = take_sizes(call, b, &a);
  if (status == GA_OK) status = take_attention_options(call, 3, &a);
  const int64_t as_o[3] = {a.n_q, a.q_heads, a.v_dim};
  if (status == GA_OK) status = need(call, "o", o, jax_dtype(b[0]), a.batch, 3, as_o);
  if (status == GA_OK) status = need_lse(call, lse, &a);
  if (status == GA_OK) status = jax_int(call, "window", &d.window);
  if (status == GA_OK) status = jax_float(call, "scale", &d.scale);
  d.scale = pyga_scale(d.scale);
  if (status == GA_OK) status = jax_float(call, "softcap", &d.softcap);
  if (status == GA_OK) status = jax_make(call, o, &io.o, &o_dtype);
  if (status != GA_OK) return status;
  d.batch = a.packed ? a.sequences : a.batch;
  d.max_q = a.packed ? a.max_q : a.n_q, d.max_kv = a.packed ? a.max_kv : a.n_kv;
  d.q_heads = (int32_t)a.q_heads, d.kv_heads = (int32_t)a.kv_heads;
  d.head_dim = (int32_t)a.dim, d.v_dim = (int32_t)a.v_dim;
  d.q_dtype = d.kv_dtype = (int32_t)dtype, d.o_dtype = (int32_t)o_dtype;
  d.flags = GA_ATTN_LSE | (a.causal ? GA_ATTN_CAUSAL : 0u) | (a.sinks ? GA_ATTN_SINKS : 0u) |
            (a.packed ? GA_ATTN_VARLEN : 0u);
  io.q = x[0], io.k = x[1], io.v = x[2];
  io.lse = lse->data;
  io.sinks = a.sinks, io.q_start = a.q_start, io.kv_start = a.kv_start;
  if (a.packed) io.q_tokens = a.n_q, io.kv_tokens = a.n_kv;
  return jax_run(call, &form_attn, &d, sizeof d, &io);
}

/* dq, dk and dv as q, k and v, and with sinks dsinks. */
static ga_status make_gradients(jax_call *call, const xla_buffer *const b[3], const attention_call *a, void *grad[4],
                                ga_dtype *dtype) {
  static const char *const names[3] = {"dq", "dk", "dv"};
  for (int i = 0; i < 3; i++) {
    const xla_buffer *result = jax_result(call, i);
    if (!result) return GA_ERR_ARG;
    ga_status status = need(call, names[i], result, jax_dtype(b[0]), a->batch, 3, b[i]->dims + b[i]->rank - 3);
    if (status == GA_OK) status = jax_make(call, result, &grad[i], dtype);
    if (status != GA_OK) return status;
  }
  if (!a->sinks) return GA_OK;
  const xla_buffer *dsinks = jax_result(call, 3);
  const int64_t dims[1] = {a->q_heads};
  if (!dsinks) return GA_ERR_ARG;
  grad[3] = dsinks->data;
  return need(call, "dsinks", dsinks, GA_F32, 1, 1, dims);
}

/* q, k, v, o, dout, lse, with options sinks, q_start and kv_start, to dq, dk, dv, dsinks. */
static ga_status jax_attention_backward(jax_call *call) {
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  ga_attn_bwd_io io = {0};
  attention_call a = {0};
  const xla_buffer *b[5];
  const void *x[5];
  void *grad[4] = {NULL};
  int32_t same_bits = 0;
  ga_dtype dtype = GA_DTYPE_NONE, grad_dtype = GA_DTYPE_NONE;
  const xla_buffer *lse = jax_argument(call, 5);
  if (!lse) return GA_ERR_ARG;
  ga_status status = take_all(call, 0, 5, b, x, &dtype);
  if (status == GA_OK) status = take_sizes(call, b, &a);
  if (status == GA_OK) status = take_attention_options(call, 6, &a);
  const int64_t as_o[3] = {a.n_q, a.q_heads, a.v_dim};
  if (status == GA_OK) status = need(call, "o", b[3], jax_dtype(b[0]), a.batch, 3, as_o);
  if (status == GA_OK) status = need(call, "dout", b[4], jax_dtype(b[0]), a.batch, 3, as_o);
  if (status == GA_OK) status = need_lse(call, lse, &a);
  if (status == GA_OK) status = make_gradients(call, b, &a, grad, &grad_dtype);
  if (status == GA_OK) status = jax_int(call, "deterministic", &same_bits);
  if (status == GA_OK) status = jax_int(call, "window", &d.window);
  if (status == GA_OK) status = jax_float(call, "scale", &d.scale);
  d.scale = pyga_scale(d.scale);
  if (status == GA_OK) status = jax_float(call, "softcap", &d.softcap);
  if (status != GA_OK) return status;
  d.batch = a.packed ? a.sequences : a.batch;
  d.max_q = a.packed ? a.max_q : a.n_q, d.max_kv = a.packed ? a.max_kv : a.n_kv;
  if (a.packed) d.total_q = a.n_q, d.total_kv = a.n_kv;
  d.q_heads = (int32_t)a.q_heads, d.kv_heads = (int32_t)a.kv_heads;
  d.head_dim = (int32_t)a.dim, d.v_dim = (int32_t)a.v_dim;
  d.dtype = (int32_t)dtype, d.grad_dtype = (int32_t)grad_dtype;
  d.flags = (a.causal ? (uint32_t)GA_ATTN_CAUSAL : 0u) | (same_bits ? (uint32_t)GA_ATTN_BWD_DETERMINISTIC : 0u) |
            (a.sinks ? (uint32_t)GA_ATTN_SINKS : 0u) | (a.packed ? (uint32_t)GA_ATTN_VARLEN : 0u);
  io.q = x[0], io.k = x[1], io.v = x[2], io.o = x[3], io.dout = x[4], io.lse = lse->data;
  io.dq = grad[0], io.dk = grad[1], io.dv = grad[2], io.dsinks = grad[3];
  io.sinks = a.sinks, io.q_start = a.q_start, io.kv_start = a.kv_start;
  return jax_run(call, &form_attn_bwd, &d, sizeof d, &io);
}

/* On the CPU: lengths within the table, and page numbers that there are. */
static ga_status check_jax_pages(jax_call *call, const xla_buffer *table, const xla_buffer *lengths, int64_t pages,
                                 int64_t page_size) {
  const int32_t *numbers = table->data, *length = lengths->data;
  const int64_t width = table->dims[1];
  for (int64_t b = 0; !call->is_cuda && b < table->dims[0]; b++) {
    if (length[b] < 0 || length[b] > width * page_size)
      return jax_fail(call, GA_ERR_ARG, "kv_len: sequence %lld has %d; allowed are 0 to %lld", (long long)b,
                      (int)length[b], (long long)(width * page_size));
    for (int64_t i = 0; i * page_size < length[b]; i++)
      if (numbers[b * width + i] < 0 || numbers[b * width + i] >= pages)
        return jax_fail(call, GA_ERR_ARG, "page_table: [%lld, %lld] is %d; allowed are 0 to %lld", (long long)b,
                        (long long)i, (int)numbers[b * width + i], (long long)pages - 1);
  }
  return GA_OK;
}

/* q [batch, n, heads, dim], k and v [pages, page_size, kv_heads, dim], table [batch, width], lengths [batch] to o. */
static ga_status jax_paged(jax_call *call) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  ga_attn_io io = {0};
  const xla_buffer *b[3], *table = jax_argument(call, 3), *lengths = jax_argument(call, 4), *o = jax_result(call, 0);
  const void *x[3];
  ga_dtype dtype = GA_DTYPE_NONE, o_dtype = GA_DTYPE_NONE;
  int32_t causal = 0;
  if (!table || !lengths || !o) return GA_ERR_ARG;
  ga_status status = take_all(call, 0, 3, b, x, &dtype);
  if (status != GA_OK) return status;
  for (int i = 0; i < 3; i++)
    if (b[i]->rank != 4)
      return jax_fail(call, GA_ERR_SHAPE, "argument %d has %d dimensions; allowed are 4", i, (int)b[i]->rank);
  const int64_t *q = b[0]->dims, *k = b[1]->dims, v_dim = b[2]->dims[3];
  const int64_t as_k[4] = {k[0], k[1], k[2], q[3]}, as_v[4] = {k[0], k[1], k[2], v_dim},
                as_o[4] = {q[0], q[1], q[2], v_dim};
  const int64_t as_table[2] = {q[0], -1}, as_lengths[1] = {q[0]};
  status = need(call, "k", b[1], jax_dtype(b[0]), 1, 4, as_k);
  if (status == GA_OK) status = need(call, "v", b[2], jax_dtype(b[0]), 1, 4, as_v);
  if (status == GA_OK) status = need(call, "o", o, jax_dtype(b[0]), 1, 4, as_o);
  if (status == GA_OK) status = need(call, "page_table", table, GA_I32, 1, 2, as_table);
  if (status == GA_OK) status = need(call, "kv_len", lengths, GA_I32, 1, 1, as_lengths);
  if (status == GA_OK) status = jax_int(call, "causal", &causal);
  if (status == GA_OK) status = jax_int(call, "window", &d.window);
  if (status == GA_OK) status = jax_float(call, "scale", &d.scale);
  d.scale = pyga_scale(d.scale);
  if (status == GA_OK) status = jax_float(call, "softcap", &d.softcap);
  if (status == GA_OK) status = check_jax_pages(call, table, lengths, k[0], k[1]);
  if (status == GA_OK) status = jax_make(call, o, &io.o, &o_dtype);
  if (status != GA_OK) return status;
  d.batch = q[0], d.max_q = q[1], d.max_kv = table->dims[1] * k[1];
  d.q_heads = (int32_t)q[2], d.kv_heads = (int32_t)k[2], d.head_dim = (int32_t)q[3], d.v_dim = (int32_t)v_dim;
  d.q_dtype = d.kv_dtype = (int32_t)dtype, d.o_dtype = (int32_t)o_dtype;
  d.page_size = (int32_t)k[1];
  d.flags = GA_ATTN_PAGED | (causal ? GA_ATTN_CAUSAL : 0u);
  io.q = x[0], io.k = x[1], io.v = x[2];
  io.page_table = table->data, io.page_table_stride = table->dims[1], io.kv_len = lengths->data;
  return jax_run(call, &form_attn, &d, sizeof d, &io);
}

/* ---- products ---- */

/* One of two matrices under leading dimensions, which are 1 or those of the result: element `index` of the result's
 * leading dimensions, counted in matrices (of a bias: in rows). */
static int64_t lead_matrix(const xla_buffer *x, const xla_buffer *y, int64_t index) {
  int64_t at = 0, step = 1;
  for (int64_t i = y->rank - 3; i >= 0; i--) {
    const int64_t here = index % y->dims[i];
    index /= y->dims[i];
    at += (x->dims[i] == 1 ? 0 : here) * step;
    step *= x->dims[i];
  }
  return at;
}

static ga_status gemm_options(jax_call *call, ga_gemm_desc *d, bool *has_bias) {
  int32_t xt = 0, wt = 0, bias = 0;
  ga_status status = jax_int(call, "xt", &xt);
  if (status == GA_OK) status = jax_int(call, "wt", &wt);
  if (status == GA_OK) status = jax_int(call, "bias", &bias);
  if (status == GA_OK) status = jax_int(call, "act", &d->act);
  if (status == GA_OK) status = jax_float(call, "scale", &d->scale);
  d->flags = (xt ? (uint32_t)GA_GEMM_XT : 0u) | (wt ? (uint32_t)GA_GEMM_WT : 0u) | (bias ? (uint32_t)GA_GEMM_BIAS : 0u);
  *has_bias = bias;
  return status;
}

/* The type of the weights: that of their array, or with bytes that of their blocks. */
static ga_status weights_take(jax_call *call, const xla_buffer *w, const void **data, ga_dtype *dtype) {
  char name[24];
  if (w->dtype != XLA_U8) return jax_take(call, w, data, dtype);
  const ga_status status = jax_text(call, "w_dtype", name, sizeof name);
  if (status != GA_OK) return status;
  *data = w->data;
  *dtype = ga_dtype_from_name(name);
  if (*dtype == GA_DTYPE_NONE)
    return jax_fail(call, GA_ERR_DTYPE, "w_dtype is '%s'; allowed are weight types, such as 'q4_0'", name);
  return GA_OK;
}

typedef struct gemm_call {
  const xla_buffer *x, *w, *bias, *y;
  const char *x_data, *w_data;
  char *y_data;
  int64_t x_bytes, w_bytes, y_bytes; /* of a matrix */
} gemm_call;

static int64_t matrix_bytes(const xla_buffer *b, ga_dtype dtype) {
  uint64_t bytes = 0;
  if (b->dtype == XLA_U8) return jax_product(b, b->rank - 2, b->rank);
  return ga_dtype_bytes(dtype, jax_product(b, b->rank - 2, b->rank), &bytes) == GA_OK ? (int64_t)bytes : 0;
}

/* All matrices of x under one w are one product, unless x lies transposed; else it is one for each. */
static ga_status gemm_each(jax_call *call, ga_gemm_desc *d, const gemm_call *g) {
  const int64_t lead = jax_product(g->y, 0, g->y->rank - 2);
  const bool one = jax_product(g->w, 0, g->w->rank - 2) == 1 && jax_product(g->x, 0, g->x->rank - 2) == lead &&
                   (!(d->flags & GA_GEMM_XT) || lead == 1) &&
                   (!g->bias || jax_product(g->bias, 0, g->bias->rank - 1) == 1);
  ga_status status = GA_OK;
  if (one) d->m *= lead;
  for (int64_t i = 0; i < (one ? 1 : lead) && status == GA_OK; i++) {
    ga_gemm_io io = {.y = g->y_data + i * g->y_bytes};
    io.x = g->x_data + lead_matrix(g->x, g->y, i) * g->x_bytes;
    io.w = g->w_data + lead_matrix(g->w, g->y, i) * g->w_bytes;
    if (g->bias) io.bias = (const float *)g->bias->data + lead_matrix(g->bias, g->y, i) * d->n;
    status = jax_run(call, &form_gemm, d, sizeof *d, &io);
  }
  return status;
}

/* Leading dimensions of x, w and bias are 1 or those of y, and the last ones m, n and k. */
static ga_status gemm_shapes(jax_call *call, const ga_gemm_desc *d, const gemm_call *g, ga_dtype w_dtype) {
  const bool xt = d->flags & GA_GEMM_XT, wt = d->flags & GA_GEMM_WT, bytes = g->w->dtype == XLA_U8;
  uint64_t row = 0;
  if (bytes && (wt || ga_dtype_bytes(w_dtype, d->k, &row) != GA_OK))
    return jax_fail(call, GA_ERR_SHAPE, "k is %lld; allowed are whole blocks of %s, not transposed", (long long)d->k,
                    ga_dtype_name(w_dtype));
  const int64_t as_x[2] = {xt ? d->k : d->m, xt ? d->m : d->k};
  const int64_t as_w[2] = {wt ? d->k : d->n, bytes ? (int64_t)row : wt ? d->n : d->k}, as_bias[1] = {d->n};
  ga_status status = need(call, "x", g->x, jax_dtype(g->x), -1, 2, as_x);
  if (status == GA_OK) status = need(call, "w", g->w, bytes ? GA_U8 : jax_dtype(g->x), -1, 2, as_w);
  if (status == GA_OK && g->bias) status = need(call, "bias", g->bias, GA_F32, -1, 1, as_bias);
  if (status != GA_OK) return status;
  if (g->bias && g->bias->rank != g->y->rank - 1)
    return jax_fail(call, GA_ERR_SHAPE, "bias has %d dimensions; allowed are %d", (int)g->bias->rank,
                    (int)g->y->rank - 1);
  for (int64_t i = 0; i < g->y->rank - 2; i++) {
    const int64_t most = g->y->dims[i], seen[3] = {g->x->dims[i], g->w->dims[i], g->bias ? g->bias->dims[i] : 1};
    for (int j = 0; j < 3; j++)
      if (seen[j] != 1 && seen[j] != most)
        return jax_fail(call, GA_ERR_SHAPE, "dimension %d of argument %d is %lld; allowed are 1 and %lld", (int)i, j,
                        (long long)seen[j], (long long)most);
  }
  return GA_OK;
}

/* x [..., m, k], [..., k, m] with xt; w [..., n, k], [..., k, n] with wt, [..., n, bytes] of blocks; bias [..., n]. */
static ga_status jax_gemm(jax_call *call) {
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  gemm_call g = {.x = jax_argument(call, 0), .w = jax_argument(call, 1), .y = jax_result(call, 0)};
  const void *x = NULL, *w = NULL;
  void *y = NULL;
  ga_dtype x_dtype = GA_DTYPE_NONE, w_dtype = GA_DTYPE_NONE, y_dtype = GA_DTYPE_NONE;
  bool has_bias = false;
  if (!g.x || !g.w || !g.y) return GA_ERR_ARG;
  if (g.x->rank < 2 || g.x->rank != g.w->rank || g.x->rank != g.y->rank)
    return jax_fail(call, GA_ERR_SHAPE, "x, w and y have %d, %d and %d dimensions; allowed are as many, 2 or more",
                    (int)g.x->rank, (int)g.w->rank, (int)g.y->rank);
  ga_status status = gemm_options(call, &d, &has_bias);
  if (status == GA_OK) status = jax_take(call, g.x, &x, &x_dtype);
  if (status == GA_OK) status = weights_take(call, g.w, &w, &w_dtype);
  if (status == GA_OK) status = jax_make(call, g.y, &y, &y_dtype);
  if (status == GA_OK && has_bias && !(g.bias = jax_argument(call, 2))) status = GA_ERR_ARG;
  if (status != GA_OK) return status;
  const int64_t *xd = g.x->dims + g.x->rank - 2, *yd = g.y->dims + g.y->rank - 2;
  d.m = yd[0], d.n = yd[1];
  d.k = d.flags & GA_GEMM_XT ? xd[0] : xd[1];
  status = gemm_shapes(call, &d, &g, w_dtype);
  if (status != GA_OK) return status;
  d.x_dtype = (int32_t)x_dtype, d.w_dtype = (int32_t)w_dtype, d.y_dtype = (int32_t)y_dtype;
  g.x_data = x, g.w_data = w, g.y_data = y;
  g.x_bytes = matrix_bytes(g.x, x_dtype), g.w_bytes = matrix_bytes(g.w, w_dtype),
  g.y_bytes = matrix_bytes(g.y, y_dtype);
  return gemm_each(call, &d, &g);
}

/* ---- blocks of weights ---- */

/* x [..., width] to y, bytes of blocks of type `dtype`. */
static ga_status jax_quantize(jax_call *call) {
  ga_convert_desc d = GA_CONVERT_DESC_INIT;
  ga_convert_io io = {0};
  char name[24];
  const xla_buffer *x = jax_argument(call, 0), *y = jax_result(call, 0);
  if (!x || !y) return GA_ERR_ARG;
  const ga_status status = jax_text(call, "dtype", name, sizeof name);
  if (status != GA_OK) return status;
  if (x->rank < 1) return jax_fail(call, GA_ERR_SHAPE, "x has no dimensions; allowed are 1 and more");
  d.x_dtype = (int32_t)jax_dtype(x), d.y_dtype = (int32_t)ga_dtype_from_name(name);
  d.width = x->dims[x->rank - 1];
  d.rows = jax_product(x, 0, x->rank - 1);
  uint64_t row = 0;
  if (d.y_dtype == GA_DTYPE_NONE || ga_dtype_bytes((ga_dtype)d.y_dtype, d.width, &row) != GA_OK)
    return jax_fail(call, GA_ERR_SHAPE, "x has rows of %lld for type '%s'; allowed are whole blocks of a known type",
                    (long long)d.width, name);
  const int64_t as_y[1] = {(int64_t)row};
  const ga_status same = need(call, "y", y, GA_U8, d.rows, 1, as_y);
  if (same != GA_OK) return same;
  io.x = x->data, io.y = y->data;
  return jax_run(call, &form_convert, &d, sizeof d, &io);
}

/* Rows `ids` [..., n] of w, bytes of blocks [..., rows, bytes], to y [..., n, width]. w and ids have the same leading
 * dimensions. */
static ga_status jax_rows(jax_call *call) {
  ga_embed_desc d = GA_EMBED_DESC_INIT;
  const xla_buffer *w = jax_argument(call, 0), *ids = jax_argument(call, 1), *result = jax_result(call, 0);
  const void *table = NULL;
  void *y = NULL;
  ga_dtype w_dtype = GA_DTYPE_NONE, y_dtype = GA_DTYPE_NONE;
  if (!w || !ids || !result) return GA_ERR_ARG;
  if (w->rank < 2 || ids->rank < 1 || result->rank < 2 || w->dtype != XLA_U8)
    return jax_fail(call, GA_ERR_SHAPE,
                    "w, ids and y have %d, %d and %d dimensions; allowed are 2, 1 and 2, or more, w of u8",
                    (int)w->rank, (int)ids->rank, (int)result->rank);
  ga_status status = weights_take(call, w, &table, &w_dtype);
  const int64_t width = result->dims[result->rank - 1], n = ids->dims[ids->rank - 1];
  const int64_t matrices = jax_product(w, 0, w->rank - 2), as_ids[1] = {n}, as_y[2] = {n, width};
  uint64_t row = 0;
  if (status == GA_OK && ga_dtype_bytes(w_dtype, width, &row) != GA_OK)
    status = jax_fail(call, GA_ERR_SHAPE, "y has rows of %lld; allowed are whole blocks of %s", (long long)width,
                      ga_dtype_name(w_dtype));
  const int64_t as_w[2] = {w->dims[w->rank - 2], (int64_t)row};
  if (status == GA_OK) status = need(call, "w", w, GA_U8, matrices, 2, as_w);
  if (status == GA_OK) status = need(call, "ids", ids, GA_I32, matrices, 1, as_ids);
  if (status == GA_OK) status = need(call, "y", result, jax_dtype(result), matrices, 2, as_y);
  if (status == GA_OK) status = jax_make(call, result, &y, &y_dtype);
  d.tokens = ids->dims[ids->rank - 1], d.vocab = w->dims[w->rank - 2], d.width = result->dims[result->rank - 1];
  d.w_dtype = (int32_t)w_dtype, d.y_dtype = (int32_t)y_dtype;
  const int64_t lead = jax_product(w, 0, w->rank - 2);
  for (int64_t i = 0; i < lead && status == GA_OK; i++) {
    ga_embed_io io = {.ids = (const int32_t *)ids->data + i * d.tokens};
    io.table = (const char *)table + i * matrix_bytes(w, w_dtype);
    io.y = (char *)y + i * matrix_bytes(result, y_dtype);
    status = jax_run(call, &form_embed, &d, sizeof d, &io);
  }
  return status;
}

/* ---- for Python ---- */

#define HANDLERS(op)                                                                           \
  static void *op##_on_cpu(const xla_frame *f) { return jax_handle(f, #op, false, jax_##op); } \
  static void *op##_on_gpu(const xla_frame *f) { return jax_handle(f, #op, true, jax_##op); }
HANDLERS(attention)
HANDLERS(attention_backward)
HANDLERS(paged)
HANDLERS(gemm)
HANDLERS(quantize)
HANDLERS(rows)

typedef void *(*xla_handler)(const xla_frame *frame);

static int add_target(PyObject *list, const char *name, const char *platform, xla_handler handler) {
  PyObject *capsule = PyCapsule_New(PY_SLOT(handler), "xla._CUSTOM_CALL_TARGET", NULL);
  PyObject *row = capsule ? Py_BuildValue("(ssN)", name, platform, capsule) : NULL;
  const int bad = !row || PyList_Append(list, row);
  Py_XDECREF(row);
  return bad ? -1 : 0;
}

static PyObject *module_jax_targets(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  static const struct {
    const char *name;
    xla_handler cpu, gpu;
  } rows[] = {{"gpu_accel_attention", attention_on_cpu, attention_on_gpu},
              {"gpu_accel_attention_backward", attention_backward_on_cpu, attention_backward_on_gpu},
              {"gpu_accel_paged", paged_on_cpu, paged_on_gpu},
              {"gpu_accel_gemm", gemm_on_cpu, gemm_on_gpu},
              {"gpu_accel_quantize", quantize_on_cpu, quantize_on_gpu},
              {"gpu_accel_rows", rows_on_cpu, rows_on_gpu}};
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < sizeof rows / sizeof rows[0]; i++)
    if (add_target(list, rows[i].name, "cpu", rows[i].cpu) || add_target(list, rows[i].name, "CUDA", rows[i].gpu))
      Py_CLEAR(list);
  return list;
}

/* Sizes of blocks by name of the type. */
static PyObject *module_block_sizes(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  PyObject *sizes = PyDict_New();
  for (int dtype = 0; sizes && dtype < 256; dtype++) {
    const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
    PyObject *pair = t ? Py_BuildValue("(ii)", (int)t->block_elems, (int)t->block_bytes) : NULL;
    if (t && (!pair || PyDict_SetItemString(sizes, t->name, pair))) Py_CLEAR(sizes);
    Py_XDECREF(pair);
  }
  return sizes;
}

int pyga_jax_init(PyObject *module) {
  static PyMethodDef functions[] = {
      {"jax_targets", module_jax_targets, METH_NOARGS,
       "jax_targets()\n\n[(name, platform, capsule)] of the handlers that jax.ffi registers; for gpu_accel.jax."},
      {"block_sizes", module_block_sizes, METH_NOARGS,
       "block_sizes()\n\n{name: (elements, bytes)} of a block of each element type."},
      {NULL, NULL, 0, NULL}};
  return PyModule_AddFunctions(module, functions);
}
