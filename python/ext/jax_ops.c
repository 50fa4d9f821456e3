/* The ops as handlers of XLA: attention and its gradients, products, blocks of weights. Arrays are contiguous, as
 * XLA hands them over. gpu_accel.jax has checked shapes; leading dimensions are those that vmap has put there. */
#include "python/ext/jax.h"

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

static ga_status need_heads(jax_call *call, const char *name, const xla_buffer *x) {
  return x->rank >= 4
             ? GA_OK
             : jax_fail(call, GA_ERR_SHAPE, "%s has %d dimensions; allowed are 4 and more", name, (int)x->rank);
}

static ga_status jax_attention(jax_call *call) {
  static const char *const names[3] = {"q", "k", "v"};
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  ga_attn_io io = {0};
  const xla_buffer *b[3];
  const void *x[3];
  ga_dtype dtype = GA_DTYPE_NONE, o_dtype = GA_DTYPE_NONE;
  int32_t causal = 0;
  ga_status status = take_all(call, 0, 3, b, x, &dtype);
  for (int i = 0; i < 3 && status == GA_OK; i++) status = need_heads(call, names[i], b[i]);
  const xla_buffer *o = jax_result(call, 0), *lse = jax_result(call, 1);
  if (!o || !lse) return GA_ERR_ARG;
  if (status == GA_OK) status = jax_int(call, "causal", &causal);
  if (status == GA_OK) status = jax_int(call, "window", &d.window);
  if (status == GA_OK) status = jax_float(call, "scale", &d.scale);
  if (status == GA_OK) status = jax_float(call, "softcap", &d.softcap);
  if (status == GA_OK) status = jax_make(call, o, &io.o, &o_dtype);
  if (status != GA_OK) return status;
  const int64_t *q = b[0]->dims + b[0]->rank - 3, *k = b[1]->dims + b[1]->rank - 3, *v = b[2]->dims + b[2]->rank - 3;
  d.batch = jax_product(b[0], 0, b[0]->rank - 3);
  d.max_q = q[0], d.max_kv = k[0];
  d.q_heads = (int32_t)q[1], d.kv_heads = (int32_t)k[1];
  d.head_dim = (int32_t)q[2], d.v_dim = (int32_t)v[2];
  d.q_dtype = d.kv_dtype = (int32_t)dtype, d.o_dtype = (int32_t)o_dtype;
  d.flags = GA_ATTN_LSE | (causal ? GA_ATTN_CAUSAL : 0u);
  io.q = x[0], io.k = x[1], io.v = x[2];
  io.lse = lse->data;
  return jax_run(call, &form_attn, &d, sizeof d, &io);
}

static ga_status jax_bwd_options(jax_call *call, ga_attn_bwd_desc *d) {
  int32_t causal = 0, same_bits = 0;
  ga_status status = jax_int(call, "causal", &causal);
  if (status == GA_OK) status = jax_int(call, "deterministic", &same_bits);
  if (status == GA_OK) status = jax_int(call, "window", &d->window);
  if (status == GA_OK) status = jax_float(call, "scale", &d->scale);
  if (status == GA_OK) status = jax_float(call, "softcap", &d->softcap);
  d->flags = (causal ? (uint32_t)GA_ATTN_CAUSAL : 0u) | (same_bits ? (uint32_t)GA_ATTN_BWD_DETERMINISTIC : 0u);
  return status;
}

/* q, k, v, o, dout, lse to dq, dk, dv. */
static ga_status jax_attention_backward(jax_call *call) {
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  ga_attn_bwd_io io = {0};
  const xla_buffer *b[5];
  const void *x[5];
  void *grad[3];
  ga_dtype dtype = GA_DTYPE_NONE, grad_dtype = GA_DTYPE_NONE;
  ga_status status = take_all(call, 0, 5, b, x, &dtype);
  const xla_buffer *lse = jax_argument(call, 5);
  if (!lse) return GA_ERR_ARG;
  for (int i = 0; i < 3 && status == GA_OK; i++) {
    const xla_buffer *result = jax_result(call, i);
    status = result ? jax_make(call, result, &grad[i], &grad_dtype) : GA_ERR_ARG;
  }
  if (status == GA_OK) status = need_heads(call, "q", b[0]);
  if (status == GA_OK) status = jax_bwd_options(call, &d);
  if (status != GA_OK) return status;
  const int64_t *q = b[0]->dims + b[0]->rank - 3, *k = b[1]->dims + b[1]->rank - 3, *v = b[2]->dims + b[2]->rank - 3;
  d.batch = jax_product(b[0], 0, b[0]->rank - 3);
  d.max_q = q[0], d.max_kv = k[0];
  d.q_heads = (int32_t)q[1], d.kv_heads = (int32_t)k[1];
  d.head_dim = (int32_t)q[2], d.v_dim = (int32_t)v[2];
  d.dtype = (int32_t)dtype, d.grad_dtype = (int32_t)grad_dtype;
  io.q = x[0], io.k = x[1], io.v = x[2], io.o = x[3], io.dout = x[4], io.lse = lse->data;
  io.dq = grad[0], io.dk = grad[1], io.dv = grad[2];
  return jax_run(call, &form_attn_bwd, &d, sizeof d, &io);
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
  d.x_dtype = (int32_t)jax_dtype(x), d.y_dtype = (int32_t)ga_dtype_from_name(name);
  d.width = x->dims[x->rank - 1];
  d.rows = jax_product(x, 0, x->rank - 1);
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
  ga_status status = weights_take(call, w, &table, &w_dtype);
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
