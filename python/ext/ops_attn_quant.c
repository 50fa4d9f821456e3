/* Attention in 8 bits: the quantiser of Q, K and V, and attention over what it made. */
#include "python/ext/ops.h"

PYGA_FORMS(attn)
PYGA_FORMS(attn_quant)

enum {
  QUANT_X,
  QUANT_KIND,
  QUANT_DTYPE,
  QUANT_SCALE_TOKENS,
  QUANT_HADAMARD,
  QUANT_SEED,
  QUANT_CENTRE,
  QUANT_OUT,
  QUANT_OUT_SCALE,
  QUANT_OUT_MEAN
};
#define VALUES_PAD 128 /* tokens of VALUES come in so many */

/* [batch, tokens, heads, dim]: four dims, the last one contiguous. */
static int rows_of_heads(pyga_call *call, int index, const pyga_view *v, ga_attn_strides *stride) {
  if (v->n_dims != 4 || (v->dim[3] > 1 && v->stride[3] != 1))
    return pyga_bad_shape(call, index, v, "[batch, tokens, heads, dim], contiguous along the last dimension");
  if (v->dim[2] < 1 || v->dim[2] > 65536 || v->dim[3] < 1 || v->dim[3] > 1024)
    return pyga_bad_shape(call, index, v, "1 to 65536 heads of 1 to 1024");
  *stride = (ga_attn_strides){v->stride[0], v->stride[1], v->stride[2]};
  return 0;
}

static int quant_results(pyga_call *call, const pyga_view *x) {
  ga_attn_quant_desc *d = &call->desc.attn_quant;
  ga_attn_quant_io *io = &call->io.attn_quant;
  const bool rows = d->kind == GA_ATTN_QUANT_ROWS;
  const int64_t padded = (d->tokens + VALUES_PAD - 1) / VALUES_PAD * VALUES_PAD;
  const int64_t values[4] = {d->batch, d->heads, d->dim, padded}, mean[3] = {d->batch, d->heads, d->dim};
  const int64_t scales[3] = {d->batch, d->heads, (d->tokens + d->scale_tokens - 1) / d->scale_tokens};
  pyga_view *y = NULL, *scale = NULL, *m = NULL;
  if (pyga_out(call, QUANT_OUT, (ga_dtype)d->y_dtype, 4, rows ? x->dim : values, &y) ||
      pyga_out(call, QUANT_OUT_SCALE, GA_F32, 3, scales, &scale) ||
      (d->centre && pyga_out(call, QUANT_OUT_MEAN, GA_F32, 3, mean, &m)))
    return -1;
  if (!pyga_view_is_contiguous(y)) return pyga_bad_shape(call, QUANT_OUT, y, "a contiguous array");
  if (!pyga_view_is_contiguous(scale)) return pyga_bad_shape(call, QUANT_OUT_SCALE, scale, "a contiguous array");
  if (m && !pyga_view_is_contiguous(m)) return pyga_bad_shape(call, QUANT_OUT_MEAN, m, "a contiguous array");
  io->y = y->data, io->scale = scale->data, io->mean = m ? m->data : NULL;
  return 0;
}

static int fill_attn_quant(pyga_call *call) {
  static const char *const kinds[] = {"rows", "values", NULL};
  PYGA_BEGIN(call, attn_quant, GA_ATTN_QUANT_DESC_INIT);
  ga_attn_quant_desc *d = &call->desc.attn_quant;
  pyga_view *x = NULL;
  ga_dtype dtype = GA_E4M3;
  int64_t seed = 0;
  bool hadamard = false, centre = false;
  if (pyga_need(call, QUANT_X, &x) || rows_of_heads(call, QUANT_X, x, &call->io.attn_quant.x_stride) ||
      pyga_arg_word(&call->args, QUANT_KIND, kinds, &d->kind) || pyga_dtype_of_arg(call, QUANT_DTYPE, &dtype) ||
      pyga_arg_i32(&call->args, QUANT_SCALE_TOKENS, 1, 128, &d->scale_tokens) ||
      pyga_arg_bool(&call->args, QUANT_HADAMARD, &hadamard) ||
      pyga_arg_int(&call->args, QUANT_SEED, 0, UINT32_MAX, &seed) || pyga_arg_bool(&call->args, QUANT_CENTRE, &centre))
    return -1;
  d->batch = x->dim[0], d->tokens = x->dim[1], d->heads = (int32_t)x->dim[2], d->dim = (int32_t)x->dim[3];
  d->x_dtype = (int32_t)x->dtype, d->y_dtype = (int32_t)dtype;
  d->hadamard = hadamard, d->seed = (uint32_t)seed, d->centre = centre;
  call->io.attn_quant.x = x->data;
  return quant_results(call, x);
}

static const char *const quant_names[] = {"x",   "kind",      "dtype",    "scale_tokens", "hadamard", "seed", "centre",
                                          "out", "out_scale", "out_mean", "workspace",    "stream",   NULL};
const pyga_op pyga_op_attn_quant = {
    "attn_quant",
    "attn_quant(x, kind='rows', dtype='e4m3', *, scale_tokens=128, hadamard=False, seed=0, centre=False, out=None,\n"
    "           out_scale=None, out_mean=None)\n\n"
    "x [batch, tokens, heads, dim] f32, f16 or bf16 in 8 bits, for attention_8bit: (y, scale), with centre (y, scale, "
    "mean).\n"
    "kind 'rows', for q and k: y as x, 'e4m3' or 'i8'. 'values', for v: y [batch, heads, dim, tokens rounded up to "
    "128] e4m3.\n"
    "scale [batch, heads, blocks] f32 of scale_tokens tokens each: 64 or 128, of i8 also 1. hadamard and seed: the "
    "same for q and k.\n"
    "centre, with 'values': the mean [batch, heads, dim] of each column is taken off.\n"
    "Raises ShapeError, DtypeError, ArgumentError.",
    quant_names,
    3,
    fill_attn_quant,
    attn_quant_form_plan,
    attn_quant_form_run,
    attn_quant_form_both,
    NULL};

/* ---- attention over it ---- */

enum {
  A8_Q,
  A8_K,
  A8_V,
  A8_Q_SCALE,
  A8_K_SCALE,
  A8_V_SCALE,
  A8_KV,
  A8_CAUSAL,
  A8_SCALE,
  A8_V_MEAN,
  A8_Q_SCALE_TOKENS,
  A8_KV_SCALE_TOKENS,
  A8_FAST_SUM,
  A8_OUT_DTYPE,
  A8_OUT
};

static int a8_scale(pyga_call *call, int index, int64_t heads, int64_t tokens, int32_t each, ga_attn_scale *out) {
  const int64_t blocks = (tokens + each - 1) / each;
  const void *data = NULL;
  if (pyga_vector(call, index, GA_F32, call->desc.attn.batch * heads * blocks, NULL, &data)) return -1;
  if (!data) return pyga_fail(GA_ERR_ARG, "%s is missing: attn_quant makes it", pyga_what(call, index));
  *out = (ga_attn_scale){data, heads * blocks, blocks, 1};
  return 0;
}

/* Sizes of the three inputs. */
static int a8_inputs(pyga_call *call) {
  ga_attn_desc *d = &call->desc.attn;
  ga_attn_io *io = &call->io.attn;
  pyga_view *q = NULL, *k = NULL, *v = NULL;
  if (pyga_need(call, A8_Q, &q) || pyga_need(call, A8_K, &k) || pyga_need(call, A8_V, &v) ||
      rows_of_heads(call, A8_Q, q, &io->q_stride) || rows_of_heads(call, A8_K, k, &io->k_stride))
    return -1;
  if (q->dtype != GA_E4M3 && q->dtype != GA_I8) return pyga_bad_shape(call, A8_Q, q, "e4m3 or i8, of attn_quant");
  if (k->dtype != q->dtype || k->dim[0] != q->dim[0] || k->dim[3] != q->dim[3])
    return pyga_bad_shape(call, A8_K, k, "the type, batch and head_dim of q");
  const int64_t padded = (k->dim[1] + VALUES_PAD - 1) / VALUES_PAD * VALUES_PAD;
  if (v->dtype != GA_E4M3 || v->n_dims != 4 || v->dim[0] != k->dim[0] || v->dim[1] != k->dim[2] || v->dim[2] > 1024 ||
      v->dim[3] != padded || !pyga_view_is_contiguous(v))
    return pyga_bad_shape(call, A8_V, v, "e4m3 [batch, heads of k, dim, tokens of k rounded up to 128], contiguous");
  int64_t kv = k->dim[1];
  if (pyga_arg_int(&call->args, A8_KV, 0, k->dim[1], &kv)) return -1;
  d->batch = q->dim[0], d->max_q = q->dim[1], d->max_kv = kv;
  d->q_heads = (int32_t)q->dim[2], d->kv_heads = (int32_t)k->dim[2];
  d->head_dim = (int32_t)q->dim[3], d->v_dim = (int32_t)v->dim[2];
  d->q_dtype = (int32_t)q->dtype, d->kv_dtype = GA_E4M3;
  io->q = q->data, io->k = k->data, io->v = v->data;
  io->v_stride = (ga_attn_strides){v->stride[0], v->stride[2], v->stride[1]};
  return 0;
}

static int fill_attention_8bit(pyga_call *call) {
  PYGA_BEGIN(call, attn, GA_ATTN_DESC_INIT);
  ga_attn_desc *d = &call->desc.attn;
  ga_attn_io *io = &call->io.attn;
  bool causal = false, fast_sum = false;
  const void *mean = NULL;
  ga_dtype dtype = GA_BF16;
  pyga_view *o = NULL;
  d->q_scale_tokens = d->kv_scale_tokens = 128;
  if (a8_inputs(call) || pyga_arg_i32(&call->args, A8_Q_SCALE_TOKENS, 1, 128, &d->q_scale_tokens) ||
      pyga_arg_i32(&call->args, A8_KV_SCALE_TOKENS, 1, 128, &d->kv_scale_tokens) ||
      a8_scale(call, A8_Q_SCALE, d->q_heads, d->max_q, d->q_scale_tokens, &io->q_scale) ||
      a8_scale(call, A8_K_SCALE, d->kv_heads, d->max_kv, d->kv_scale_tokens, &io->k_scale) ||
      a8_scale(call, A8_V_SCALE, d->kv_heads, d->max_kv, d->kv_scale_tokens, &io->v_scale) ||
      pyga_arg_bool(&call->args, A8_CAUSAL, &causal) || pyga_arg_bool(&call->args, A8_FAST_SUM, &fast_sum) ||
      pyga_arg_scale(&call->args, A8_SCALE, &d->scale) || pyga_dtype_of_arg(call, A8_OUT_DTYPE, &dtype) ||
      pyga_vector(call, A8_V_MEAN, GA_F32, d->batch * d->kv_heads * d->v_dim, NULL, &mean))
    return -1;
  const int64_t dims[4] = {d->batch, d->max_q, d->q_heads, d->v_dim};
  if (pyga_out(call, A8_OUT, dtype, 4, dims, &o) || rows_of_heads(call, A8_OUT, o, &io->o_stride)) return -1;
  d->o_dtype = (int32_t)dtype;
  d->flags = (uint32_t)((causal ? GA_ATTN_CAUSAL : 0) | (fast_sum ? GA_ATTN_FAST_SUM : 0));
  io->o = o->data, io->v_mean = mean;
  return 0;
}

static const char *const a8_names[] = {
    "q",        "k",         "v",     "q_scale",   "k_scale",        "v_scale",
    "kv",       "causal",    "scale", "v_mean",    "q_scale_tokens", "kv_scale_tokens",
    "fast_sum", "out_dtype", "out",   "workspace", "stream",         NULL};
const pyga_op pyga_op_attention_8bit = {
    "attention_8bit",
    "attention_8bit(q, k, v, q_scale, k_scale, v_scale, *, kv=None, causal=False, scale=None, v_mean=None,\n"
    "               q_scale_tokens=128, kv_scale_tokens=128, fast_sum=False, out_dtype='bf16', out=None)\n\n"
    "attention() over what attn_quant made: q, k of kind 'rows', v of 'values', each with its scales; v_mean of "
    "centre=True.\n"
    "kv: keys that count, of those of k. fast_sum: sums may stay in 14 bits where the GPU has no more.\n"
    "Rows are there on Hopper, and on device 'ref'. Raises ShapeError, DtypeError, ArgumentError, UnsupportedError.",
    a8_names,
    6,
    fill_attention_8bit,
    attn_form_plan,
    attn_form_run,
    attn_form_both,
    NULL};
