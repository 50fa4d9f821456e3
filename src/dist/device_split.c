/* Tensors of a plan whose ranks have all tokens of some heads (gather.h) on a device: what device_gather.c moves.
 *
 *   in the window   Q (backward Q, O, dO, LSE), K, V   all tokens, the rank's heads   others push, own rows are copied
 *                   O, LSE (backward dQ, dK, dV)       its rows, all heads            others push
 *   besides         O, LSE (backward dQ, dK, dV)       all tokens, the rank's heads   its calls write, and it pushes
 *
 * Results are whole, and so of the type of the caller's tensors. */
#include "base/mem.h"
#include "core/device.h"
#include "dist/device_gather.h"

/* --- making --- */

static int32_t result_of_whole(const dist_problem *p, int i) {
  return i ? DIST_DKV : p->flags & GA_DIST_BACKWARD ? DIST_DQ : DIST_O;
}

static int wholes_of(const dist_problem *p) { return p->flags & GA_DIST_BACKWARD ? 2 : 1; }

static int64_t bytes_of_whole(const dist_problem *p, int32_t rank, int i) {
  const block_view v = dist_split_view(p, rank, result_of_whole(p, i), NULL);
  return dist_view_bytes(&v);
}

int64_t dist_split_memory(const dist_problem *p, int32_t rank) {
  int64_t bytes = 0;
  for (int i = 0; i < wholes_of(p); i++) bytes += bytes_of_whole(p, rank, i);
  return bytes;
}

ga_status dist_split_create(dist_device *e) {
  const dist_problem *p = &e->plan->p;
  GA_TRY(ga_stream_create(e->ctx, &e->gather->taking));
  for (int32_t g = 0; g < e->gather->groups; g++) GA_TRY(ga_event_create(e->ctx, &e->gather->copied[g]));
  for (int i = 0; i < wholes_of(p); i++)
    GA_TRY(ga_buffer_alloc_zeroed(e->ctx, (size_t)bytes_of_whole(p, e->rank, i), "attention of ranks",
                                  &e->gather->whole[i]));
  return GA_OK;
}

void dist_split_destroy(dist_device *e) {
  ga_stream_destroy(e->gather->taking);
  for (int32_t g = 0; g < GATHER_MOST_GROUPS; g++) ga_event_destroy(e->gather->copied[g]);
  for (int i = 0; i < SPLIT_WHOLE; i++) ga_buffer_free(e->ctx, e->gather->whole[i]);
}

/* --- views --- */

static block_view whole_view(const dist_device *e, bool of_keys) {
  const dist_problem *p = &e->plan->p;
  return dist_split_view(p, e->rank, result_of_whole(p, of_keys), e->gather->whole[of_keys]);
}

gather_views dist_split_views(const dist_device *e) {
  return (gather_views){.q = dist_window_area(&e->w, e->rank, SPLIT_Q),
                        .kv = dist_window_area(&e->w, e->rank, SPLIT_KV),
                        .out = whole_view(e, false),
                        .dkv = dist_is_backward(e) ? whole_view(e, true) : (block_view){0}};
}

/* The rank's own tensor that a block of a step is of. */
static block_view caller_view_of(const dist_device *e, int32_t tensor) {
  const bool keys = dist_is_of_keys(tensor);
  const int32_t slot = dist_is_result(tensor) ? (keys ? DIST_SLOT_DKV : DIST_SLOT_OUT)
                       : keys                 ? DIST_SLOT_KV
                                              : DIST_SLOT_Q;
  return dist_caller_view(&e->plan->p, e->io, e->rank, slot);
}

/* Where the rank has what it sends. */
static block_view sent_view_of(const dist_device *e, int32_t tensor) {
  return dist_is_result(tensor) ? whole_view(e, dist_is_of_keys(tensor)) : caller_view_of(e, tensor);
}

/* Of a group, in a tensor of keys or of queries. */
static dist_heads heads_of_side(const dist_device *e, int32_t g, bool keys) {
  const group_heads h = dist_heads_of_group(e, g);
  return keys ? (dist_heads){h.kv, h.kv + h.n_kv} : (dist_heads){h.q, h.q + h.n_q};
}

static split_area area_of(int32_t tensor) {
  const bool keys = dist_is_of_keys(tensor);
  return dist_is_result(tensor) ? (keys ? SPLIT_DKV : SPLIT_OUT) : keys ? SPLIT_KV : SPLIT_Q;
}

/* --- copies --- */

/* How a view has rows of an owner's stretches: where the owner has them, by tokens, or one behind the other. */
typedef enum row_order { BY_OWNER, BY_TOKEN, PACKED } row_order;

typedef struct ordered_view {
  const block_view *v;
  row_order order;
} ordered_view;

/* Stretches of an owner; pieces NULL: all. */
typedef struct row_set {
  const ga_dist_layout *l;
  int32_t owner;
  const int32_t *pieces;
  int64_t n;
} row_set;

static row_set rows_of_step(const dist_device *e, const dist_step *s) {
  return (row_set){dist_layout_of(&e->plan->p, s->tensor), s->owner, e->plan->pieces + s->piece, s->pieces};
}

static row_set own_rows(const dist_device *e, int32_t tensor) {
  const ga_dist_layout *l = dist_layout_of(&e->plan->p, tensor);
  return (row_set){l, e->rank, NULL, dist_stretches(l, e->rank)};
}

static int64_t row_in_order(row_order order, const dist_stretch *s, int64_t so_far) {
  return order == BY_OWNER ? s->row : order == BY_TOKEN ? s->first : so_far;
}

typedef struct row_run {
  int64_t to, from, n;
} row_run;

static ga_status copy_neighbours(ga_stream *stream, const block_view *to, const block_view *from, dist_heads h,
                                 const row_run *r) {
  ga_status (*const copy)(ga_stream *, const ga_row_copy *) = stream->device->ops->copy_rows;
  const size_t heads = (size_t)(h.end - h.begin), n = (size_t)r->n;
  if (!n || !heads) return GA_OK;
  for (int c = 0; c < to->n_parts; c++) {
    const size_t each = (size_t)(to->dim[c] * dist_dtype_bytes(to->dtype));
    const ga_row_copy rows = {.dst = dist_row_at(to, c, r->to, h.begin),
                              .src = dist_row_at(from, c, r->from, h.begin),
                              .dst_pitch = each * (size_t)to->heads,
                              .src_pitch = each * (size_t)from->heads,
                              .width = each * heads,
                              .rows = n};
    GA_TRY(copy(stream, &rows));
  }
  if (!to->lse) return GA_OK;
  const ga_row_copy lse = {.dst = to->lse + (h.begin - to->head) * to->rows + r->to,
                           .src = from->lse + (h.begin - from->head) * from->rows + r->from,
                           .dst_pitch = (size_t)to->rows * sizeof *to->lse,
                           .src_pitch = (size_t)from->rows * sizeof *to->lse,
                           .width = n * sizeof *to->lse,
                           .rows = heads};
  return copy(stream, &lse);
}

/* Some heads of stretches; those that are neighbours on both sides are one copy. */
static ga_status copy_stretches(ga_stream *stream, const row_set *x, ordered_view to, ordered_view from, dist_heads h) {
  row_run run = {0};
  int64_t so_far = 0;
  for (int64_t i = 0; i < x->n; i++) {
    const dist_stretch *s = dist_stretch_at(x->l, x->owner, x->pieces ? x->pieces[i] : i);
    const row_run next = {row_in_order(to.order, s, so_far), row_in_order(from.order, s, so_far), s->count};
    so_far += s->count;
    if (run.n && next.to == run.to + run.n && next.from == run.from + run.n) {
      run.n += next.n;
      continue;
    }
    GA_TRY(copy_neighbours(stream, to.v, from.v, h, &run));
    run = next;
  }
  return copy_neighbours(stream, to.v, from.v, h, &run);
}

static ga_status begin_copy(dist_device *e, ga_stream *stream, int32_t tensor, int32_t g) {
  return dist_span_begin(e->spans, stream, &(span_of){GA_DIST_WORK_COPY, dist_tensor_name(tensor), -1, g, 0});
}

/* --- inputs --- */

/* Own rows of a group's inputs go to their places. */
static ga_status copy_own_inputs(dist_device *e, int32_t g) {
  const gather_views all = dist_split_views(e);
  for (int keys = 0; keys < 2; keys++) {
    const block_view *to = keys ? &all.kv : &all.q, own = caller_view_of(e, to->tensor);
    const row_set rows = own_rows(e, to->tensor);
    const dist_heads heads = heads_of_side(e, g, keys);
    GA_TRY(begin_copy(e, e->gather->local, to->tensor, g));
    GA_TRY(
        copy_stretches(e->gather->local, &rows, (ordered_view){to, BY_TOKEN}, (ordered_view){&own, BY_OWNER}, heads));
    GA_TRY(dist_span_end(e->spans, e->gather->local));
  }
  return ga_event_record(e->ctx, e->gather->copied[g], e->gather->local);
}

static ga_status push_heads(dist_device *e, const dist_step *s, int32_t g) {
  const bool result = dist_is_result(s->tensor);
  const block_view to = dist_window_area(&e->w, s->peer, area_of(s->tensor)), from = sent_view_of(e, s->tensor);
  const row_set rows = rows_of_step(e, s);
  const span_of push = {GA_DIST_WORK_PUSH, dist_tensor_name(s->tensor), s->peer, g, s->bytes / e->gather->groups};
  GA_TRY(dist_span_begin(e->spans, e->copies, &push));
  GA_TRY(copy_stretches(e->copies, &rows, (ordered_view){&to, result ? BY_OWNER : BY_TOKEN},
                        (ordered_view){&from, result ? BY_TOKEN : BY_OWNER}, dist_heads_of_step(e, s, g)));
  return dist_span_end(e->spans, e->copies);
}

/* Peers in turn from the next rank on, so that no two ranks push to the same one at a time. */
static ga_status push_blocks(dist_device *e, int32_t g, bool results) {
  const dist_gather *x = e->gather;
  for (int32_t n = 1; n < e->plan->p.ranks; n++) {
    const int32_t peer = (e->rank + n) % e->plan->p.ranks;
    bool any = false;
    for (int64_t i = 0; i < x->n_moves; i++) {
      if (!dist_gather_moves(x->moves[i], DIST_SEND, results, peer)) continue;
      GA_TRY(push_heads(e, x->moves[i], g));
      any = true;
    }
    uint32_t *const count = (results ? dist_window_ready : dist_window_arrived)(&e->w, peer, e->rank);
    if (any) GA_TRY(e->ctx->device->sharing->write_value(e->copies, count, (uint32_t)g + 1));
  }
  return dist_device_note(e, e->copies, DIST_COPIES);
}

ga_status dist_split_send_inputs(dist_device *e) {
  for (int32_t g = 0; g < e->gather->groups; g++) {
    GA_TRY(copy_own_inputs(e, g));
    if (!e->exchange) GA_TRY(push_blocks(e, g, false));
  }
  return GA_OK;
}

/* --- results --- */

static ga_status give_own_results(dist_device *e, int32_t g) {
  for (int keys = 0; keys < wholes_of(&e->plan->p); keys++) {
    const block_view from = whole_view(e, keys), to = caller_view_of(e, from.tensor);
    const row_set rows = own_rows(e, from.tensor);
    const dist_heads heads = heads_of_side(e, g, keys);
    GA_TRY(begin_copy(e, e->gather->local, from.tensor, g));
    GA_TRY(
        copy_stretches(e->gather->local, &rows, (ordered_view){&to, BY_OWNER}, (ordered_view){&from, BY_TOKEN}, heads));
    GA_TRY(dist_span_end(e->spans, e->gather->local));
  }
  return GA_OK;
}

/* From the window to the caller's tensors, as they come. A device copies within its memory by its multiprocessors, and
 * so behind the attention that runs there: results of own rows have another stream than those of peers. */
static ga_status take_results(dist_device *e, int32_t g) {
  const dist_gather *x = e->gather;
  for (int32_t r = 0; r < e->plan->p.ranks; r++) {
    bool waits = true;
    for (int64_t i = 0; i < x->n_moves; i++) {
      const dist_step *s = x->moves[i];
      if (!dist_gather_moves(s, DIST_RECEIVE, true, r)) continue;
      if (waits)
        GA_TRY(dist_device_wait(e, x->taking, dist_window_ready(&e->w, e->rank, r), (uint32_t)g + 1,
                                &(span_of){GA_DIST_WORK_WAIT, "results", r, g, 0}));
      waits = false;
      const block_view from = dist_window_area(&e->w, e->rank, area_of(s->tensor)), to = caller_view_of(e, s->tensor);
      const row_set rows = rows_of_step(e, s);
      GA_TRY(begin_copy(e, x->taking, s->tensor, g));
      GA_TRY(copy_stretches(x->taking, &rows, (ordered_view){&to, BY_OWNER}, (ordered_view){&from, BY_OWNER},
                            dist_heads_of_step(e, s, g)));
      GA_TRY(dist_span_end(e->spans, x->taking));
    }
  }
  return GA_OK;
}

ga_status dist_split_send_results(dist_device *e, int32_t g) {
  dist_gather *x = e->gather;
  GA_TRY(dist_device_follow(e, x->local, x->returned[g], "attention"));
  GA_TRY(give_own_results(e, g));
  if (e->exchange) return GA_OK;
  GA_TRY(dist_device_follow(e, e->copies, x->returned[g], "attention"));
  GA_TRY(push_blocks(e, g, true));
  return take_results(e, g);
}

/* --- messages of rounds --- */

ga_status dist_split_pack(dist_device *e, const dist_step *s, const block_view *packed) {
  const bool result = dist_is_result(s->tensor);
  const block_view from = sent_view_of(e, s->tensor);
  const row_set rows = rows_of_step(e, s);
  return copy_stretches(e->copies, &rows, (ordered_view){packed, PACKED},
                        (ordered_view){&from, result ? BY_TOKEN : BY_OWNER},
                        (dist_heads){packed->head, packed->head + packed->heads});
}

ga_status dist_split_unpack(dist_device *e, const dist_step *s, const block_view *packed) {
  const bool result = dist_is_result(s->tensor);
  const block_view to = result ? caller_view_of(e, s->tensor) : dist_window_area(&e->w, e->rank, area_of(s->tensor));
  const row_set rows = rows_of_step(e, s);
  return copy_stretches(e->copies, &rows, (ordered_view){&to, result ? BY_OWNER : BY_TOKEN},
                        (ordered_view){packed, PACKED}, (dist_heads){packed->head, packed->head + packed->heads});
}

/* --- rows of no call --- */

static ga_status clear_view(dist_device *e, const block_view *v) {
  const uint32_t minus_infinity = 0xff800000;
  for (int c = 0; c < v->n_parts; c++)
    GA_TRY(dist_device_zero(e, e->compute, v->part[c], v->rows * v->heads * v->dim[c] * dist_dtype_bytes(v->dtype)));
  if (!v->lse) return GA_OK;
  return e->ctx->device->sharing->fill(e->compute, v->lse, minus_infinity, (size_t)(v->rows * v->heads));
}

/* Calls have all rows of a result. */
static bool calls_write_all(const dist_device *e, const block_view *whole) {
  const gather_list *l = &e->gather->list;
  int64_t rows = 0;
  for (int64_t i = 0; i < l->n_calls; i++) rows += dist_is_of_keys(whole->tensor) ? l->calls[i].n_k : l->calls[i].n_q;
  return rows == whole->rows;
}

/* Each peer sends all rows of this rank. Keys that no query sees have zeros of a call as gradients, which need not be
 * sent. */
static bool peers_send_all(const dist_device *e, const block_view *own) {
  const dist_gather *x = e->gather;
  int64_t rows = 0;
  for (int64_t i = 0; i < x->n_moves; i++) {
    const dist_step *s = x->moves[i];
    if (!dist_gather_moves(s, DIST_RECEIVE, true, -1) || s->tensor != own->tensor) continue;
    const row_set sent = rows_of_step(e, s);
    for (int64_t k = 0; k < sent.n; k++) rows += dist_stretch_at(sent.l, sent.owner, sent.pieces[k])->count;
  }
  return rows == own->rows * (e->plan->p.ranks - 1);
}

/* What no call writes is zero, with an LSE of -infinity, and so is what no rank sends. */
ga_status dist_split_clear(dist_device *e) {
  for (int keys = 0; keys < wholes_of(&e->plan->p); keys++) {
    const block_view whole = whole_view(e, keys), own = caller_view_of(e, whole.tensor);
    const bool clears_whole = !calls_write_all(e, &whole), clears_own = !peers_send_all(e, &own);
    if (!clears_whole && !clears_own) continue;
    GA_TRY(dist_span_begin(e->spans, e->compute,
                           &(span_of){GA_DIST_WORK_CLEAR, dist_tensor_name(whole.tensor), -1, -1, 0}));
    if (clears_whole) GA_TRY(clear_view(e, &whole));
    if (clears_own) GA_TRY(clear_view(e, &own));
    GA_TRY(dist_span_end(e->spans, e->compute));
  }
  return GA_OK;
}
