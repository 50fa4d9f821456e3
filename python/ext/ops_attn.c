/* Attention, its gradients, and sampling. */
#include "python/ext/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

PYGA_FORMS(attn)
PYGA_FORMS(attn_bwd)
PYGA_FORMS(sample)

enum { LAYOUT_BSHD = 0, LAYOUT_BHSD = 1, LAYOUT_PACKED = 2 };
static const char *const layout_words[] = {"bshd", "bhsd", "packed", NULL};

/* One of q, k, v, o in the order that GA names its dims. */
typedef struct heads_view {
  int64_t batch, tokens, heads, dim;
  ga_attn_strides stride;
} heads_view;

static int heads_of(pyga_call *call, int index, const pyga_view *v, int32_t layout, heads_view *h) {
  static const char *const allowed[] = {"[batch, tokens, heads, dim]", "[batch, heads, tokens, dim]",
                                        "[tokens, heads, dim]"};
  const int32_t n = layout == LAYOUT_PACKED ? 3 : 4;
  if (v->n_dims != n) return pyga_bad_shape(call, index, v, allowed[layout]);
  const int t = n == 3 ? 0 : layout == LAYOUT_BSHD ? 1 : 2, head = n == 3 ? 1 : 3 - t;
  if (v->dim[n - 1] > 1 && v->stride[n - 1] != 1)
    return pyga_bad_shape(call, index, v, "an array that is contiguous along its last dimension");
  *h = (heads_view){n == 4 ? v->dim[0] : 1,
                    v->dim[t],
                    v->dim[head],
                    v->dim[n - 1],
                    {n == 4 ? v->stride[0] : 0, v->stride[t], v->stride[head]}};
  if (h->heads > 65536 || h->dim > 1024) return pyga_bad_shape(call, index, v, "at most 65536 heads of 1024");
  if (!h->stride.batch && !h->stride.token && !h->stride.head) /* GA reads that as contiguous */
    return pyga_bad_shape(call, index, v, "an array whose strides are not all 0");
  return 0;
}

/* Borders of packed sequences: [batch + 1], i32. On the CPU their values are looked at, for a wrong one would make a
 * kernel read outside of the arrays. *longest is what the caller gave, or else (on the CPU) the longest found. */
static int borders(pyga_call *call, int index, int64_t tokens, int64_t *batch, int64_t *longest, const int32_t **out) {
  const void *data = NULL;
  int64_t n = 0;
  if (pyga_vector(call, index, GA_I32, -1, &n, &data)) return -1;
  if (!data || n < 2 || (*batch >= 0 && n != *batch + 1))
    return pyga_fail(GA_ERR_SHAPE, "%s: has %lld elements; allowed are those of batch + 1 borders, i32",
                     pyga_what(call, index), (long long)n);
  *batch = n - 1;
  const int32_t *start = data;
  *out = start;
  if (call->context->is_cuda) {
    if (*longest < 0)
      return pyga_fail(GA_ERR_ARG, "%s: on a GPU max_q and max_kv must be given too", pyga_what(call, index));
    return 0;
  }
  int64_t most = 0;
  if (start[0])
    return pyga_fail(GA_ERR_ARG, "%s: borders begin at %d; allowed is 0", pyga_what(call, index), (int)start[0]);
  for (int64_t i = 0; i + 1 < n; i++) {
    const int64_t length = (int64_t)start[i + 1] - start[i];
    if (length < 0 || start[i + 1] > tokens)
      return pyga_fail(GA_ERR_ARG, "%s: borders %lld and %lld are %d and %d; allowed are rising ones from 0 to %lld",
                       pyga_what(call, index), (long long)i, (long long)i + 1, (int)start[i], (int)start[i + 1],
                       (long long)tokens);
    if (length > most) most = length;
  }
  if (*longest >= 0 && most > *longest)
    return pyga_fail(GA_ERR_ARG, "%s: a sequence has %lld tokens; the maximum given is %lld", pyga_what(call, index),
                     (long long)most, (long long)*longest);
  if (*longest < 0) *longest = most;
  return 0;
}

/* [batch], i32: how many of the keys between its borders a packed sequence has. On the CPU values are looked at. */
static int used_keys(pyga_call *call, int index, int64_t batch, const int32_t *start, const int32_t **out) {
  const void *data = NULL;
  if (pyga_vector(call, index, GA_I32, batch, NULL, &data)) return -1;
  *out = data;
  for (int64_t b = 0; !call->context->is_cuda && b < batch; b++) {
    const int64_t most = (int64_t)start[b + 1] - start[b];
    if ((*out)[b] < 0 || (*out)[b] > most)
      return pyga_fail(GA_ERR_ARG, "%s: sequence %lld has %d; allowed are 0 to its keys, %lld", pyga_what(call, index),
                       (long long)b, (int)(*out)[b], (long long)most);
  }
  return 0;
}

enum {
  ATTN_Q,
  ATTN_K,
  ATTN_V,
  ATTN_CAUSAL,
  ATTN_WINDOW,
  ATTN_SCALE,
  ATTN_SOFTCAP,
  ATTN_SINKS,
  ATTN_ALIBI,
  ATTN_LSE,
  ATTN_LAYOUT,
  ATTN_Q_START,
  ATTN_KV_START,
  ATTN_MAX_Q,
  ATTN_MAX_KV,
  ATTN_PAGE_TABLE,
  ATTN_KV_LEN,
  ATTN_INVARIANT,
  ATTN_OUT,
  ATTN_OUT_LSE,
  ATTN_OUT_DTYPE,
  ATTN_K_SCALE,
  ATTN_V_SCALE
};

/* K and V as pages: their table and lengths. */
static int attn_pages(pyga_call *call, const pyga_view *k, int64_t *max_kv) {
  ga_attn_desc *d = &call->desc.attn;
  ga_attn_io *io = &call->io.attn;
  pyga_view *table = NULL;
  const void *len = NULL;
  if (pyga_need(call, ATTN_PAGE_TABLE, &table)) return -1;
  if (table->dtype != GA_I32 || table->n_dims != 2 || table->dim[0] != d->batch ||
      (table->dim[1] > 1 && table->stride[1] != 1) || (d->batch > 1 && table->stride[0] < table->dim[1]))
    return pyga_bad_shape(call, ATTN_PAGE_TABLE, table, "i32 [batch, pages of a sequence]");
  if (!call->args.value[ATTN_KV_LEN]) return pyga_fail(GA_ERR_ARG, "attention: page_table needs kv_len [batch]");
  if (pyga_vector(call, ATTN_KV_LEN, GA_I32, d->batch, NULL, &len)) return -1;
  const int64_t pages = k->dim[0], page = k->dim[1], room = table->dim[1] * page;
  if (*max_kv < 0) *max_kv = room;
  for (int64_t b = 0; !call->context->is_cuda && b < d->batch; b++) {
    const int32_t n = ((const int32_t *)len)[b];
    if (n < 0 || n > room || n > *max_kv)
      return pyga_fail(GA_ERR_ARG, "attention: kv_len: sequence %lld has %d; allowed are 0 to %lld", (long long)b,
                       (int)n, (long long)(room < *max_kv ? room : *max_kv));
    for (int64_t i = 0; i * page < n; i++) {
      const int32_t seen = ((const int32_t *)table->data)[b * table->stride[0] + i];
      if (seen < 0 || seen >= pages)
        return pyga_fail(GA_ERR_ARG, "attention: page_table: [%lld, %lld] is %d; allowed are 0 to %lld", (long long)b,
                         (long long)i, (int)seen, (long long)pages - 1);
    }
  }
  d->flags |= GA_ATTN_PAGED;
  d->page_size = (int32_t)page;
  io->page_table = table->data, io->page_table_stride = table->stride[0], io->kv_len = len;
  return 0;
}

static int attn_e4m3_scale(pyga_call *call, int index, int64_t heads, int64_t slots, int64_t page, ga_attn_scale *out) {
  const void *data = NULL;
  if (pyga_vector(call, index, GA_F32, heads * slots, NULL, &data)) return -1;
  if (!data)
    return pyga_fail(GA_ERR_ARG, "%s: e4m3 pages need scales [heads, slots], as kv_store makes them",
                     pyga_what(call, index));
  *out = (ga_attn_scale){data, page, slots, 1};
  return 0;
}

static int attn_options(pyga_call *call) {
  ga_attn_desc *d = &call->desc.attn;
  ga_attn_io *io = &call->io.attn;
  bool causal = false, invariant = false;
  const void *sinks = NULL, *alibi = NULL;
  if (pyga_arg_bool(&call->args, ATTN_CAUSAL, &causal) || pyga_arg_bool(&call->args, ATTN_INVARIANT, &invariant) ||
      pyga_arg_i32(&call->args, ATTN_WINDOW, 0, INT32_MAX, &d->window) ||
      pyga_arg_scale(&call->args, ATTN_SCALE, &d->scale) || pyga_arg_float(&call->args, ATTN_SOFTCAP, &d->softcap) ||
      pyga_vector(call, ATTN_SINKS, GA_F32, d->q_heads, NULL, &sinks) ||
      pyga_vector(call, ATTN_ALIBI, GA_F32, d->q_heads, NULL, &alibi))
    return -1;
  d->flags |= (uint32_t)((causal ? GA_ATTN_CAUSAL : 0) | (invariant ? GA_ATTN_INVARIANT : 0) |
                         (sinks ? GA_ATTN_SINKS : 0) | (alibi ? GA_ATTN_ALIBI : 0));
  io->sinks = sinks, io->alibi = alibi;
  return 0;
}

static int attn_result(pyga_call *call, const pyga_view *q, int32_t layout) {
  ga_attn_desc *d = &call->desc.attn;
  ga_attn_io *io = &call->io.attn;
  pyga_view *o = NULL, *lse = NULL;
  heads_view h;
  ga_dtype dtype = q->dtype;
  int64_t dims[PY_MAX_DIMS];
  bool want_lse = call->args.value[ATTN_OUT_LSE] != NULL;
  memcpy(dims, q->dim, sizeof dims);
  dims[q->n_dims - 1] = d->v_dim;
  if (pyga_dtype_of_arg(call, ATTN_OUT_DTYPE, &dtype) || pyga_out(call, ATTN_OUT, dtype, q->n_dims, dims, &o) ||
      heads_of(call, ATTN_OUT, o, layout, &h) || pyga_arg_bool(&call->args, ATTN_LSE, &want_lse))
    return -1;
  d->o_dtype = (int32_t)dtype;
  io->o = o->data, io->o_stride = h.stride;
  if (!want_lse) return 0;
  const int64_t shape[3] = {d->batch, d->q_heads, d->max_q};
  if (pyga_out(call, ATTN_OUT_LSE, GA_F32, 3, shape, &lse)) return -1;
  if (!pyga_view_is_contiguous(lse)) return pyga_bad_shape(call, ATTN_OUT_LSE, lse, "a contiguous array");
  d->flags |= GA_ATTN_LSE;
  io->lse = lse->data;
  return 0;
}

/* batch, max_q and max_kv, and what gives the borders. */
static int attn_lengths(pyga_call *call, const pyga_view *k, const heads_view *q, const heads_view *kh, bool paged) {
  ga_attn_desc *d = &call->desc.attn;
  ga_attn_io *io = &call->io.attn;
  const int64_t most = (int64_t)1 << 40;
  int64_t batch = -1, max_q = -1, max_kv = -1;
  if (pyga_arg_int(&call->args, ATTN_MAX_Q, 0, most, &max_q) ||
      pyga_arg_int(&call->args, ATTN_MAX_KV, 0, most, &max_kv))
    return -1;
  if (call->args.value[ATTN_Q_START]) {
    if (borders(call, ATTN_Q_START, q->tokens, &batch, &max_q, &io->q_start)) return -1;
    d->flags |= GA_ATTN_VARLEN;
    io->q_tokens = q->tokens;
    if (!paged && borders(call, ATTN_KV_START, kh->tokens, &batch, &max_kv, &io->kv_start)) return -1;
    if (!paged) io->kv_tokens = kh->tokens;
    if (!paged && call->args.value[ATTN_KV_LEN]) {
      if (used_keys(call, ATTN_KV_LEN, batch, io->kv_start, &io->kv_len)) return -1;
      d->flags |= GA_ATTN_LENGTHS;
    }
    d->batch = batch, d->max_q = max_q;
  } else {
    if (!paged && call->args.value[ATTN_KV_LEN])
      return pyga_fail(GA_ERR_ARG, "attention: kv_len without page_table or q_start; allowed beside one of them");
    d->batch = q->batch, d->max_q = q->tokens;
    if (!paged && kh->batch != q->batch) return pyga_bad_shape(call, ATTN_K, k, "the batch of q");
    if (!paged) max_kv = kh->tokens;
  }
  if (paged && attn_pages(call, k, &max_kv)) return -1;
  d->max_kv = max_kv;
  return 0;
}

static int fill_attention(pyga_call *call) {
  PYGA_BEGIN(call, attn, GA_ATTN_DESC_INIT);
  ga_attn_desc *d = &call->desc.attn;
  ga_attn_io *io = &call->io.attn;
  pyga_view *q = NULL, *k = NULL, *v = NULL;
  heads_view qh, kh, vh;
  const bool paged = call->args.value[ATTN_PAGE_TABLE] != NULL, packed = call->args.value[ATTN_Q_START] != NULL;
  int32_t layout = packed ? LAYOUT_PACKED : LAYOUT_BSHD;
  if (pyga_arg_word(&call->args, ATTN_LAYOUT, layout_words, &layout)) return -1;
  if ((layout == LAYOUT_PACKED) != packed)
    return pyga_fail(GA_ERR_ARG, "attention: layout 'packed' and q_start go together");
  const int32_t kv_layout = paged ? LAYOUT_BSHD : layout;
  if (pyga_need(call, ATTN_Q, &q) || pyga_need(call, ATTN_K, &k) || pyga_need(call, ATTN_V, &v) ||
      heads_of(call, ATTN_Q, q, layout, &qh) || heads_of(call, ATTN_K, k, kv_layout, &kh) ||
      heads_of(call, ATTN_V, v, kv_layout, &vh))
    return -1;
  if (kh.dim != qh.dim) return pyga_bad_shape(call, ATTN_K, k, "the head_dim of q");
  if (vh.tokens != kh.tokens || vh.heads != kh.heads || vh.batch != kh.batch || v->dtype != k->dtype)
    return pyga_bad_shape(call, ATTN_V, v, "the type, batch, tokens and heads of k");
  d->q_heads = (int32_t)qh.heads, d->kv_heads = (int32_t)kh.heads, d->head_dim = (int32_t)qh.dim,
  d->v_dim = (int32_t)vh.dim;
  d->q_dtype = (int32_t)q->dtype, d->kv_dtype = (int32_t)k->dtype;
  io->q = q->data, io->k = k->data, io->v = v->data;
  io->q_stride = qh.stride, io->k_stride = kh.stride, io->v_stride = vh.stride;
  if (attn_lengths(call, k, &qh, &kh, paged) || attn_options(call)) return -1;
  if (paged && k->dtype == GA_E4M3 && q->dtype != GA_E4M3) {
    d->kv_scale_tokens = 1;
    const int64_t slots = kh.batch * kh.tokens;
    if (attn_e4m3_scale(call, ATTN_K_SCALE, kh.heads, slots, kh.tokens, &io->k_scale) ||
        attn_e4m3_scale(call, ATTN_V_SCALE, kh.heads, slots, kh.tokens, &io->v_scale))
      return -1;
  }
  return attn_result(call, q, layout);
}

static const char *const attn_names[] = {
    "q",   "k",       "v",         "causal",   "window",  "scale",     "softcap",    "sinks",  "alibi",
    "lse", "layout",  "q_start",   "kv_start", "max_q",   "max_kv",    "page_table", "kv_len", "invariant",
    "out", "out_lse", "out_dtype", "k_scale",  "v_scale", "workspace", "stream",     NULL};
const pyga_op pyga_op_attention = {
    "attention",
    "attention(q, k, v, *, causal=False, window=0, scale=None, softcap=0, sinks=None, alibi=None, lse=False, "
    "layout='bshd',\n"
    "          q_start=None, kv_start=None, max_q=None, max_kv=None, page_table=None, kv_len=None, invariant=False,\n"
    "          out=None, out_lse=None, out_dtype=None, k_scale=None, v_scale=None)\n\n"
    "softmax(scale * q k^T + mask) v. q [batch, q, q_heads, dim], k [batch, kv, kv_heads, dim], v [batch, kv, "
    "kv_heads, v_dim];\n"
    "layout 'bhsd' has heads before tokens. With q_start and kv_start [batch + 1] i32 (packed sequences) all are "
    "[tokens, heads, dim].\n"
    "With page_table [batch, n] i32 and kv_len [batch] i32 k and v are pages [pages, page_size, kv_heads, dim].\n"
    "The first border is 0, and none is less than the one before it. Rows that no sequence has are 0 in o and "
    "-infinity "
    "in lse.\n"
    "kv_len beside kv_start: how many of its keys a packed sequence has; those behind them are not read.\n"
    "causal: the last query sees the last key. scale None: 1 / sqrt(dim). sinks, alibi [q_heads] f32.\n"
    "Any strides but for the last dimension. lse=True: returns (o, lse [batch, q_heads, max_q] f32).\n"
    "Raises ShapeError, DtypeError, ArgumentError, UnsupportedError.",
    attn_names,
    3,
    fill_attention,
    attn_form_plan,
    attn_form_run,
    attn_form_both,
    NULL};

/* ---- gradients ---- */

enum {
  BWD_Q,
  BWD_K,
  BWD_V,
  BWD_O,
  BWD_LSE,
  BWD_DOUT,
  BWD_CAUSAL,
  BWD_WINDOW,
  BWD_SCALE,
  BWD_SOFTCAP,
  BWD_SINKS,
  BWD_ALIBI,
  BWD_LAYOUT,
  BWD_Q_START,
  BWD_KV_START,
  BWD_MAX_Q,
  BWD_MAX_KV,
  BWD_KV_LEN,
  BWD_DETERMINISTIC,
  BWD_GRAD_DTYPE,
  BWD_OUT_DQ,
  BWD_OUT_DK,
  BWD_OUT_DV,
  BWD_OUT_DSINKS
};

static int bwd_inputs(pyga_call *call, int32_t layout, pyga_view *views[5], heads_view h[5]) {
  static const int index[5] = {BWD_Q, BWD_K, BWD_V, BWD_O, BWD_DOUT};
  for (int i = 0; i < 5; i++) {
    if (pyga_need(call, index[i], &views[i]) || heads_of(call, index[i], views[i], layout, &h[i])) return -1;
    if (views[i]->dtype != views[0]->dtype) return pyga_bad_shape(call, index[i], views[i], "the type of q");
  }
  if (h[1].dim != h[0].dim || h[1].batch != h[0].batch)
    return pyga_bad_shape(call, BWD_K, views[1], "the batch and head_dim of q");
  if (h[2].tokens != h[1].tokens || h[2].heads != h[1].heads || h[2].batch != h[1].batch)
    return pyga_bad_shape(call, BWD_V, views[2], "the batch, tokens and heads of k");
  for (int i = 3; i < 5; i++)
    if (h[i].batch != h[0].batch || h[i].tokens != h[0].tokens || h[i].heads != h[0].heads || h[i].dim != h[2].dim)
      return pyga_bad_shape(call, index[i], views[i], "the batch, tokens and heads of q with the dim of v");
  return 0;
}

static int bwd_lengths(pyga_call *call, const heads_view h[5]) {
  ga_attn_bwd_desc *d = &call->desc.attn_bwd;
  ga_attn_bwd_io *io = &call->io.attn_bwd;
  const int64_t most = (int64_t)1 << 40;
  int64_t batch = -1, max_q = -1, max_kv = -1;
  d->batch = h[0].batch, d->max_q = h[0].tokens, d->max_kv = h[1].tokens;
  if (!call->args.value[BWD_Q_START]) {
    if (call->args.value[BWD_KV_LEN])
      return pyga_fail(GA_ERR_ARG, "attention_backward: kv_len without q_start; allowed beside it");
    return 0;
  }
  if (pyga_arg_int(&call->args, BWD_MAX_Q, 0, most, &max_q) ||
      pyga_arg_int(&call->args, BWD_MAX_KV, 0, most, &max_kv) ||
      borders(call, BWD_Q_START, h[0].tokens, &batch, &max_q, &io->q_start) ||
      borders(call, BWD_KV_START, h[1].tokens, &batch, &max_kv, &io->kv_start))
    return -1;
  d->batch = batch, d->max_q = max_q, d->max_kv = max_kv;
  d->total_q = h[0].tokens, d->total_kv = h[1].tokens;
  d->flags |= GA_ATTN_VARLEN;
  if (!call->args.value[BWD_KV_LEN]) return 0;
  if (used_keys(call, BWD_KV_LEN, batch, io->kv_start, &io->kv_len)) return -1;
  d->flags |= GA_ATTN_LENGTHS;
  return 0;
}

static int bwd_options(pyga_call *call) {
  ga_attn_bwd_desc *d = &call->desc.attn_bwd;
  ga_attn_bwd_io *io = &call->io.attn_bwd;
  bool causal = false, same_bits = false;
  const void *sinks = NULL, *alibi = NULL, *lse = NULL;
  if (!call->args.value[BWD_LSE])
    return pyga_fail(GA_ERR_ARG, "attention_backward: lse of the forward pass is wanted: attention(..., lse=True)");
  if (pyga_arg_bool(&call->args, BWD_CAUSAL, &causal) || pyga_arg_bool(&call->args, BWD_DETERMINISTIC, &same_bits) ||
      pyga_arg_i32(&call->args, BWD_WINDOW, 0, INT32_MAX, &d->window) ||
      pyga_arg_scale(&call->args, BWD_SCALE, &d->scale) || pyga_arg_float(&call->args, BWD_SOFTCAP, &d->softcap) ||
      pyga_vector(call, BWD_SINKS, GA_F32, d->q_heads, NULL, &sinks) ||
      pyga_vector(call, BWD_ALIBI, GA_F32, d->q_heads, NULL, &alibi) ||
      pyga_vector(call, BWD_LSE, GA_F32, d->batch * d->q_heads * d->max_q, NULL, &lse))
    return -1;
  d->flags |= (uint32_t)((causal ? GA_ATTN_CAUSAL : 0) | (sinks ? GA_ATTN_SINKS : 0) | (alibi ? GA_ATTN_ALIBI : 0) |
                         (same_bits ? GA_ATTN_BWD_DETERMINISTIC : 0));
  io->sinks = sinks, io->alibi = alibi, io->lse = lse;
  return 0;
}

static int bwd_results(pyga_call *call, int32_t layout, pyga_view *const views[5]) {
  ga_attn_bwd_desc *d = &call->desc.attn_bwd;
  ga_attn_bwd_io *io = &call->io.attn_bwd;
  pyga_view *g[4];
  heads_view h[3];
  ga_dtype dtype = views[0]->dtype;
  if (pyga_dtype_of_arg(call, BWD_GRAD_DTYPE, &dtype)) return -1;
  for (int i = 0; i < 3; i++)
    if (pyga_out(call, BWD_OUT_DQ + i, dtype, views[i]->n_dims, views[i]->dim, &g[i]) ||
        heads_of(call, BWD_OUT_DQ + i, g[i], layout, &h[i]))
      return -1;
  d->grad_dtype = (int32_t)dtype;
  io->dq = g[0]->data, io->dk = g[1]->data, io->dv = g[2]->data;
  io->dq_stride = h[0].stride, io->dk_stride = h[1].stride, io->dv_stride = h[2].stride;
  if (!io->sinks) return 0;
  const int64_t heads = d->q_heads;
  if (pyga_out(call, BWD_OUT_DSINKS, GA_F32, 1, &heads, &g[3])) return -1;
  if (!pyga_view_is_contiguous(g[3])) return pyga_bad_shape(call, BWD_OUT_DSINKS, g[3], "a contiguous array");
  io->dsinks = g[3]->data;
  return 0;
}

static int fill_attention_backward(pyga_call *call) {
  PYGA_BEGIN(call, attn_bwd, GA_ATTN_BWD_DESC_INIT);
  ga_attn_bwd_desc *d = &call->desc.attn_bwd;
  ga_attn_bwd_io *io = &call->io.attn_bwd;
  pyga_view *v[5];
  heads_view h[5];
  const bool packed = call->args.value[BWD_Q_START] != NULL;
  int32_t layout = packed ? LAYOUT_PACKED : LAYOUT_BSHD;
  if (pyga_arg_word(&call->args, BWD_LAYOUT, layout_words, &layout)) return -1;
  if ((layout == LAYOUT_PACKED) != packed)
    return pyga_fail(GA_ERR_ARG, "attention_backward: layout 'packed' and q_start go together");
  if (bwd_inputs(call, layout, v, h) || bwd_lengths(call, h)) return -1;
  d->q_heads = (int32_t)h[0].heads, d->kv_heads = (int32_t)h[1].heads, d->head_dim = (int32_t)h[0].dim,
  d->v_dim = (int32_t)h[2].dim;
  d->dtype = (int32_t)v[0]->dtype;
  io->q = v[0]->data, io->k = v[1]->data, io->v = v[2]->data, io->o = v[3]->data, io->dout = v[4]->data;
  io->q_stride = h[0].stride, io->k_stride = h[1].stride, io->v_stride = h[2].stride;
  io->o_stride = h[3].stride, io->dout_stride = h[4].stride;
  return bwd_options(call) || bwd_results(call, layout, v) ? -1 : 0;
}

static const char *const bwd_names[] = {
    "q",        "k",      "v",          "o",         "lse",           "dout",       "causal",
    "window",   "scale",  "softcap",    "sinks",     "alibi",         "layout",     "q_start",
    "kv_start", "max_q",  "max_kv",     "kv_len",    "deterministic", "grad_dtype", "out_dq",
    "out_dk",   "out_dv", "out_dsinks", "workspace", "stream",        NULL};
const pyga_op pyga_op_attention_backward = {
    "attention_backward",
    "attention_backward(q, k, v, o, lse, dout, *, causal=False, window=0, scale=None, softcap=0, sinks=None, "
    "alibi=None,\n"
    "                   layout='bshd', q_start=None, kv_start=None, max_q=None, max_kv=None, deterministic=False, "
    "grad_dtype=None,\n"
    "                   kv_len=None, out_dq=None, out_dk=None, out_dv=None, out_dsinks=None)\n\n"
    "Gradients (dq, dk, dv), with sinks also dsinks, of attention() with the same options; o and lse are its results.\n"
    "q, k, v, o, dout of one type: f32, f16, bf16. grad_dtype: that type or f32.\n"
    "Rows that no packed sequence has, and those of keys that are not used, get gradients of 0.\n"
    "Raises ShapeError, DtypeError, ArgumentError, UnsupportedError.",
    bwd_names,
    6,
    fill_attention_backward,
    attn_bwd_form_plan,
    attn_bwd_form_run,
    attn_bwd_form_both,
    NULL};

/* ---- sampling ---- */

enum {
  SAMPLE_LOGITS,
  SAMPLE_TEMPERATURE,
  SAMPLE_TOP_P,
  SAMPLE_MIN_P,
  SAMPLE_TYPICAL_P,
  SAMPLE_REPETITION,
  SAMPLE_PRESENCE,
  SAMPLE_FREQUENCY,
  SAMPLE_TOP_K,
  SAMPLE_HISTORY,
  SAMPLE_BIAS,
  SAMPLE_SEED,
  SAMPLE_RNG
};

static int sample_bias(pyga_call *call) {
  PyObject *dict = call->args.value[SAMPLE_BIAS], *key = NULL, *value = NULL;
  if (!dict) return 0;
  if (!PyDict_Check(dict)) {
    PyErr_Format(PyExc_TypeError, "sample: logit_bias: a dict of id: bias is wanted, not %R", dict);
    return -1;
  }
  Py_ssize_t place = 0, n = 0;
  call->bias = calloc((size_t)PyDict_Size(dict) + 1, sizeof *call->bias);
  if (!call->bias) return PyErr_NoMemory(), -1;
  while (PyDict_Next(dict, &place, &key, &value)) {
    call->bias[n].id = (int32_t)PyLong_AsLong(key);
    call->bias[n++].bias = (float)PyFloat_AsDouble(value);
    if (PyErr_Occurred()) return -1;
  }
  call->io.sample.bias = call->bias, call->io.sample.n_bias = n;
  return 0;
}

static int sample_rng(pyga_call *call) {
  pyga_view *view = NULL;
  unsigned long long seed = 0;
  if (call->args.value[SAMPLE_RNG]) {
    if (call->args.value[SAMPLE_SEED])
      return pyga_fail(GA_ERR_ARG, "sample: seed and rng are given; allowed is one of them");
    view = &call->views[call->n_views];
    if (pyga_view_get(call->args.value[SAMPLE_RNG], pyga_what(call, SAMPLE_RNG), view)) return -1;
    call->view_of[call->n_views] = SAMPLE_RNG;
    call->view_written[call->n_views++] = true;
    if (pyga_view_check(view, call->context, call->what, true)) return -1;
    if (view->dtype != GA_I64 || view->n_dims != 1 || view->dim[0] != 4 || !pyga_view_is_contiguous(view))
      return pyga_bad_shape(call, SAMPLE_RNG, view, "i64 [4], as rng(seed) makes it");
    call->io.sample.rng = view->data;
    return 0;
  }
  if (call->args.value[SAMPLE_SEED]) {
    seed = PyLong_AsUnsignedLongLongMask(call->args.value[SAMPLE_SEED]);
    if (PyErr_Occurred()) return -1;
  }
  ga_sample_seed(call->rng, seed);
  call->io.sample.rng = call->rng;
  return 0;
}

static int fill_sample(pyga_call *call) {
  PYGA_BEGIN(call, sample, GA_SAMPLE_DESC_INIT);
  ga_sample_desc *d = &call->desc.sample;
  float *const number[] = {
      &d->temperature,      &d->top_p, &d->min_p, &d->typical_p, &d->repetition_penalty, &d->presence_penalty,
      &d->frequency_penalty};
  const void *logits = NULL, *history = NULL;
  if (call->context->is_cuda)
    return pyga_fail(GA_ERR_UNSUPPORTED, "sample: logits lie on a GPU; allowed is the CPU: Context.to_host()");
  if (!call->args.value[SAMPLE_LOGITS]) return PyErr_SetString(PyExc_TypeError, "sample: logits is missing"), -1;
  if (pyga_vector(call, SAMPLE_LOGITS, GA_F32, -1, &d->vocab, &logits) ||
      pyga_vector(call, SAMPLE_HISTORY, GA_I32, -1, &call->io.sample.n_history, &history))
    return -1;
  for (int i = 0; i < 7; i++)
    if (pyga_arg_float(&call->args, SAMPLE_TEMPERATURE + i, number[i])) return -1;
  if (pyga_arg_i32(&call->args, SAMPLE_TOP_K, 0, INT32_MAX, &d->top_k) || sample_bias(call) || sample_rng(call))
    return -1;
  call->io.sample.logits = logits, call->io.sample.history = history;
  call->io.sample.id = &call->token, call->io.sample.logprob = &call->logprob;
  return 0;
}

static int finish_sample(pyga_call *call) {
  call->results[0] = PyLong_FromLong(call->token);
  call->results[1] = PyFloat_FromDouble((double)call->logprob);
  call->n_results = 2;
  return call->results[0] && call->results[1] ? 0 : -1;
}

static const char *const sample_names[] = {"logits",
                                           "temperature",
                                           "top_p",
                                           "min_p",
                                           "typical_p",
                                           "repetition_penalty",
                                           "presence_penalty",
                                           "frequency_penalty",
                                           "top_k",
                                           "history",
                                           "logit_bias",
                                           "seed",
                                           "rng",
                                           "workspace",
                                           "stream",
                                           NULL};
const pyga_op pyga_op_sample = {
    "sample",
    "sample(logits, *, temperature=0, top_p=1, min_p=0, typical_p=1, repetition_penalty=1, presence_penalty=0,\n"
    "       frequency_penalty=0, top_k=0, history=None, logit_bias=None, seed=None, rng=None)\n\n"
    "Draws one token from logits [vocab] f32 on the CPU: (id, log-probability under the plain softmax). temperature 0: "
    "the largest.\n"
    "history [n] i32: tokens that the penalties see. logit_bias: {id: bias}. rng [4] i64: state that advances, of "
    "rng(seed).\n"
    "Raises ArgumentError, ShapeError, DtypeError.",
    sample_names,
    1,
    fill_sample,
    sample_form_plan,
    sample_form_run,
    sample_form_both,
    finish_sample};
