/* Ops of a layer besides attention: product, norm, rope, activation, sum, softmax, embedding, conversion, KV store. */
#include "python/ext/ops.h"

#include <string.h>

/* The order of ga_act_kind; products have the first four. */
static const char *const act_words[] = {"none", "silu", "gelu_tanh", "gelu", "relu2", "tanh", NULL};
static const char *const product_act_words[] = {"none", "silu", "gelu_tanh", "gelu", NULL};

/* ---- gemm ---- */

PYGA_FORMS(gemm)

/* [rows, cols] row by row, or transposed in memory. */
static int gemm_matrix(pyga_call *call, int index, const pyga_view *v, int64_t *rows, int64_t *cols, int64_t *stride,
                       bool *transposed) {
  *transposed = false;
  if (v->n_dims == 2 && v->stride[1] != 1 && v->stride[0] == 1 && v->stride[1] >= v->dim[0]) {
    *transposed = true;
    *rows = v->dim[0], *cols = v->dim[1], *stride = v->stride[1];
    return 0;
  }
  return pyga_rows(call, index, v, rows, cols, stride);
}

enum {
  GEMM_X,
  GEMM_W,
  GEMM_BIAS,
  GEMM_ACT,
  GEMM_GATE,
  GEMM_RESIDUAL,
  GEMM_SCALE,
  GEMM_OUT,
  GEMM_OUT_DTYPE,
  GEMM_XS,
  GEMM_WS
};

/* gate and residual: as y in type, shape and distance of rows. */
static int like_y(pyga_call *call, int index, const pyga_view *y, int64_t y_stride, const void **data) {
  pyga_view *v = NULL;
  int64_t rows = 0, width = 0, stride = 0;
  if (pyga_in(call, index, &v) || !v) return v ? -1 : PyErr_Occurred() ? -1 : 0;
  if (pyga_rows(call, index, v, &rows, &width, &stride)) return -1;
  const int64_t seen = stride ? stride : width, wanted = y_stride ? y_stride : y->dim[y->n_dims - 1];
  if (v->dtype != y->dtype || width != y->dim[y->n_dims - 1] || (rows > 1 && seen != wanted))
    return pyga_bad_shape(call, index, v, "the type, shape and distance of rows of the result");
  int64_t y_rows = 1;
  for (int32_t i = 0; i < y->n_dims - 1; i++) y_rows *= y->dim[i];
  if (rows != y_rows) return pyga_bad_shape(call, index, v, "as many rows as the result");
  *data = v->data;
  return 0;
}

static int gemm_scales(pyga_call *call) {
  ga_gemm_desc *d = &call->desc.gemm;
  ga_gemm_io *io = &call->io.gemm;
  int64_t nx = 0, nw = 0;
  const void *xs = NULL, *ws = NULL;
  if (pyga_vector(call, GEMM_XS, GA_F32, -1, &nx, &xs) || pyga_vector(call, GEMM_WS, GA_F32, -1, &nw, &ws)) return -1;
  if (!xs && !ws) return 0;
  const int64_t kb = (d->k + 127) / 128, nb = (d->n + 127) / 128;
  d->scales = nx == 1 && nw == 1 ? GA_GEMM_SCALES_TENSOR : GA_GEMM_SCALES_BLOCK;
  if (!xs || !ws || (d->scales == GA_GEMM_SCALES_BLOCK && (nx != kb * d->m || nw != nb * kb)))
    return pyga_fail(GA_ERR_SHAPE,
                     "gemm: x_scale has %lld and w_scale %lld elements; allowed are 1 and 1, or %lld and %lld",
                     (long long)nx, (long long)nw, (long long)(kb * d->m), (long long)(nb * kb));
  io->x_scale = xs, io->w_scale = ws;
  return 0;
}

static int gemm_result(pyga_call *call, const pyga_view *x) {
  ga_gemm_desc *d = &call->desc.gemm;
  ga_gemm_io *io = &call->io.gemm;
  pyga_view *y = NULL;
  ga_dtype dtype = x->dtype == GA_F16 || x->dtype == GA_BF16 ? x->dtype : GA_F32;
  int64_t dims[PY_MAX_DIMS], rows = 0, width = 0;
  memcpy(dims, x->dim, sizeof dims);
  dims[x->n_dims - 1] = d->n;
  if (call->args.value[GEMM_OUT] && !call->args.value[GEMM_OUT_DTYPE]) { /* the type is that of out */
    pyga_view seen;
    if (pyga_view_get(call->args.value[GEMM_OUT], pyga_what(call, GEMM_OUT), &seen)) return -1;
    dtype = seen.dtype;
    pyga_view_release(&seen);
  }
  if (pyga_dtype_of_arg(call, GEMM_OUT_DTYPE, &dtype) || pyga_out(call, GEMM_OUT, dtype, x->n_dims, dims, &y) ||
      pyga_rows(call, GEMM_OUT, y, &rows, &width, &d->y_stride))
    return -1;
  d->y_dtype = (int32_t)dtype;
  io->y = y->data;
  if (like_y(call, GEMM_GATE, y, d->y_stride, &io->gate) || like_y(call, GEMM_RESIDUAL, y, d->y_stride, &io->residual))
    return -1;
  d->flags |= (uint32_t)((io->gate ? GA_GEMM_GLU : 0) | (io->residual ? GA_GEMM_RESIDUAL : 0));
  return 0;
}

static int fill_gemm(pyga_call *call) {
  PYGA_BEGIN(call, gemm, GA_GEMM_DESC_INIT);
  ga_gemm_desc *d = &call->desc.gemm;
  ga_gemm_io *io = &call->io.gemm;
  pyga_view *x = NULL, *w = NULL;
  bool xt = false, wt = false;
  int64_t k = 0;
  const void *bias = NULL;
  if (pyga_need(call, GEMM_X, &x) || pyga_need(call, GEMM_W, &w)) return -1;
  if (w->n_dims != 2) return pyga_bad_shape(call, GEMM_W, w, "[n, k]");
  if (gemm_matrix(call, GEMM_X, x, &d->m, &d->k, &d->x_stride, &xt) ||
      gemm_matrix(call, GEMM_W, w, &d->n, &k, &d->w_stride, &wt))
    return -1;
  if (k != d->k)
    return pyga_fail(GA_ERR_SHAPE, "gemm: w: last dimension is %lld; allowed is %lld, that of x", (long long)k,
                     (long long)d->k);
  if (ga_dtype_info(w->dtype)->is_quant) {
    if (!pyga_view_is_contiguous(w))
      return pyga_bad_shape(call, GEMM_W, w, "a contiguous array, as its type has blocks");
    d->w_stride = 0;
  }
  d->x_dtype = (int32_t)x->dtype, d->w_dtype = (int32_t)w->dtype;
  d->flags = (uint32_t)((xt ? GA_GEMM_XT : 0) | (wt ? GA_GEMM_WT : 0));
  io->x = x->data, io->w = w->data;
  if (pyga_vector(call, GEMM_BIAS, GA_F32, d->n, NULL, &bias) ||
      pyga_arg_word(&call->args, GEMM_ACT, product_act_words, &d->act) ||
      pyga_arg_float(&call->args, GEMM_SCALE, &d->scale))
    return -1;
  io->bias = bias;
  if (bias) d->flags |= GA_GEMM_BIAS;
  return gemm_scales(call) || gemm_result(call, x) ? -1 : 0;
}

static const char *const gemm_names[] = {"x",   "w",         "bias",    "act",     "gate",      "residual", "scale",
                                         "out", "out_dtype", "x_scale", "w_scale", "workspace", "stream",   NULL};
const pyga_op pyga_op_gemm = {
    "gemm",
    "gemm(x, w, bias=None, *, act=None, gate=None, residual=None, scale=1.0, out=None, out_dtype=None, x_scale=None, "
    "w_scale=None)\n\n"
    "y [..., n] = act(scale * x @ w.T + bias) + residual; with a gate: act(gate) * (scale * x @ w.T + bias) + "
    "residual.\n"
    "x [..., k]: f32, f16, bf16, e4m3. w [n, k]: any weight type. bias [n] f32. gate, residual: as y.\n"
    "Two-dimensional x and w may lie transposed (x.T, w.T): nothing is copied. act: 'silu', 'gelu_tanh', 'gelu'.\n"
    "Raises ShapeError, DtypeError, ArgumentError, UnsupportedError.",
    gemm_names,
    3,
    fill_gemm,
    gemm_form_plan,
    gemm_form_run,
    gemm_form_both,
    NULL};

/* ---- norm ---- */

PYGA_FORMS(norm)

static int fill_norm(pyga_call *call) {
  enum { X, WEIGHT, BIAS, KIND, EPS, RESIDUAL, OUT, OUT_DTYPE };
  static const char *const kinds[] = {"rms", "layer", "l2", NULL};
  PYGA_BEGIN(call, norm, GA_NORM_DESC_INIT);
  ga_norm_desc *d = &call->desc.norm;
  ga_norm_io *io = &call->io.norm;
  pyga_view *x = NULL, *y = NULL;
  int64_t rows = 0, width = 0;
  const void *weight = NULL, *bias = NULL;
  if (pyga_need(call, X, &x) || pyga_rows(call, X, x, &d->rows, &d->width, &d->x_stride)) return -1;
  ga_dtype dtype = x->dtype;
  if (pyga_vector(call, WEIGHT, GA_F32, d->width, NULL, &weight) ||
      pyga_vector(call, BIAS, GA_F32, d->width, NULL, &bias) || pyga_arg_word(&call->args, KIND, kinds, &d->kind) ||
      pyga_arg_float(&call->args, EPS, &d->eps) || pyga_dtype_of_arg(call, OUT_DTYPE, &dtype) ||
      pyga_out(call, OUT, dtype, x->n_dims, x->dim, &y) || pyga_rows(call, OUT, y, &rows, &width, &d->y_stride))
    return -1;
  d->x_dtype = (int32_t)x->dtype, d->y_dtype = (int32_t)dtype;
  *io = (ga_norm_io){x->data, y->data, weight, bias, NULL};
  pyga_view *r = NULL;
  if (pyga_in(call, RESIDUAL, &r)) return -1;
  if (!r) return 0;
  if (pyga_rows(call, RESIDUAL, r, &rows, &width, &d->residual_stride)) return -1;
  if (rows != d->rows || width != d->width || r->dtype != dtype)
    return pyga_bad_shape(call, RESIDUAL, r, "the type and shape of the result");
  io->residual = r->data;
  return 0;
}

static const char *const norm_names[] = {"x",   "weight",    "bias",      "kind",   "eps", "residual",
                                         "out", "out_dtype", "workspace", "stream", NULL};
const pyga_op pyga_op_norm = {
    "norm",
    "norm(x, weight=None, bias=None, *, kind='rms', eps=1e-5, residual=None, out=None, out_dtype=None)\n\n"
    "y [..., width] = residual + norm(x) * weight + bias over the last dimension. kind: 'rms', 'layer', 'l2'.\n"
    "x: f32, f16, bf16. weight, bias [width] f32. out may be x.\nRaises ShapeError, DtypeError, ArgumentError.",
    norm_names,
    3,
    fill_norm,
    norm_form_plan,
    norm_form_run,
    norm_form_both,
    NULL};

/* ---- rope ---- */

PYGA_FORMS(rope)

static int fill_rope(pyga_call *call) {
  enum { X, POSITIONS, INV_FREQ, PAIRS, MAGNITUDE };
  static const char *const pairs[] = {"norm", "neox", NULL};
  PYGA_BEGIN(call, rope, GA_ROPE_DESC_INIT);
  ga_rope_desc *d = &call->desc.rope;
  pyga_view *x = NULL;
  int64_t n = 0;
  const void *positions = NULL, *freq = NULL;
  if (pyga_in_out(call, X, &x)) return -1;
  if (x->n_dims != 3 || x->stride[2] != 1 || x->stride[1] != x->dim[2] ||
      (x->dim[0] > 1 && x->stride[0] < x->dim[1] * x->dim[2]))
    return pyga_bad_shape(call, X, x, "[tokens, heads, head_dim], heads one behind the other");
  if (x->dim[1] > 65536 || x->dim[2] > 16384) return pyga_bad_shape(call, X, x, "at most 65536 heads of 16384");
  d->tokens = x->dim[0], d->heads = (int32_t)x->dim[1], d->head_dim = (int32_t)x->dim[2];
  d->x_stride = x->stride[0], d->x_dtype = (int32_t)x->dtype;
  if (!call->args.value[POSITIONS] || !call->args.value[INV_FREQ]) {
    PyErr_SetString(PyExc_TypeError, "rope: positions and inv_freq are wanted; rope_freqs() makes the latter");
    return -1;
  }
  if (pyga_vector(call, POSITIONS, GA_I32, d->tokens, NULL, &positions) ||
      pyga_vector(call, INV_FREQ, GA_F32, -1, &n, &freq) || pyga_arg_word(&call->args, PAIRS, pairs, &d->pairs) ||
      pyga_arg_float(&call->args, MAGNITUDE, &d->magnitude))
    return -1;
  if (n > d->head_dim / 2)
    return pyga_fail(GA_ERR_SHAPE, "rope: inv_freq: has %lld elements; allowed are at most %d, half of head_dim",
                     (long long)n, (int)(d->head_dim / 2));
  d->rot_dim = (int32_t)(2 * n);
  call->io.rope = (ga_rope_io){x->data, positions, freq};
  return 0;
}

static const char *const rope_names[] = {"x",         "positions", "inv_freq", "pairs",
                                         "magnitude", "workspace", "stream",   NULL};
const pyga_op pyga_op_rope = {
    "rope",
    "rope(x, positions, inv_freq, *, pairs='norm', magnitude=1.0)\n\n"
    "Rotates x [tokens, heads, head_dim] in place by positions [tokens] i32 times inv_freq [rot_dim / 2] f32; returns "
    "x.\n"
    "pairs: 'norm' (2i, 2i+1) or 'neox' (i, i + rot_dim / 2). rope_freqs() makes inv_freq and magnitude.\n"
    "Raises ShapeError, DtypeError, ArgumentError (x is read-only).",
    rope_names,
    3,
    fill_rope,
    rope_form_plan,
    rope_form_run,
    rope_form_both,
    NULL};

/* ---- act, add, softmax ---- */

PYGA_FORMS(act)

static int fill_act(pyga_call *call) {
  enum { X, GATE, KIND, OUT };
  PYGA_BEGIN(call, act, GA_ACT_DESC_INIT);
  ga_act_desc *d = &call->desc.act;
  pyga_view *x = NULL, *g = NULL, *y = NULL;
  int64_t rows = 0, width = 0;
  d->act = GA_ACT_SILU;
  if (pyga_need(call, X, &x) || pyga_rows(call, X, x, &d->rows, &d->width, &d->x_stride) || pyga_in(call, GATE, &g) ||
      pyga_arg_word(&call->args, KIND, act_words, &d->act) || pyga_out(call, OUT, x->dtype, x->n_dims, x->dim, &y) ||
      pyga_rows(call, OUT, y, &rows, &width, &d->y_stride))
    return -1;
  d->dtype = (int32_t)x->dtype;
  call->io.act = (ga_act_io){x->data, NULL, y->data};
  if (!g) return 0;
  if (pyga_rows(call, GATE, g, &rows, &width, &d->g_stride)) return -1;
  if (rows != d->rows || width != d->width || g->dtype != x->dtype)
    return pyga_bad_shape(call, GATE, g, "the type and shape of x");
  call->io.act.g = g->data;
  return 0;
}

static const char *const act_names[] = {"x", "gate", "kind", "out", "workspace", "stream", NULL};
const pyga_op pyga_op_act = {
    "act",
    "act(x, gate=None, *, kind='silu', out=None)\n\n"
    "act(x), or act(x) * gate. x [..., width], gate as x. kind: 'none', 'silu', 'gelu_tanh', 'gelu', 'relu2', 'tanh'.\n"
    "out may be x or gate. Raises ShapeError, DtypeError, ArgumentError.",
    act_names,
    2,
    fill_act,
    act_form_plan,
    act_form_run,
    act_form_both,
    NULL};

PYGA_FORMS(add)

static int fill_add(pyga_call *call) {
  enum { X, B, SCALE, OUT };
  PYGA_BEGIN(call, add, GA_ADD_DESC_INIT);
  ga_add_desc *d = &call->desc.add;
  pyga_view *x = NULL, *b = NULL, *y = NULL;
  int64_t rows = 0, width = 0;
  if (pyga_need(call, X, &x) || pyga_rows(call, X, x, &d->rows, &d->width, &d->x_stride) || pyga_in(call, B, &b) ||
      pyga_arg_float(&call->args, SCALE, &d->scale) || pyga_out(call, OUT, x->dtype, x->n_dims, x->dim, &y) ||
      pyga_rows(call, OUT, y, &rows, &width, &d->y_stride))
    return -1;
  d->dtype = (int32_t)x->dtype;
  d->b_rows = d->rows;
  call->io.add = (ga_add_io){.x = x->data, .y = y->data};
  if (!b) return 0;
  if (pyga_rows(call, B, b, &d->b_rows, &width, &d->b_stride)) return -1;
  if ((d->b_rows != d->rows && d->b_rows != 1) || width != d->width || b->dtype != x->dtype)
    return pyga_bad_shape(call, B, b, "the type and shape of x, or one row of it");
  call->io.add.b = b->data;
  return 0;
}

static const char *const add_names[] = {"x", "b", "scale", "out", "workspace", "stream", NULL};
const pyga_op pyga_op_add = {
    "add",
    "add(x, b=None, *, scale=1.0, out=None)\n\n"
    "scale * x + b. x [..., width]; b as x, or one row [width] that is added to all. out may be x or b.\n"
    "Raises ShapeError, DtypeError, ArgumentError.",
    add_names,
    2,
    fill_add,
    add_form_plan,
    add_form_run,
    add_form_both,
    NULL};

PYGA_FORMS(softmax)

static int fill_softmax(pyga_call *call) {
  enum { X, SCALE, LOG, OUT };
  PYGA_BEGIN(call, softmax, GA_SOFTMAX_DESC_INIT);
  ga_softmax_desc *d = &call->desc.softmax;
  pyga_view *x = NULL, *y = NULL;
  int64_t rows = 0, width = 0;
  bool is_log = false;
  if (pyga_need(call, X, &x) || pyga_rows(call, X, x, &d->rows, &d->width, &d->x_stride)) return -1;
  if (x->dtype != GA_F32) return pyga_fail(GA_ERR_DTYPE, "softmax: x: is %s; allowed is f32", ga_dtype_name(x->dtype));
  if (pyga_arg_float(&call->args, SCALE, &d->scale) || pyga_arg_bool(&call->args, LOG, &is_log) ||
      pyga_out(call, OUT, GA_F32, x->n_dims, x->dim, &y) || pyga_rows(call, OUT, y, &rows, &width, &d->y_stride))
    return -1;
  d->log = is_log;
  call->io.softmax = (ga_softmax_io){x->data, y->data};
  return 0;
}

static const char *const softmax_names[] = {"x", "scale", "log", "out", "workspace", "stream", NULL};
const pyga_op pyga_op_softmax = {
    "softmax",
    "softmax(x, *, scale=1.0, log=False, out=None)\n\n"
    "softmax(scale * x) over the last dimension, f32. A row of -infinity gives zeros. out may be x.\n"
    "Raises ShapeError, DtypeError, ArgumentError.",
    softmax_names,
    1,
    fill_softmax,
    softmax_form_plan,
    softmax_form_run,
    softmax_form_both,
    NULL};

/* ---- embed, convert, kv_store ---- */

PYGA_FORMS(embed)

static int fill_embed(pyga_call *call) {
  enum { IDS, TABLE, SCALE, OUT, OUT_DTYPE };
  PYGA_BEGIN(call, embed, GA_EMBED_DESC_INIT);
  ga_embed_desc *d = &call->desc.embed;
  pyga_view *ids = NULL, *table = NULL, *y = NULL;
  int64_t rows = 0, width = 0;
  ga_dtype dtype = GA_F32;
  if (pyga_need(call, IDS, &ids) || pyga_need(call, TABLE, &table)) return -1;
  if (ids->dtype != GA_I32)
    return pyga_fail(GA_ERR_DTYPE, "embed: ids: is %s; allowed is i32", ga_dtype_name(ids->dtype));
  if (ids->n_dims != 1 || !pyga_view_is_contiguous(ids)) return pyga_bad_shape(call, IDS, ids, "[tokens], contiguous");
  if (table->n_dims != 2 || !pyga_view_is_contiguous(table))
    return pyga_bad_shape(call, TABLE, table, "[vocab, width], contiguous");
  const int64_t dims[2] = {ids->dim[0], table->dim[1]};
  if (pyga_arg_float(&call->args, SCALE, &d->scale) || pyga_dtype_of_arg(call, OUT_DTYPE, &dtype) ||
      pyga_out(call, OUT, dtype, 2, dims, &y) || pyga_rows(call, OUT, y, &rows, &width, &d->y_stride))
    return -1;
  d->tokens = dims[0], d->width = dims[1], d->vocab = table->dim[0];
  d->w_dtype = (int32_t)table->dtype, d->y_dtype = (int32_t)dtype;
  call->io.embed = (ga_embed_io){ids->data, table->data, y->data};
  return 0;
}

static const char *const embed_names[] = {"ids", "table", "scale", "out", "out_dtype", "workspace", "stream", NULL};
const pyga_op pyga_op_embed = {
    "embed",
    "embed(ids, table, *, scale=1.0, out=None, out_dtype='f32')\n\n"
    "scale * table[ids]: ids [tokens] i32, table [vocab, width] of any weight type, result [tokens, width].\n"
    "Raises ArgumentError (an id outside of the table), ShapeError, DtypeError.",
    embed_names,
    2,
    fill_embed,
    embed_form_plan,
    embed_form_run,
    embed_form_both,
    NULL};

PYGA_FORMS(convert)

static int fill_convert(pyga_call *call) {
  enum { X, DTYPE, SCALES, OUT, SCALE };
  static const char *const kinds[] = {"none", "row", "block", NULL};
  PYGA_BEGIN(call, convert, GA_CONVERT_DESC_INIT);
  ga_convert_desc *d = &call->desc.convert;
  pyga_view *x = NULL, *y = NULL, *s = NULL;
  ga_dtype dtype = GA_F32;
  int64_t stride = 0;
  if (pyga_need(call, X, &x) || pyga_rows(call, X, x, &d->rows, &d->width, &stride)) return -1;
  if (!pyga_view_is_contiguous(x)) return pyga_bad_shape(call, X, x, "a contiguous array");
  if (pyga_dtype_of_arg(call, DTYPE, &dtype) || pyga_arg_word(&call->args, SCALES, kinds, &d->scales) ||
      pyga_out(call, OUT, dtype, x->n_dims, x->dim, &y))
    return -1;
  if (!pyga_view_is_contiguous(y)) return pyga_bad_shape(call, OUT, y, "a contiguous array");
  d->x_dtype = (int32_t)x->dtype, d->y_dtype = (int32_t)dtype;
  call->io.convert = (ga_convert_io){x->data, y->data, NULL};
  if (d->scales == GA_CONVERT_SCALES_NONE) return 0;
  const int64_t cols = (d->width + 127) / 128;
  const int64_t by_row[2] = {cols, d->rows}, by_block[2] = {(d->rows + 127) / 128, cols};
  if (pyga_out(call, SCALE, GA_F32, 2, d->scales == GA_CONVERT_SCALES_ROW ? by_row : by_block, &s)) return -1;
  if (!pyga_view_is_contiguous(s)) return pyga_bad_shape(call, SCALE, s, "a contiguous array");
  call->io.convert.scale = s->data;
  return 0;
}

static const char *const convert_names[] = {"x", "dtype", "scales", "out", "out_scale", "workspace", "stream", NULL};
const pyga_op pyga_op_convert = {
    "convert",
    "convert(x, dtype='f32', *, scales='none', out=None, out_scale=None)\n\n"
    "x [..., width], contiguous, as another element type: quantise ('q8_0', 'q4_0', ...), dequantise ('f32'), cast.\n"
    "scales 'row' or 'block', with dtype 'e4m3': returns (y, scale) as gemm takes them.\n"
    "Raises UnsupportedError for a pair of types without a kernel, ShapeError, DtypeError.",
    convert_names,
    2,
    fill_convert,
    convert_form_plan,
    convert_form_run,
    convert_form_both,
    NULL};

PYGA_FORMS(kv_store)

/* x [tokens, heads, dim], heads one behind the other. */
static int kv_store_rows(pyga_call *call, int index, const pyga_view *v, int64_t *stride) {
  if (v->n_dims != 3 || (v->dim[2] > 1 && v->stride[2] != 1) || (v->dim[1] > 1 && v->stride[1] != v->dim[2]) ||
      (v->dim[0] > 1 && v->stride[0] < v->dim[1] * v->dim[2]) || v->dim[1] > 65536 || v->dim[2] > 65536)
    return pyga_bad_shape(call, index, v, "[tokens, heads, dim], heads one behind the other");
  *stride = v->stride[0];
  return 0;
}

/* The slots of a cache [slots, heads, dim] or [pages, page_size, heads, dim]; -1 when it does not fit. */
static int64_t cache_slots(const pyga_view *v, int64_t heads, int64_t dim) {
  const int32_t n = v->n_dims;
  if ((n != 3 && n != 4) || !pyga_view_is_contiguous(v) || v->dim[n - 2] != heads || v->dim[n - 1] != dim) return -1;
  return n == 4 ? v->dim[0] * v->dim[1] : v->dim[0];
}

static int fill_kv_store(pyga_call *call) {
  enum { K, V, SLOT, K_CACHE, V_CACHE, K_SCALE, V_SCALE };
  PYGA_BEGIN(call, kv_store, GA_KV_STORE_DESC_INIT);
  ga_kv_store_desc *d = &call->desc.kv_store;
  ga_kv_store_io *io = &call->io.kv_store;
  pyga_view *k = NULL, *v = NULL, *kc = NULL, *vc = NULL, *ks = NULL, *vs = NULL;
  const void *slot = NULL;
  if (pyga_need(call, K, &k) || pyga_need(call, V, &v) || kv_store_rows(call, K, k, &d->k_stride) ||
      kv_store_rows(call, V, v, &d->v_stride) || pyga_in_out(call, K_CACHE, &kc) || pyga_in_out(call, V_CACHE, &vc))
    return -1;
  d->tokens = k->dim[0], d->heads = (int32_t)k->dim[1], d->head_dim = (int32_t)k->dim[2], d->v_dim = (int32_t)v->dim[2];
  d->slots = cache_slots(kc, d->heads, d->head_dim);
  d->x_dtype = (int32_t)k->dtype, d->kv_dtype = (int32_t)kc->dtype;
  if (v->dim[0] != d->tokens || v->dim[1] != d->heads || v->dtype != k->dtype)
    return pyga_bad_shape(call, V, v, "the type, tokens and heads of k");
  if (d->slots < 0)
    return pyga_bad_shape(call, K_CACHE, kc,
                          "[slots, heads, head_dim] or [pages, page_size, heads, head_dim], contiguous");
  if (cache_slots(vc, d->heads, d->v_dim) != d->slots || vc->dtype != kc->dtype)
    return pyga_bad_shape(call, V_CACHE, vc, "the type and slots of k_cache, with v's heads and dim");
  if (!call->args.value[SLOT]) {
    PyErr_SetString(PyExc_TypeError, "kv_store: slot is missing");
    return -1;
  }
  if (pyga_vector(call, SLOT, GA_I32, d->tokens, NULL, &slot)) return -1;
  *io = (ga_kv_store_io){k->data, v->data, slot, kc->data, vc->data, NULL, NULL};
  if (kc->dtype != GA_E4M3) return 0;
  const int64_t dims[2] = {d->heads, d->slots};
  if (pyga_out_cleared(call, K_SCALE, GA_F32, 2, dims, &ks) || pyga_out_cleared(call, V_SCALE, GA_F32, 2, dims, &vs))
    return -1;
  if (!pyga_view_is_contiguous(ks)) return pyga_bad_shape(call, K_SCALE, ks, "a contiguous array");
  if (!pyga_view_is_contiguous(vs)) return pyga_bad_shape(call, V_SCALE, vs, "a contiguous array");
  io->k_scale = ks->data, io->v_scale = vs->data;
  return 0;
}

static const char *const kv_store_names[] = {"k",       "v",       "slot",      "k_cache", "v_cache",
                                             "k_scale", "v_scale", "workspace", "stream",  NULL};
const pyga_op pyga_op_kv_store = {
    "kv_store",
    "kv_store(k, v, slot, k_cache, v_cache, k_scale=None, v_scale=None)\n\n"
    "cache[slot[t]] = k[t], v[t]. k, v [tokens, heads, dim]; slot [tokens] i32, -1 = do not store; caches\n"
    "[slots, heads, dim] or [pages, page_size, heads, dim], written in place. e4m3 caches: scales [heads, slots] f32.\n"
    "Returns the caches. Raises ArgumentError (a slot outside, or twice), ShapeError, DtypeError.",
    kv_store_names,
    7,
    fill_kv_store,
    kv_store_form_plan,
    kv_store_form_run,
    kv_store_form_both,
    NULL};
