/* Gathered keys and their gradients where devices do not write into each other's memory: for each group of heads one
 * round of messages, in which each rank sends to all that see its keys. */
#include "base/mem.h"
#include "core/device.h"
#include "dist/device_gather.h"

/* Heads of a block that a step moves, packed. */
static block_view packed_heads(const dist_device *e, const dist_step *s, const group_heads *h, void *memory) {
  block_view v = dist_view_of_step(e->plan, s, memory);
  v.head = h->kv, v.heads = h->n_kv;
  dist_device_align(&v, memory);
  return v;
}

static size_t packed_heads_bytes(const dist_device *e, bool sends, int32_t tensor) {
  const dist_gather *x = e->gather;
  const group_heads h = dist_heads_of_group(e, 0);
  size_t bytes = 0;
  for (int64_t i = 0; i < x->n_moves; i++) {
    if (x->moves[i]->kind != (sends ? DIST_SEND : DIST_RECEIVE) || x->moves[i]->tensor != tensor) continue;
    const block_view v = packed_heads(e, x->moves[i], &h, NULL);
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
    const size_t keys = packed_heads_bytes(e, send, DIST_KV), gradients = packed_heads_bytes(e, send, DIST_DKV);
    GA_TRY(ga_buffer_alloc_zeroed(e->ctx, (keys > gradients ? keys : gradients) + 1, "attention of ranks", &p));
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

static ga_status pack_heads(dist_device *e, const block_view *v, const group_heads *h) {
  dist_gather *x = e->gather;
  void *sums[GATHER_PARTS] = {x->sums[0], x->sums[1]};
  const block_view own = dist_device_own(e, DIST_SLOT_KV);
  return v->tensor == DIST_KV ? dist_device_copy(e->copies, v, &own)
                              : dist_copy_heads(e->copies, v, true, sums, true, h);
}

/* Keys that are sent lie in the rank's own tensor, gradients in the sums of all tokens. */
static ga_status exchange_heads(dist_device *e, int32_t g, int32_t tensor) {
  dist_gather *x = e->gather;
  const group_heads h = dist_heads_of_group(e, g);
  char *at[2] = {x->packed[0], x->packed[1]};
  int64_t n = 0, taken = 0;
  const int64_t bytes = dist_gather_sent_bytes(e, tensor, -1);
  const char *const what = dist_tensor_name(tensor);
  GA_TRY(dist_span_begin(e->spans, e->copies, &(span_of){GA_DIST_WORK_COPY, what, -1, g, 0}));
  for (int64_t i = 0; i < x->n_moves; i++) {
    const dist_step *s = x->moves[i];
    const bool send = s->kind == DIST_SEND;
    if (s->kind == DIST_MERGE || s->tensor != tensor) continue;
    const block_view v = packed_heads(e, s, &h, at[send]);
    x->messages[n] = (ga_link_message){s->peer, send, at[send], dist_device_extent(&v)};
    at[send] += x->messages[n++].bytes;
    if (send) GA_TRY(pack_heads(e, &v, &h));
  }
  GA_TRY(dist_span_end(e->spans, e->copies));
  GA_TRY(dist_span_begin(e->spans, e->copies, &(span_of){GA_DIST_WORK_EXCHANGE, what, -1, g, bytes}));
  GA_TRY(dist_exchange_run(e->exchange, e->copies, x->messages, n));
  GA_TRY(dist_span_end(e->spans, e->copies));
  GA_TRY(dist_span_begin(e->spans, e->copies, &(span_of){GA_DIST_WORK_COPY, what, -1, g, 0}));
  at[0] = x->packed[0];
  for (int64_t i = 0; i < x->n_moves; i++) {
    const dist_step *s = x->moves[i];
    if (s->kind != DIST_RECEIVE || s->tensor != tensor) continue;
    const block_view v = packed_heads(e, s, &h, at[0]);
    at[0] += dist_device_extent(&v);
    GA_TRY(tensor == DIST_KV ? dist_copy_heads(e->copies, &v, true, x->keys, false, &h)
                             : store_gradients(e, &v, s, taken++));
  }
  GA_TRY(dist_span_end(e->spans, e->copies));
  return dist_device_note(e, e->copies, DIST_COPIES);
}

ga_status dist_gather_exchange_keys(dist_device *e, int32_t g) { return exchange_heads(e, g, DIST_KV); }

ga_status dist_gather_exchange_gradients(dist_device *e, int32_t g) {
  GA_TRY(dist_device_follow(e, e->copies, e->gather->returned[g], "attention"));
  return exchange_heads(e, g, DIST_DKV);
}
