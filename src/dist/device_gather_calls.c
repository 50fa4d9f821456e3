/* Calls of a plan that gathers keys (gather.h): plain ones, and packed ones whose starts and lengths lie on the device
 * from the beginning, so that a run enqueues no copies for them. */
#include "base/mem.h"
#include "core/device.h"
#include "dist/device_gather.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"

enum { LISTS = 4 }; /* q_start, q_len, kv_start, kv_len */

/* --- making --- */

int64_t dist_gather_starts_bytes(const dist_problem *p, int32_t rank) {
  if (p->kv->documents == 1) return 0;
  if (p->splits_heads) return p->q->documents * LISTS * (int64_t)sizeof(int32_t);
  return dist_stretches(p->q, rank) * GATHER_CALLS_A_STRETCH * LISTS * (int64_t)sizeof(int32_t);
}

static void fill_starts(const gather_list *l, int32_t *starts) {
  for (int64_t i = 0; i < l->n_batches; i++) {
    const gather_batch *b = &l->batches[i];
    int32_t *const at = starts + b->first * LISTS;
    for (int64_t n = 0; n < b->n && b->n > 1; n++) {
      const gather_call *c = &l->calls[b->first + n];
      const int64_t of_call[LISTS] = {c->row, c->n_q, c->key, c->n_k};
      for (int k = 0; k < LISTS; k++) at[k * b->n + n] = (int32_t)of_call[k];
    }
  }
}

static ga_status upload_starts(dist_device *e) {
  dist_gather *x = e->gather;
  const int64_t bytes = dist_gather_starts_bytes(&e->plan->p, e->rank);
  void *host, *device;
  if (!bytes) return GA_OK;
  GA_REQUIRE(x->list.n_calls * LISTS * (int64_t)sizeof(int32_t) <= bytes, GA_ERR_INTERNAL,
             "dist: %lld calls of rank %d; room is for %lld bytes", (long long)x->list.n_calls, e->rank,
             (long long)bytes);
  GA_TRY(ga_buffer_alloc_zeroed(e->ctx, (size_t)bytes, "attention of ranks", &device));
  x->starts = device;
  GA_TRY(ga_mem_zalloc((size_t)bytes, 1, "calls of a rank", &host));
  fill_starts(&x->list, host);
  const ga_status status = ga_copy_to_device(e->ctx, device, host, (size_t)bytes, NULL);
  ga_mem_free(host);
  return status;
}

static ga_status alloc_numbers(int64_t n, int32_t **out) {
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)n + 1, sizeof **out, "stretches of a rank", &p));
  *out = p;
  return GA_OK;
}

/* A local call has all of its stretch, and so has its document on either side. */
static ga_status list_gathered(dist_device *e) {
  const dist_problem *p = &e->plan->p;
  dist_gather *x = e->gather;
  const int64_t n_q = dist_stretches(p->q, e->rank), n_kv = dist_stretches(p->kv, e->rank);
  void *is_local;
  GA_TRY(alloc_numbers(n_q, &x->q_gathered));
  GA_TRY(alloc_numbers(n_kv, &x->kv_gathered));
  GA_TRY(ga_mem_zalloc((size_t)(n_q + n_kv) + 1, 1, "stretches of a rank", &is_local));
  bool *const q = is_local, *const kv = q + n_q;
  for (int64_t i = 0; i < x->list.n_calls; i++) {
    const gather_call *c = &x->list.calls[i];
    if (!c->local) continue;
    q[c->stretch] = true;
    kv[dist_first_of_doc(p->kv, e->rank, dist_stretch_at(p->q, e->rank, c->stretch)->doc)] = true;
  }
  for (int32_t i = 0; i < n_q; i++)
    if (!q[i]) x->q_gathered[x->n_q_gathered++] = i;
  for (int32_t i = 0; i < n_kv; i++)
    if (!kv[i]) x->kv_gathered[x->n_kv_gathered++] = i;
  ga_mem_free(is_local);
  return GA_OK;
}

ga_status dist_gather_prepare_calls(dist_device *e) {
  dist_gather *x = e->gather;
  GA_TRY(dist_gather_list(&e->plan->p, e->rank, &x->list));
  for (int64_t i = 0; i < x->list.n_calls; i++) x->covered += x->list.calls[i].n_q;
  if (!e->plan->p.splits_heads) GA_TRY(list_gathered(e));
  return upload_starts(e);
}

/* --- one call --- */

typedef struct call_place {
  const gather_batch *b;
  const gather_call *c; /* its first */
  const group_heads *h;
  const gather_views *v;
  tile_device d;
  float *lse; /* scratch */
} call_place;

static bool is_packed_call(const call_place *at) { return at->b->n > 1; }
/* Where the call's tensors begin: packed calls count rows from the first of all. */
static int64_t row_of_call(const call_place *at) { return is_packed_call(at) ? 0 : at->c->row; }
static int64_t key_of_call(const call_place *at) { return is_packed_call(at) ? 0 : at->c->key; }

/* List k of a packed call. */
static const int32_t *starts_of(const dist_device *e, const call_place *at, int k) {
  return is_packed_call(at) ? e->gather->starts + at->b->first * LISTS + k * at->b->n : NULL;
}

static ga_attn_strides strides_of(const block_view *v, int part) {
  return (ga_attn_strides){
      .batch = v->rows * v->heads * v->dim[part], .token = (int64_t)v->heads * v->dim[part], .head = v->dim[part]};
}

static void *queries_of_call(const block_view *v, int part, const call_place *at) {
  return dist_row_at(v, part, row_of_call(at), at->h->q);
}

static void *keys_of_call(const block_view *v, int part, const call_place *at) {
  return dist_row_at(v, part, key_of_call(at), at->h->kv);
}

static uint32_t feature_flags(const dist_problem *p, const call_place *at) {
  return (at->c->causal ? (uint32_t)GA_ATTN_CAUSAL : 0u) | (p->flags & GA_DIST_SINKS ? (uint32_t)GA_ATTN_SINKS : 0u) |
         (p->flags & GA_DIST_ALIBI ? (uint32_t)GA_ATTN_ALIBI : 0u) |
         (is_packed_call(at) ? (uint32_t)(GA_ATTN_VARLEN | GA_ATTN_LENGTHS | GA_ATTN_KEEP_PADDING) : 0u);
}

/* Numbers of the call's heads, out of those of all; NULL where the plan has none. */
static const float *of_heads(const dist_device *e, uint32_t flag, const float *all, const group_heads *h) {
  return e->plan->p.flags & flag ? all + h->q : NULL;
}

/* LSE of the call's queries and heads lies as the call has it: in the view, else in the scratch. Packed calls have it
 * by tokens. */
static bool lse_is_in_place(const block_view *v, const call_place *at) {
  return is_packed_call(at) || at->c->n_q == v->rows || at->h->n_q == 1;
}

static float *lse_of_heads(const block_view *v, const call_place *at) {
  return v->lse + (at->h->q - v->head) * v->rows + row_of_call(at);
}

static float *lse_of_gather_call(const block_view *v, const call_place *at) {
  return lse_is_in_place(v, at) ? lse_of_heads(v, at) : at->lse;
}

static ga_status copy_lse(const block_view *v, const call_place *at, bool to_view) {
  ga_stream *const stream = at->d.stream;
  float *const own = lse_of_heads(v, at);
  const size_t packed = (size_t)at->c->n_q * sizeof *own, apart = (size_t)v->rows * sizeof *own;
  const ga_row_copy copy = {.dst = to_view ? own : at->lse,
                            .src = to_view ? at->lse : own,
                            .dst_pitch = to_view ? apart : packed,
                            .src_pitch = to_view ? packed : apart,
                            .width = packed,
                            .rows = (size_t)at->h->n_q};
  return stream->device->ops->copy_rows(stream, &copy);
}

static ga_status call_forward(dist_device *e, const call_place *at) {
  const dist_problem *p = &e->plan->p;
  const group_heads *h = at->h;
  const block_view *q = &at->v->q, *kv = &at->v->kv, *o = &at->v->out;
  bool due;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = at->b->n, d.max_q = at->b->max_q, d.max_kv = at->b->max_k, d.q_heads = h->n_q, d.kv_heads = h->n_kv;
  d.head_dim = p->head_dim, d.v_dim = p->v_dim, d.window = (int32_t)ga_min_i64(at->c->window, INT32_MAX);
  d.q_dtype = d.kv_dtype = d.o_dtype = p->dtype;
  d.flags = (uint32_t)GA_ATTN_LSE | feature_flags(p, at);
  d.softcap = p->softcap, d.scale = p->scale, d.lse_stride = is_packed_call(at) ? o->rows : 0;
  const ga_attn_io io = {.q = queries_of_call(q, 0, at),
                         .k = keys_of_call(kv, 0, at),
                         .v = keys_of_call(kv, 1, at),
                         .o = queries_of_call(o, 0, at),
                         .lse = lse_of_gather_call(o, at),
                         .sinks = of_heads(e, GA_DIST_SINKS, e->io->sinks, h),
                         .alibi = of_heads(e, GA_DIST_ALIBI, e->io->alibi, h),
                         .q_stride = strides_of(q, 0),
                         .k_stride = strides_of(kv, 0),
                         .v_stride = strides_of(kv, 1),
                         .o_stride = strides_of(o, 0),
                         .q_start = starts_of(e, at, 0),
                         .q_len = starts_of(e, at, 1),
                         .kv_start = starts_of(e, at, 2),
                         .kv_len = starts_of(e, at, 3),
                         .q_tokens = o->rows,
                         .kv_tokens = kv->rows};
  GA_TRY(dist_device_is_due(&at->d, &d, sizeof d, &due));
  if (!due) return GA_OK;
  GA_TRY(ga_attn(e->ctx, &d, &io, at->d.stream));
  return lse_is_in_place(o, at) ? GA_OK : copy_lse(o, at, true);
}

static ga_status call_backward(dist_device *e, const call_place *at) {
  const dist_problem *p = &e->plan->p;
  const group_heads *h = at->h;
  const block_view *g = &at->v->q, *kv = &at->v->kv, *dq = &at->v->out, *dkv = &at->v->dkv;
  bool due;
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.batch = at->b->n, d.max_q = at->b->max_q, d.max_kv = at->b->max_k, d.q_heads = h->n_q, d.kv_heads = h->n_kv;
  if (is_packed_call(at)) d.total_q = d.lse_stride = g->rows, d.total_kv = kv->rows;
  d.head_dim = p->head_dim, d.v_dim = p->v_dim, d.window = (int32_t)ga_min_i64(at->c->window, INT32_MAX);
  d.dtype = p->dtype, d.grad_dtype = dkv->dtype;
  d.flags = dist_order_flag(p) | feature_flags(p, at) | (at->c->adds ? (uint32_t)GA_ATTN_BWD_ADD_DKV : 0u);
  d.softcap = p->softcap, d.scale = p->scale;
  const ga_attn_bwd_io io = {.q = queries_of_call(g, 0, at),
                             .o = queries_of_call(g, 1, at),
                             .dout = queries_of_call(g, 2, at),
                             .k = keys_of_call(kv, 0, at),
                             .v = keys_of_call(kv, 1, at),
                             .lse = lse_of_gather_call(g, at),
                             .sinks = of_heads(e, GA_DIST_SINKS, e->io->sinks, h),
                             .dsinks = p->flags & GA_DIST_SINKS ? e->io->dsinks + h->q : NULL,
                             .alibi = of_heads(e, GA_DIST_ALIBI, e->io->alibi, h),
                             .dq = queries_of_call(dq, 0, at),
                             .dk = keys_of_call(dkv, 0, at),
                             .dv = keys_of_call(dkv, 1, at),
                             .q_stride = strides_of(g, 0),
                             .o_stride = strides_of(g, 1),
                             .dout_stride = strides_of(g, 2),
                             .k_stride = strides_of(kv, 0),
                             .v_stride = strides_of(kv, 1),
                             .dq_stride = strides_of(dq, 0),
                             .dk_stride = strides_of(dkv, 0),
                             .dv_stride = strides_of(dkv, 1),
                             .q_start = starts_of(e, at, 0),
                             .q_len = starts_of(e, at, 1),
                             .kv_start = starts_of(e, at, 2),
                             .kv_len = starts_of(e, at, 3)};
  GA_TRY(dist_device_is_due(&at->d, &d, sizeof d, &due));
  if (!due) return GA_OK;
  if (!lse_is_in_place(g, at)) GA_TRY(copy_lse(g, at, false));
  return ga_attn_bwd(e->ctx, &d, &io, at->d.stream);
}

/* --- all calls --- */

/* g: group of heads; -1 = all, and local calls. */
static ga_status run_batches(dist_device *e, int32_t g, const group_heads *h, const gather_views *v,
                             const tile_device *d, float *lse) {
  dist_gather *x = e->gather;
  for (int64_t i = 0; i < x->list.n_batches; i++) {
    const gather_batch *b = &x->list.batches[i];
    const call_place at = {.b = b, .c = &x->list.calls[b->first], .h = h, .v = v, .d = *d, .lse = lse};
    if (at.c->local != (g < 0)) continue;
    GA_TRY(dist_device_make_room(e, 2));
    GA_TRY(dist_span_begin(e->spans, d->stream, &(span_of){GA_DIST_WORK_ATTENTION, "", -1, g, 0}));
    GA_TRY((dist_is_backward(e) ? call_backward : call_forward)(e, &at));
    GA_TRY(dist_span_end(e->spans, d->stream));
    GA_TRY(dist_device_note(e, d->stream, DIST_COMPUTES));
  }
  return GA_OK;
}

/* Keys of all tokens, or sums of their gradients, which are f32. */
static block_view gathered_view(const dist_device *e, int32_t tensor) {
  const dist_problem *p = &e->plan->p;
  block_view v = dist_view_of_rows(p, tensor, p->kv->tokens, (dist_heads){0, p->kv_heads}, NULL);
  for (int c = 0; c < GATHER_PARTS; c++)
    v.part[c] = tensor == DIST_KV ? e->gather->keys[c] : (void *)e->gather->sums[c];
  if (tensor == DIST_DKV) v.dtype = GA_F32;
  return v;
}

/* Local calls read and write the caller's tensors, in their type. */
static gather_views views_of_local(const dist_device *e) {
  const dist_problem *p = &e->plan->p;
  return (gather_views){.q = dist_device_own(e, DIST_SLOT_Q),
                        .kv = dist_device_own(e, DIST_SLOT_KV),
                        .out = dist_caller_view(p, e->io, e->rank, DIST_SLOT_OUT),
                        .dkv = dist_caller_view(p, e->io, e->rank, DIST_SLOT_DKV)};
}

static gather_views views_of_group(const dist_device *e) {
  if (e->plan->p.splits_heads) return dist_split_views(e);
  return (gather_views){.q = dist_device_own(e, DIST_SLOT_Q),
                        .kv = gathered_view(e, DIST_KV),
                        .out = dist_device_own(e, DIST_SLOT_OUT),
                        .dkv = gathered_view(e, DIST_DKV)};
}

ga_status dist_gather_run_local(dist_device *e, bool rehearse) {
  const dist_problem *p = &e->plan->p;
  const group_heads all = {.n_kv = p->kv_heads, .n_q = p->q_heads};
  const gather_views v = views_of_local(e);
  const tile_device d = {.stream = e->compute, .rehearsal = rehearse ? &e->gather->shapes[0] : NULL};
  return run_batches(e, -1, &all, &v, &d, e->gather->lse[0]);
}

ga_status dist_gather_run_group(dist_device *e, int32_t g, bool rehearse) {
  dist_gather *x = e->gather;
  const group_heads h = dist_heads_of_group(e, g);
  const gather_views v = views_of_group(e);
  const tile_device d = {.stream = g % 2 ? x->second : e->compute, .rehearsal = rehearse ? &x->shapes[g % 2] : NULL};
  return run_batches(e, g, &h, &v, &d, x->lse[g % 2]);
}
