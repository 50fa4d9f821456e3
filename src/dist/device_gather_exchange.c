/* Plans of plain calls where devices do not write into each other's memory: for each group of heads one round of
 * messages brings inputs (gathered keys, or heads that are split), and one takes results to their owners. */
#include "base/mem.h"
#include "core/device.h"
#include "dist/device_gather.h"

/* A group's heads of a block that a step moves, packed. */
static block_view packed_heads(const dist_device *e, const dist_step *s, int32_t g, void *memory) {
  const dist_heads h = dist_heads_of_step(e, s, g);
  block_view v = dist_view_of_step(e->plan, s, memory);
  v.head = h.begin, v.heads = h.end - h.begin;
  dist_device_align(&v, memory);
  return v;
}

static size_t packed_heads_bytes(const dist_device *e, bool sends, bool results) {
  dist_gather *x = e->gather;
  size_t bytes = 0;
  for (int64_t i = 0; i < x->n_moves; i++) {
    if (!dist_gather_moves(x->moves[i], sends ? DIST_SEND : DIST_RECEIVE, results, -1)) continue;
    const block_view v = packed_heads(e, x->moves[i], 0, x); /* some address: an LSE counts where there is one */
    bytes += dist_device_extent(&v);
  }
  return bytes;
}

ga_status dist_gather_exchange_create(dist_device *e) {
  dist_gather *x = e->gather;
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)x->n_moves + 1, sizeof *x->messages, "messages of a group of heads", &p));
  x->messages = p;
  for (int send = 0; send < 2; send++) {
    const size_t inputs = packed_heads_bytes(e, send, false), results = packed_heads_bytes(e, send, true);
    GA_TRY(ga_buffer_alloc_zeroed(e->ctx, (inputs > results ? inputs : results) + 1, "attention of ranks", &p));
    x->packed[send] = p;
  }
  return GA_OK;
}

void dist_gather_exchange_destroy(dist_device *e) {
  dist_gather *x = e->gather;
  for (int send = 0; send < 2; send++) ga_buffer_free(e->ctx, x->packed[send]);
  ga_mem_free(x->messages);
}

/* Rows of gradients that a peer has sent go to their place in the window, which has all heads. */
static ga_status store_gradients(dist_device *e, const block_view *v, const dist_step *s, int64_t take) {
  const block_view to = dist_device_view(e->plan, s, dist_window_take(&e->w, e->rank, take));
  for (int c = 0; c < GATHER_PARTS; c++) {
    const size_t each = (size_t)(v->dim[c] * dist_dtype_bytes(v->dtype));
    const ga_row_copy copy = {.dst = dist_row_at(&to, c, 0, v->head),
                              .src = v->part[c],
                              .dst_pitch = each * (size_t)to.heads,
                              .src_pitch = each * (size_t)v->heads,
                              .width = each * (size_t)v->heads,
                              .rows = (size_t)v->rows};
    if (copy.width && copy.rows) GA_TRY(e->ctx->device->ops->copy_rows(e->copies, &copy));
  }
  return GA_OK;
}

static ga_status pack_heads(dist_device *e, const dist_step *s, const block_view *v) {
  dist_gather *x = e->gather;
  if (e->plan->p.splits_heads) return dist_split_pack(e, s, v);
  void *sums[GATHER_PARTS] = {x->sums[0], x->sums[1]};
  const group_heads h = {.kv = v->head, .n_kv = v->heads};
  const block_view own = dist_device_own(e, DIST_SLOT_KV);
  return v->tensor == DIST_KV ? dist_device_copy(e->copies, v, &own)
                              : dist_copy_heads(e->copies, v, true, sums, true, &h);
}

/* take: the how many-th block of gradients that comes. */
static ga_status unpack_heads(dist_device *e, const dist_step *s, const block_view *v, int64_t take) {
  const group_heads h = {.kv = v->head, .n_kv = v->heads};
  if (e->plan->p.splits_heads) return dist_split_unpack(e, s, v);
  return v->tensor == DIST_KV ? dist_copy_heads(e->copies, v, true, e->gather->keys, false, &h)
                              : store_gradients(e, v, s, take);
}

/* Keys that are sent lie in the rank's own tensor, gradients in the sums of all tokens. */
static ga_status exchange_heads(dist_device *e, int32_t g, bool results) {
  dist_gather *x = e->gather;
  char *at[2] = {x->packed[0], x->packed[1]};
  int64_t n = 0, taken = 0;
  const int64_t bytes = dist_gather_sent_bytes(e, results, -1);
  const char *const what = dist_gather_moved(e, results);
  GA_TRY(dist_span_begin(e->spans, e->copies, &(span_of){GA_DIST_WORK_COPY, what, -1, g, 0}));
  for (int64_t i = 0; i < x->n_moves; i++) {
    const dist_step *s = x->moves[i];
    const bool send = s->kind == DIST_SEND;
    if (s->kind == DIST_MERGE || dist_is_result(s->tensor) != results) continue;
    const block_view v = packed_heads(e, s, g, at[send]);
    x->messages[n] = (ga_link_message){s->peer, send, at[send], dist_device_extent(&v)};
    at[send] += x->messages[n++].bytes;
    if (send) GA_TRY(pack_heads(e, s, &v));
  }
  GA_TRY(dist_span_end(e->spans, e->copies));
  GA_TRY(dist_span_begin(e->spans, e->copies, &(span_of){GA_DIST_WORK_EXCHANGE, what, -1, g, bytes}));
  GA_TRY(dist_exchange_run(e->exchange, e->copies, x->messages, n));
  GA_TRY(dist_span_end(e->spans, e->copies));
  GA_TRY(dist_span_begin(e->spans, e->copies, &(span_of){GA_DIST_WORK_COPY, what, -1, g, 0}));
  at[0] = x->packed[0];
  for (int64_t i = 0; i < x->n_moves; i++) {
    const dist_step *s = x->moves[i];
    if (!dist_gather_moves(s, DIST_RECEIVE, results, -1)) continue;
    const block_view v = packed_heads(e, s, g, at[0]);
    at[0] += dist_device_extent(&v);
    GA_TRY(unpack_heads(e, s, &v, taken++));
  }
  GA_TRY(dist_span_end(e->spans, e->copies));
  return dist_device_note(e, e->copies, DIST_COPIES);
}

ga_status dist_gather_exchange_inputs(dist_device *e, int32_t g) { return exchange_heads(e, g, false); }

ga_status dist_gather_exchange_results(dist_device *e, int32_t g) {
  GA_TRY(dist_device_follow(e, e->copies, e->gather->returned[g], "attention"));
  return exchange_heads(e, g, true);
}
