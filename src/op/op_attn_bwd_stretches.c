/* Gradients over stretches: ga_attn_bwd for each pair of them that see each other. Its masks are aligned to the bottom
 * right, so that a pair is at most two calls: queries that stand among the keys, and queries behind them. */
#include "ga/attn_bwd.h"
#include "op/op.h"
#include "op/op_stretch.h"
#include "opdef/attn_rows.h"

#define OP    "attn_bwd_stretches"
#define FLAGS (GA_ATTN_CAUSAL | GA_ATTN_BWD_DETERMINISTIC | GA_ATTN_BWD_ADDS)

typedef struct call {
  ga_ctx *ctx;
  const ga_attn_bwd_desc *d;
  const ga_attn_bwd_io *io; /* strides complete */
  ga_stream *stream;
} call;

static ga_status check_description(const ga_attn_bwd_desc *d) {
  GA_REQUIRE((d->flags & ~(uint32_t)FLAGS) == 0 && (d->flags & GA_ATTN_BWD_ADDS) == GA_ATTN_BWD_ADDS, GA_ERR_ARG,
             OP ": flags 0x%x; must have ADD_DQ and ADD_DKV, and may have CAUSAL and DETERMINISTIC alone", d->flags);
  GA_REQUIRE(d->max_q <= INT32_MAX && d->max_kv <= INT32_MAX, GA_ERR_SHAPE,
             OP ": max_q %lld, max_kv %lld; must be at most 2^31 - 1", (long long)d->max_q, (long long)d->max_kv);
  return GA_OK;
}

/* Bytes to a row of sequence b. */
static int64_t bytes_to(int32_t dtype, const ga_attn_strides *s, int64_t b, int64_t row) {
  return (b * s->batch + row * s->token) * ga_dtype_info((ga_dtype)dtype)->block_bytes;
}

/* n_q rows of Q from q on, n_kv of K from kv on, the last query at the last key. */
static ga_status run_stretch_rows(const call *c, int64_t q, int64_t n_q, int64_t kv, int64_t n_kv, uint32_t flags,
                                  int64_t window) {
  const ga_attn_bwd_io *a = c->io;
  ga_attn_bwd_desc d = *c->d;
  d.batch = 1, d.max_q = n_q, d.max_kv = n_kv;
  d.flags = (d.flags & ~(uint32_t)GA_ATTN_CAUSAL) | flags;
  d.window = (int32_t)window;
  d.lse_stride = c->d->lse_stride ? c->d->lse_stride : c->d->max_q;
  for (int64_t b = 0; b < c->d->batch; b++) {
    ga_attn_bwd_io io = *a;
    io.q = (const char *)a->q + bytes_to(d.dtype, &a->q_stride, b, q);
    io.o = (const char *)a->o + bytes_to(d.dtype, &a->o_stride, b, q);
    io.dout = (const char *)a->dout + bytes_to(d.dtype, &a->dout_stride, b, q);
    io.lse = a->lse + b * d.q_heads * c->d->max_q + q;
    io.dq = (char *)a->dq + bytes_to(d.grad_dtype, &a->dq_stride, b, q);
    io.k = (const char *)a->k + bytes_to(d.dtype, &a->k_stride, b, kv);
    io.v = (const char *)a->v + bytes_to(d.dtype, &a->v_stride, b, kv);
    io.dk = (char *)a->dk + bytes_to(d.grad_dtype, &a->dk_stride, b, kv);
    io.dv = (char *)a->dv + bytes_to(d.grad_dtype, &a->dv_stride, b, kv);
    GA_TRY(ga_attn_bwd(c->ctx, &d, &io, c->stream));
  }
  return GA_OK;
}

/* Queries of q from `from` on, all of which see the end of kv; shift: of the first query's position from the first
 * key's. Keys that no window reaches, and queries that reach no key, are left out. */
static ga_status run_behind(const call *c, const ga_attn_stretch *q, const ga_attn_stretch *kv, int64_t shift,
                            int64_t from) {
  int64_t n_q = q->rows - from, first = 0, window = 0;
  if (c->d->window) {
    const int64_t begin = from + shift - c->d->window + 1; /* the first key that the first query sees */
    n_q = ga_min_i64(n_q, kv->rows - begin);
    first = ga_max_i64(0, begin);
    if (begin + n_q > 1) window = kv->rows - n_q - begin + 1; /* else the last query sees the first key */
  }
  if (n_q <= 0 || kv->rows == 0) return GA_OK;
  return run_stretch_rows(c, q->first + from, n_q, kv->first + first, kv->rows - first, 0, window);
}

static ga_status run_stretch_pair(const call *c, const ga_attn_stretch *q, const ga_attn_stretch *kv) {
  const int64_t shift = q->position - kv->position;
  if (!(c->d->flags & GA_ATTN_CAUSAL)) return run_behind(c, q, kv, shift, 0);
  const int64_t from = ga_min_i64(ga_max_i64(0, -shift), q->rows); /* those before see no key */
  const int64_t to = ga_max_i64(from, ga_min_i64(q->rows, kv->rows - shift));
  if (to > from && kv->rows) { /* the first of them stands at key from + shift, the last at to + shift - 1 */
    const int64_t begin = c->d->window ? ga_max_i64(0, from + shift - c->d->window + 1) : 0;
    GA_TRY(run_stretch_rows(c, q->first + from, to - from, kv->first + begin, to + shift - begin, GA_ATTN_CAUSAL,
                            c->d->window));
  }
  return run_behind(c, q, kv, shift, to);
}

/* Adjacent stretches that go on in memory as in position, as one; rows of none are left out. Returns how many. */
static int32_t join_stretches(const ga_attn_stretch *s, int32_t n, ga_attn_stretch *out) {
  int32_t joined = 0;
  for (int32_t i = 0; i < n; i++) {
    ga_attn_stretch *last = joined ? &out[joined - 1] : NULL;
    if (s[i].rows == 0) continue;
    if (last && last->document == s[i].document && last->position + last->rows == s[i].position &&
        last->first + last->rows == s[i].first)
      last->rows += s[i].rows;
    else
      out[joined++] = s[i];
  }
  return joined;
}

static ga_status run_pairs(const call *c, const ga_attn_stretch *q, int32_t n_q, const ga_attn_stretch *kv,
                           int32_t n_kv) {
  for (int32_t i = 0; i < n_q; i++)
    for (int32_t j = 0; j < n_kv; j++)
      if (q[i].document == kv[j].document) GA_TRY(run_stretch_pair(c, &q[i], &kv[j]));
  return GA_OK;
}

ga_status ga_attn_bwd_stretches(ga_ctx *ctx, const ga_attn_bwd_desc *desc, const ga_attn_bwd_io *io,
                                const ga_attn_stretch *q, int32_t q_stretches, const ga_attn_stretch *kv,
                                int32_t kv_stretches, ga_stream *stream) {
  ga_attn_bwd_desc d;
  ga_attn_bwd_io full;
  ga_attn_stretch q_joined[GA_ATTN_MAX_STRETCHES], kv_joined[GA_ATTN_MAX_STRETCHES];
  GA_TAKE_DESC(OP, ctx, desc, ga_attn_bwd_desc, &d);
  GA_CHECK_PTR(OP, io && q && kv, "io, q or kv");
  GA_REQUIRE(q_stretches >= 1 && q_stretches <= GA_ATTN_MAX_STRETCHES && kv_stretches >= 1 &&
                 kv_stretches <= GA_ATTN_MAX_STRETCHES,
             GA_ERR_ARG, OP ": q_stretches is %d, kv_stretches %d; must be 1 to %d", q_stretches, kv_stretches,
             GA_ATTN_MAX_STRETCHES);
  GA_TRY(ga_attn_bwd_complete(&d));
  GA_TRY(check_description(&d));
  GA_TRY(ga_check_q_stretches(OP, q, q_stretches, d.max_q));
  GA_TRY(ga_check_kv_stretches(OP, kv, kv_stretches, d.max_kv, NULL));
  q_stretches = join_stretches(q, q_stretches, q_joined);
  kv_stretches = join_stretches(kv, kv_stretches, kv_joined);
  if (d.batch == 0 || q_stretches == 0 || kv_stretches == 0) return GA_OK;
  GA_TAKE_IO(attn_bwd, desc, io, &full);
  if (io != &full) full = *io;
  GA_TRY(ga_attn_bwd_complete_io(&d, &full));
  const call c = {ctx, &d, &full, stream};
  return run_pairs(&c, q_joined, q_stretches, kv_joined, kv_stretches);
}
