/* A tile becomes one or two calls. ga_attn puts the last query at the last key; so keys that no query sees are left
 * out, and queries that stand behind the last key become a call of their own, without the causal mask. */
#include "dist/tile.h"

#include "base/mem.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"

/* Queries [q, q + n_q) by keys [k, k + n_k) of the two stretches; window as ga_attn has it. */
typedef struct call {
  int64_t q, n_q, k, n_k, window;
  bool causal;
} call;

/* Query i sees keys j <= i + high, and j > i + high - window. */
static int calls_of(const dist_problem *p, const dist_stretch *q, const dist_stretch *k, call out[2]) {
  const dist_band b = dist_band_of(p, q, k);
  const bool causal = p->flags & GA_DIST_CAUSAL;
  const int64_t window = p->window ? b.high - b.low + 1 : 0;
  int n = 0;
  const int64_t inside = causal ? ga_min_i64(q->count, k->count - b.high) : 0; /* queries at or before the last key */
  if (causal && inside > 0) {
    const int64_t blind = ga_max_i64(0, -b.high); /* the first ones see nothing yet */
    if (blind < inside)
      out[n++] = (call){.q = blind, .n_q = inside - blind, .n_k = inside + b.high, .window = window, .causal = true};
  }
  const int64_t from = ga_max_i64(0, inside);
  call rest = {.q = from, .n_q = q->count - from, .n_k = k->count};
  if (p->window) { /* query i sees keys j >= i + low: those from k->count - low on see none */
    rest.n_q = ga_min_i64(rest.n_q, k->count - b.low - from);
    rest.window = rest.n_k - b.low - from - rest.n_q + 1;
  }
  if (rest.n_q > 0) out[n++] = rest;
  return n;
}

static float *row_of(const block_view *v, int c, int64_t row, int32_t head) {
  return v->part[c] + (row * v->heads + head - v->head) * v->dim[c];
}
static ga_attn_strides strides_of(const block_view *v, int c) {
  return (ga_attn_strides){
      .batch = v->rows * v->heads * v->dim[c], .token = (int64_t)v->heads * v->dim[c], .head = v->dim[c]};
}

/* Heads [head, head + heads) of queries, which read kv_heads heads of keys from kv_head on, each as many. */
typedef struct head_run {
  int32_t head, heads, kv_head, kv_heads;
} head_run;

/* Rows of the views at which the call begins. */
typedef struct call_rows {
  int64_t q, out, kv, dkv;
} call_rows;

static ga_status run_forward(const tile_job *job, const call *c, const head_run *h, const call_rows *at) {
  const dist_problem *p = job->q.p;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = c->n_q, d.max_kv = c->n_k, d.q_heads = h->heads, d.kv_heads = h->kv_heads;
  d.head_dim = p->head_dim, d.v_dim = p->v_dim, d.window = (int32_t)ga_min_i64(c->window, INT32_MAX);
  d.flags = GA_ATTN_LSE | (c->causal ? GA_ATTN_CAUSAL : 0u);
  float *lse = job->scratch, *o = lse + c->n_q * h->heads;
  ga_attn_io io = {.q = row_of(&job->q, 0, at->q, h->head),
                   .k = row_of(&job->kv, 0, at->kv, h->kv_head),
                   .v = row_of(&job->kv, 1, at->kv, h->kv_head),
                   .o = o,
                   .lse = lse,
                   .q_stride = strides_of(&job->q, 0),
                   .k_stride = strides_of(&job->kv, 0),
                   .v_stride = strides_of(&job->kv, 1)};
  GA_TRY(ga_attn(job->ctx, &d, &io, NULL));
  const block_view *out = &job->out;
  for (int64_t i = 0; i < c->n_q; i++)
    for (int32_t x = 0; x < h->heads; x++)
      dist_merge_row(row_of(out, 0, at->out + i, h->head + x),
                     out->lse + (h->head + x - out->head) * out->rows + at->out + i, o + (i * h->heads + x) * p->v_dim,
                     lse[x * c->n_q + i], p->v_dim);
  return GA_OK;
}

static ga_status run_backward(const tile_job *job, const call *c, const head_run *h, const call_rows *at) {
  const dist_problem *p = job->q.p;
  const block_view *g = &job->q;
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.max_q = c->n_q, d.max_kv = c->n_k, d.q_heads = h->heads, d.kv_heads = h->kv_heads;
  d.head_dim = p->head_dim, d.v_dim = p->v_dim, d.window = (int32_t)ga_min_i64(c->window, INT32_MAX);
  d.flags =
      (uint32_t)GA_ATTN_BWD_ADD | (uint32_t)GA_ATTN_BWD_DETERMINISTIC | (c->causal ? (uint32_t)GA_ATTN_CAUSAL : 0u);
  float *lse = job->scratch;
  for (int32_t x = 0; x < h->heads; x++)
    for (int64_t i = 0; i < c->n_q; i++) lse[x * c->n_q + i] = g->lse[(h->head + x - g->head) * g->rows + at->q + i];
  const ga_attn_bwd_io io = {.q = row_of(g, 0, at->q, h->head),
                             .o = row_of(g, 1, at->q, h->head),
                             .dout = row_of(g, 2, at->q, h->head),
                             .lse = lse,
                             .k = row_of(&job->kv, 0, at->kv, h->kv_head),
                             .v = row_of(&job->kv, 1, at->kv, h->kv_head),
                             .dq = row_of(&job->out, 0, at->out, h->head),
                             .dk = row_of(&job->dkv, 0, at->dkv, h->kv_head),
                             .dv = row_of(&job->dkv, 1, at->dkv, h->kv_head),
                             .q_stride = strides_of(g, 0),
                             .o_stride = strides_of(g, 1),
                             .dout_stride = strides_of(g, 2),
                             .k_stride = strides_of(&job->kv, 0),
                             .v_stride = strides_of(&job->kv, 1),
                             .dq_stride = strides_of(&job->out, 0),
                             .dk_stride = strides_of(&job->dkv, 0),
                             .dv_stride = strides_of(&job->dkv, 1)};
  return ga_attn_bwd(job->ctx, &d, &io, NULL);
}

/* Groups of heads that do not begin and end where a head of keys does go one head of keys at a time. */
static ga_status run_heads(const tile_job *job, const call *c, const call_rows *at) {
  const dist_problem *p = job->q.p;
  const dist_step *s = job->step;
  const int32_t group = p->q_heads / p->kv_heads, end = s->head + s->heads;
  const dist_heads kv = dist_kv_of(p, s->head, s->heads);
  const bool whole = s->head % group == 0 && end % group == 0, backward = p->flags & GA_DIST_BACKWARD;
  for (int32_t k = kv.begin; k < kv.end; k += whole ? kv.end - kv.begin : 1) {
    head_run h = {.head = s->head, .heads = s->heads, .kv_head = k, .kv_heads = kv.end - kv.begin};
    if (!whole) {
      h.head = s->head > k * group ? s->head : k * group;
      h.heads = (end < (k + 1) * group ? end : (k + 1) * group) - h.head;
      h.kv_heads = 1;
    }
    GA_TRY((backward ? run_backward : run_forward)(job, c, &h, at));
  }
  return GA_OK;
}

ga_status dist_tile_run(const tile_job *job) {
  const dist_problem *p = job->q.p;
  const dist_step *s = job->step;
  call calls[2];
  const int n = calls_of(p, dist_stretch_at(p->q, s->q_owner, s->q_stretch),
                         dist_stretch_at(p->kv, s->kv_owner, s->k_stretch), calls);
  for (int i = 0; i < n; i++) {
    const call_rows at = {.q = dist_view_row(&job->q, s->q_stretch) + calls[i].q,
                          .out = dist_view_row(&job->out, s->q_stretch) + calls[i].q,
                          .kv = dist_view_row(&job->kv, s->k_stretch) + calls[i].k,
                          .dkv = job->dkv.p ? dist_view_row(&job->dkv, s->k_stretch) + calls[i].k : 0};
    GA_TRY(run_heads(job, &calls[i], &at));
  }
  return GA_OK;
}

int64_t dist_tile_scratch(const ga_dist_plan *plan, int32_t rank) {
  int64_t most = 1;
  for (int64_t i = 0; i < plan->programs[rank].n_steps; i++) {
    const dist_step *s = &plan->programs[rank].steps[i];
    if (s->kind != DIST_TILE) continue;
    const int64_t rows = dist_stretch_at(plan->p.q, s->q_owner, s->q_stretch)->count * s->heads;
    most = ga_max_i64(most, rows * (plan->p.v_dim + 1));
  }
  return most;
}
