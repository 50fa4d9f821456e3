/* Runs a plan that gathers keys on a device: gather.h says what it computes.
 *
 *   stream     forward, for each group of heads          backward, besides
 *   copies     push own K, V to each peer, count up      push dK, dV of a peer's rows to it, count up
 *   local      own K, V to their places, all heads, but for local documents
 *   compute    calls of local documents, all heads
 *   compute,   wait for local and for each peer's        then add up what the peers sent
 *   second     count, then the calls (groups in turn)
 *
 * Two counters for each pair of ranks, as everywhere: `arrived` counts groups of keys, `ready` groups of gradients. A
 * run begins and ends with all of them 0. What a rank writes into another's memory it writes between two meetings of
 * all ranks, so that nobody asks whether that is free.
 *
 * A run with the tensors of the run before is recorded and from then on replayed, where the device can: its more than
 * 100 copies, waits and launches take the host longer than short sequences take the device. */
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/device.h"
#include "dist/device_gather.h"
#include "ga/layer.h"

/* --- making --- */

/* Results of calls go to other ranks. */
static bool has_results(const dist_device *e) { return dist_is_backward(e) || e->plan->p.splits_heads; }

static ga_status alloc_floats(dist_device *e, int64_t n, float **out) {
  void *p = NULL;
  GA_TRY(ga_buffer_alloc_zeroed(e->ctx, (size_t)n * sizeof(float) + 1, "attention of ranks", &p));
  *out = p;
  return GA_OK;
}

/* Of all queries that a rank computes. */
static int64_t lse_floats(const dist_problem *p, int32_t rank) {
  return p->splits_heads ? p->q->tokens * (p->q_heads / p->ranks) : p->q->rows[rank] * p->q_heads;
}

static int64_t sums_floats(const dist_problem *p, int part) {
  return p->flags & GA_DIST_BACKWARD ? dist_gather_bytes(p, part, GA_F32) / (int64_t)sizeof(float) : 0;
}

int64_t dist_gather_memory(const dist_problem *p, int32_t rank) {
  int64_t floats = 2 * lse_floats(p, rank);
  if (p->splits_heads)
    return floats * (int64_t)sizeof(float) + dist_gather_starts_bytes(p, rank) + dist_split_memory(p, rank);
  for (int c = 0; c < GATHER_PARTS; c++) floats += sums_floats(p, c);
  return floats * (int64_t)sizeof(float) + dist_gather_starts_bytes(p, rank);
}

/* What becomes of a group's results. */
static ga_status make_results(dist_device *e) {
  dist_gather *x = e->gather;
  if (e->plan->p.splits_heads)
    GA_TRY(dist_split_create(e));
  else
    for (int c = 0; c < GATHER_PARTS; c++) GA_TRY(alloc_floats(e, sums_floats(&e->plan->p, c), &x->sums[c]));
  for (int32_t g = 0; g < x->groups; g++) GA_TRY(ga_event_create(e->ctx, &x->returned[g]));
  return GA_OK;
}

static ga_status list_moves(dist_device *e) {
  const dist_program *program = &e->plan->programs[e->rank];
  dist_gather *x = e->gather;
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)program->n_steps + 1, sizeof *x->moves, "steps of a rank", &p));
  x->moves = p;
  for (int64_t i = 0; i < program->n_steps; i++) {
    const dist_step *s = &program->steps[i];
    if (s->kind == DIST_SEND || s->kind == DIST_RECEIVE || s->kind == DIST_MERGE) x->moves[x->n_moves++] = s;
    if (s->kind == DIST_SEND) x->run_bytes += (uint64_t)s->bytes;
  }
  return GA_OK;
}

/* What a recording does may wait for all streams of its context, and so for those of a rank that waits for this one:
 * threads of one device do without. */
static ga_status find_may_record(dist_device *e, bool *out) {
  const int32_t ranks = e->plan->p.ranks;
  const int64_t pid = getpid();
  const uint64_t mine =
      ga_fnv64(ga_fnv64(GA_FNV64_START, &pid, sizeof pid), e->ctx->device->name, strlen(e->ctx->device->name));
  void *p;
  *out = e->ctx->device->graphs && !e->exchange; /* the host takes part in that */
  GA_TRY(ga_mem_zalloc((size_t)ranks, sizeof mine, "ranks", &p));
  const uint64_t *const all = p;
  const ga_status status = ga_comm_all_gather(e->comm, &mine, sizeof mine, p);
  for (int32_t r = 0; r < ranks && status == GA_OK; r++)
    if (r != e->rank && all[r] == mine) *out = false;
  ga_mem_free(p);
  return status;
}

ga_status dist_gather_create(dist_device *e) {
  const dist_problem *p = &e->plan->p;
  void *memory;
  GA_TRY(ga_mem_zalloc(1, sizeof(dist_gather), "an executor", &memory));
  dist_gather *x = e->gather = memory;
  x->groups = p->grid.groups;
  GA_TRY(ga_stream_create(e->ctx, &x->second));
  GA_TRY(ga_stream_create(e->ctx, &x->local));
  GA_TRY(dist_gather_prepare_calls(e));
  GA_TRY(list_moves(e));
  for (int c = 0; c < GATHER_PARTS && !p->splits_heads; c++) x->keys[c] = dist_window_keys(&e->w, e->rank, c);
  for (int i = 0; i < 2; i++) GA_TRY(alloc_floats(e, lse_floats(p, e->rank), &x->lse[i]));
  if (has_results(e)) GA_TRY(make_results(e));
  GA_TRY(find_may_record(e, &x->may_record));
  return e->exchange ? dist_gather_exchange_create(e) : GA_OK;
}

void dist_gather_destroy(dist_device *e) {
  dist_gather *x = e->gather;
  if (!x) return;
  dist_gather_exchange_destroy(e);
  dist_split_destroy(e);
  ga_graph_destroy(x->graph);
  ga_stream_destroy(x->second);
  ga_stream_destroy(x->local);
  for (int32_t g = 0; g < GATHER_MOST_GROUPS; g++) ga_event_destroy(x->returned[g]);
  for (int c = 0; c < GATHER_PARTS; c++) ga_buffer_free(e->ctx, x->sums[c]);
  for (int i = 0; i < 2; i++) ga_buffer_free(e->ctx, x->lse[i]);
  for (int i = 0; i < 2; i++) ga_mem_free(x->shapes[i].seen);
  dist_gather_free(&x->list);
  ga_buffer_free(e->ctx, x->starts);
  ga_mem_free(x->q_gathered);
  ga_mem_free(x->kv_gathered);
  ga_mem_free((void *)x->moves);
  ga_mem_free(x);
  e->gather = NULL;
}

/* For a group of heads: what each of up to `ranks` others is sent and waited for, the calls, and 4 waits for own
 * streams; 2 x 3 of an exchange. Besides: own copy, zeros, 3 waits at the end, sums. Where heads are split, each move
 * of a group is a span, and so are 4 own copies. */
int64_t dist_gather_most_spans(const dist_device *e) {
  const dist_gather *x = e->gather;
  const int64_t ranks = e->plan->p.ranks, calls = x->list.n_batches;
  const int64_t split = e->plan->p.splits_heads ? x->n_moves + 4 : 0;
  return x->groups * (3 * ranks + calls + 4 + 6 + split) + calls + ranks + x->n_moves + 6;
}

void dist_gather_name_streams(const dist_device *e) {
  dist_spans_name(e->timeline, e->gather->second, "second");
  dist_spans_name(e->timeline, e->gather->local, "local");
  if (e->gather->taking) dist_spans_name(e->timeline, e->gather->taking, "results");
}

/* --- copies --- */

/* Rows of a view that lie one behind the other there and in the gathered keys. */
typedef struct key_run {
  int64_t row, key, n;
} key_run;

/* The next run from piece *i on; false when there is none. Rows of `packed` views lie one behind the other, else they
 * are the owner's own. */
static bool next_key_run(const block_view *v, bool packed, int64_t *i, key_run *r) {
  if (*i == 0) *r = (key_run){0};
  const int64_t behind = r->row + r->n;
  r->n = 0;
  for (; *i < v->n_pieces; ++*i) {
    const dist_stretch *s = dist_stretch_at(v->p->kv, v->owner, v->pieces ? v->pieces[*i] : *i);
    const int64_t row = packed ? behind + r->n : s->row;
    if (r->n && (s->first != r->key + r->n || row != r->row + r->n)) break;
    if (!r->n) r->key = s->first, r->row = row;
    r->n += s->count;
  }
  return r->n > 0;
}

/* Own rows of keys, or of their gradients, but for local documents. */
static block_view own_gathered(const dist_device *e, int32_t slot) {
  block_view v = dist_caller_view(&e->plan->p, e->io, e->rank, slot);
  v.pieces = e->gather->kv_gathered, v.n_pieces = e->gather->n_kv_gathered;
  return v;
}

/* The next own rows of queries, but for local documents, from stretch *i on; false when there are none. */
static bool next_gathered_rows(const dist_device *e, int64_t *i, int64_t *row, int64_t *n) {
  const dist_gather *x = e->gather;
  *n = 0;
  for (; *i < x->n_q_gathered; ++*i) {
    const dist_stretch *s = dist_stretch_at(e->plan->p.q, e->rank, x->q_gathered[*i]);
    if (*n && s->row != *row + *n) break;
    if (!*n) *row = s->row;
    *n += s->count;
  }
  return *n > 0;
}

ga_status dist_copy_heads(ga_stream *stream, const block_view *v, bool packed, void *const all[GATHER_PARTS],
                          bool to_view, const group_heads *h) {
  key_run r;
  for (int64_t i = 0; next_key_run(v, packed, &i, &r);)
    for (int c = 0; c < GATHER_PARTS; c++) {
      const size_t each = (size_t)(v->dim[c] * dist_dtype_bytes(v->dtype)), pitch = each * (size_t)v->heads,
                   all_pitch = each * (size_t)v->p->kv_heads;
      char *const gathered = (char *)all[c] + (size_t)r.key * all_pitch + (size_t)h->kv * each;
      void *const row = dist_row_at(v, c, r.row, h->kv);
      const ga_row_copy copy = {.dst = to_view ? row : gathered,
                                .src = to_view ? gathered : row,
                                .dst_pitch = to_view ? pitch : all_pitch,
                                .src_pitch = to_view ? all_pitch : pitch,
                                .width = each * (size_t)h->n_kv,
                                .rows = (size_t)r.n};
      if (copy.width) GA_TRY(stream->device->ops->copy_rows(stream, &copy));
    }
  return GA_OK;
}

static ga_status push_keys_of_step(dist_device *e, const dist_step *s, const group_heads *h) {
  void *all[GATHER_PARTS];
  block_view own = dist_device_own(e, DIST_SLOT_KV);
  const block_view sent = dist_view_of_step(e->plan, s, NULL);
  own.pieces = sent.pieces, own.n_pieces = sent.n_pieces;
  for (int c = 0; c < GATHER_PARTS; c++) all[c] = dist_window_keys(&e->w, s->peer, c);
  return dist_copy_heads(e->copies, &own, false, all, false, h);
}

static bool has_moves(const dist_device *e, int32_t kind, bool results, int32_t peer) {
  const dist_gather *x = e->gather;
  for (int64_t i = 0; i < x->n_moves; i++)
    if (dist_gather_moves(x->moves[i], kind, results, peer)) return true;
  return false;
}

int64_t dist_gather_sent_bytes(const dist_device *e, bool results, int32_t peer) {
  const dist_gather *x = e->gather;
  int64_t bytes = 0;
  for (int64_t i = 0; i < x->n_moves; i++)
    if (dist_gather_moves(x->moves[i], DIST_SEND, results, peer)) bytes += x->moves[i]->bytes;
  return bytes / x->groups; /* which have as many heads each */
}

static ga_status begin_push(dist_device *e, bool results, int32_t peer, int32_t g) {
  const span_of s = {GA_DIST_WORK_PUSH, dist_tensor_name(results ? DIST_DKV : DIST_KV), peer, g,
                     dist_gather_sent_bytes(e, results, peer)};
  return dist_span_begin(e->spans, e->copies, &s);
}

/* Peers in turn from the next rank on, so that no two ranks push to the same one at a time. */
static ga_status push_keys(dist_device *e, int32_t g) {
  const dist_gather *x = e->gather;
  const group_heads h = dist_heads_of_group(e, g);
  for (int32_t n = 1; n < e->plan->p.ranks; n++) {
    const int32_t peer = (e->rank + n) % e->plan->p.ranks;
    if (!has_moves(e, DIST_SEND, false, peer)) continue;
    GA_TRY(begin_push(e, false, peer, g));
    for (int64_t i = 0; i < x->n_moves; i++)
      if (dist_gather_moves(x->moves[i], DIST_SEND, false, peer)) GA_TRY(push_keys_of_step(e, x->moves[i], &h));
    GA_TRY(e->ctx->device->sharing->write_value(e->copies, dist_window_arrived(&e->w, peer, e->rank), (uint32_t)g + 1));
    GA_TRY(dist_span_end(e->spans, e->copies));
  }
  return dist_device_note(e, e->copies, DIST_COPIES);
}

/* dK, dV of a peer's rows go to its slot, which the plan gives to them. */
static ga_status push_gradients(dist_device *e, int32_t g) {
  const dist_gather *x = e->gather;
  const group_heads h = dist_heads_of_group(e, g);
  void *all[GATHER_PARTS] = {e->gather->sums[0], e->gather->sums[1]};
  GA_TRY(dist_device_follow(e, e->copies, e->gather->returned[g], "attention"));
  for (int32_t n = 1; n < e->plan->p.ranks; n++) {
    const int32_t peer = (e->rank + n) % e->plan->p.ranks;
    window_side *side = &e->w.sides[peer];
    int64_t taken = 0;
    if (!has_moves(e, DIST_SEND, true, peer)) continue;
    GA_TRY(begin_push(e, true, peer, g));
    for (int64_t i = 0; i < x->n_moves; i++) {
      if (!dist_gather_moves(x->moves[i], DIST_SEND, true, peer)) continue;
      GA_REQUIRE(taken < side->n_takes, GA_ERR_INTERNAL,
                 "dist: rank %d takes %lld gradients of rank %d; one more is sent", peer, (long long)side->n_takes,
                 e->rank);
      const dist_step *take = side->takes[taken];
      const block_view to = dist_device_view(e->plan, take, dist_window_take(&e->w, peer, taken++));
      GA_TRY(dist_copy_heads(e->copies, &to, true, all, true, &h));
    }
    GA_TRY(e->ctx->device->sharing->write_value(e->copies, dist_window_ready(&e->w, peer, e->rank), (uint32_t)g + 1));
    GA_TRY(dist_span_end(e->spans, e->copies));
  }
  return dist_device_note(e, e->copies, DIST_COPIES);
}

/* --- a group of heads --- */

static ga_status await_inputs(dist_device *e, int32_t g, ga_stream *stream) {
  for (int32_t r = 0; r < e->plan->p.ranks; r++)
    if (has_moves(e, DIST_RECEIVE, false, r))
      GA_TRY(dist_device_wait(e, stream, dist_window_arrived(&e->w, e->rank, r), (uint32_t)g + 1,
                              &(span_of){GA_DIST_WORK_WAIT, dist_gather_moved(e, false), r, g, 0}));
  return GA_OK;
}

static ga_status push_inputs(dist_device *e, int32_t g) {
  if (e->exchange) return dist_gather_exchange_inputs(e, g);
  return e->plan->p.splits_heads ? GA_OK : push_keys(e, g);
}

static ga_status return_results(dist_device *e, int32_t g) {
  const bool splits = e->plan->p.splits_heads;
  if (splits) GA_TRY(dist_split_send_results(e, g));
  if (e->exchange) return dist_gather_exchange_results(e, g);
  return splits ? GA_OK : push_gradients(e, g);
}

/* An exchange takes the host's time: a group's calls are enqueued before the results of the one before are sent. */
static ga_status run_head_group(dist_device *e, int32_t g) {
  dist_gather *x = e->gather;
  ga_stream *const stream = g % 2 ? x->second : e->compute;
  const bool splits = e->plan->p.splits_heads;
  GA_TRY(push_inputs(e, g));
  if (splits) GA_TRY(dist_device_follow(e, stream, x->copied[g], "own copy"));
  if (!splits && g < 2) GA_TRY(dist_device_join(e, stream, x->local, "own copy"));
  if (g > 0 && has_results(e) && !e->exchange) GA_TRY(return_results(e, g - 1));
  GA_TRY(e->exchange ? dist_device_join(e, stream, e->copies, "copies") : await_inputs(e, g, stream));
  GA_TRY(dist_gather_run_group(e, g, false));
  if (!has_results(e)) return GA_OK;
  GA_TRY(ga_event_record(e->ctx, x->returned[g], stream));
  return g > 0 && e->exchange ? return_results(e, g - 1) : GA_OK;
}

/* --- gradients of own keys --- */

/* What a peer has sent is added in the order that the plan numbers. */
static ga_status add_sent_gradients(dist_device *e, const block_view *from, const tile_device *d) {
  const dist_problem *p = &e->plan->p;
  key_run r;
  for (int64_t i = 0; next_key_run(from, true, &i, &r);)
    for (int c = 0; c < GATHER_PARTS; c++) {
      ga_add_desc a = GA_ADD_DESC_INIT;
      bool due;
      a.rows = r.n, a.width = (int64_t)p->kv_heads * dist_gather_dim(p, c);
      a.x_stride = a.y_stride = a.b_stride = a.width;
      const ga_add_io io = {
          .x = dist_sum_at(e, c, r.key, 0), .b = dist_row_at(from, c, r.row, 0), .y = dist_sum_at(e, c, r.key, 0)};
      GA_TRY(dist_device_is_due(d, &a, sizeof a, &due));
      if (due) GA_TRY(ga_add(e->ctx, &a, &io, d->stream));
    }
  return GA_OK;
}

static ga_status take_gradients(dist_device *e, const tile_device *d) {
  const dist_gather *x = e->gather;
  int64_t taken = 0;
  for (int32_t r = 0; r < e->plan->p.ranks && !d->rehearsal && !e->exchange; r++)
    if (has_moves(e, DIST_RECEIVE, true, r))
      GA_TRY(dist_device_wait(e, e->compute, dist_window_ready(&e->w, e->rank, r), (uint32_t)e->gather->groups,
                              &(span_of){GA_DIST_WORK_WAIT, dist_gather_moved(e, true), r, -1, 0}));
  for (int64_t i = 0; i < x->n_moves; i++) {
    const dist_step *s = x->moves[i];
    if (dist_gather_moves(s, DIST_RECEIVE, true, -1)) {
      e->slots[s->slot].block = s;
      e->slots[s->slot].memory = dist_window_take(&e->w, e->rank, taken++);
    }
    if (!dist_gather_moves(s, DIST_MERGE, true, -1)) continue;
    const block_view from = dist_device_view(e->plan, e->slots[s->from].block, e->slots[s->from].memory);
    GA_TRY(dist_span_begin(e->spans, d->stream, &(span_of){GA_DIST_WORK_MERGE, dist_tensor_name(DIST_DKV), -1, -1, 0}));
    GA_TRY(add_sent_gradients(e, &from, d));
    GA_TRY(dist_span_end(e->spans, d->stream));
  }
  return GA_OK;
}

static ga_status round_sums(dist_device *e, int64_t rows, int64_t width, const float *from, void *to,
                            const tile_device *d) {
  ga_convert_desc x = GA_CONVERT_DESC_INIT;
  bool due;
  const size_t pitch = (size_t)width * sizeof *from;
  const ga_row_copy copy = {to, from, pitch, pitch, pitch, (size_t)rows};
  if (e->plan->p.dtype == GA_F32) return pitch && rows ? d->stream->device->ops->copy_rows(d->stream, &copy) : GA_OK;
  x.rows = rows, x.width = width, x.x_dtype = GA_F32, x.y_dtype = e->plan->p.dtype;
  const ga_convert_io io = {.x = from, .y = to};
  GA_TRY(dist_device_is_due(d, &x, sizeof x, &due));
  return due && rows ? ga_convert(e->ctx, &x, &io, d->stream) : GA_OK;
}

static ga_status give_gradients(dist_device *e, const tile_device *d) {
  const dist_problem *p = &e->plan->p;
  const block_view dkv = own_gathered(e, DIST_SLOT_DKV), dq = dist_caller_view(p, e->io, e->rank, DIST_SLOT_OUT),
                   sums = dist_device_own(e, DIST_SLOT_OUT);
  key_run r;
  GA_TRY(dist_span_begin(e->spans, d->stream, &(span_of){GA_DIST_WORK_CONVERT, "dQ,dKV", -1, -1, 0}));
  for (int64_t i = 0, row, n; sums.part[0] != dq.part[0] && next_gathered_rows(e, &i, &row, &n);)
    GA_TRY(
        round_sums(e, n, (int64_t)dq.heads * dq.dim[0], dist_row_at(&sums, 0, row, 0), dist_row_at(&dq, 0, row, 0), d));
  for (int64_t i = 0; next_key_run(&dkv, false, &i, &r);)
    for (int c = 0; c < GATHER_PARTS; c++)
      GA_TRY(round_sums(e, r.n, (int64_t)dkv.heads * dkv.dim[c], dist_sum_at(e, c, r.key, 0),
                        dist_row_at(&dkv, c, r.row, 0), d));
  return dist_span_end(e->spans, d->stream);
}

/* --- a run --- */

static ga_status zero_sums(dist_device *e, int64_t from, int64_t to) {
  for (int c = 0; c < GATHER_PARTS; c++) {
    const int64_t row = (int64_t)e->plan->p.kv_heads * dist_gather_dim(&e->plan->p, c);
    GA_TRY(dist_device_zero(e, e->compute, dist_sum_at(e, c, from, 0), (to - from) * row * (int64_t)sizeof(float)));
  }
  return GA_OK;
}

/* What calls add to, and what they leave out. */
static ga_status clear_gradients(dist_device *e) {
  const dist_problem *p = &e->plan->p;
  const gather_list *l = &e->gather->list;
  const block_view dq = dist_device_own(e, DIST_SLOT_OUT);
  const int64_t row = dq.heads * dq.dim[0] * dist_dtype_bytes(dq.dtype);
  if (!l->n_q_zeros && !l->n_kv_zeros && !l->sink_zeros) return GA_OK;
  GA_TRY(dist_span_begin(e->spans, e->compute, &(span_of){GA_DIST_WORK_CLEAR, "dQ,dKV", -1, -1, 0}));
  for (int64_t i = 0; i < l->n_q_zeros; i++) {
    const dist_rows *z = &l->q_zeros[i];
    GA_TRY(dist_device_zero(e, e->compute, dist_row_at(&dq, 0, z->from, 0), (z->to - z->from) * row));
  }
  for (int64_t i = 0; i < l->n_kv_zeros; i++) GA_TRY(zero_sums(e, l->kv_zeros[i].from, l->kv_zeros[i].to));
  if (l->sink_zeros) GA_TRY(dist_device_zero(e, e->compute, e->io->dsinks, p->q_heads * (int64_t)sizeof(float)));
  return dist_span_end(e->spans, e->compute);
}

/* A query that no call has is left with O = 0, LSE = -infinity. */
static ga_status clear_results(dist_device *e) {
  const uint32_t minus_infinity = 0xff800000;
  const span_of clear = {GA_DIST_WORK_CLEAR, dist_tensor_name(DIST_O), -1, -1, 0};
  if (e->plan->p.splits_heads) return dist_split_clear(e);
  if (dist_is_backward(e)) return clear_gradients(e);
  const block_view o = dist_caller_view(&e->plan->p, e->io, e->rank, DIST_SLOT_OUT);
  if (e->gather->covered == o.rows) return GA_OK;
  GA_TRY(dist_span_begin(e->spans, e->compute, &clear));
  GA_TRY(dist_device_zero(e, e->compute, o.part[0], o.rows * o.heads * o.dim[0] * dist_dtype_bytes(o.dtype)));
  GA_TRY(e->ctx->device->sharing->fill(e->compute, o.lse, minus_infinity, (size_t)(o.rows * o.heads)));
  return dist_span_end(e->spans, e->compute);
}

/* Nobody counts up before the next run, which begins when all ranks have met. */
static ga_status reset_counters(dist_device *e) {
  ga_status (*const write)(ga_stream *, uint32_t *, uint32_t) = e->ctx->device->sharing->write_value;
  if (e->exchange) return GA_OK;
  for (int32_t r = 0; r < e->plan->p.ranks; r++) {
    if (has_moves(e, DIST_RECEIVE, false, r)) GA_TRY(write(e->compute, dist_window_arrived(&e->w, e->rank, r), 0));
    if (has_moves(e, DIST_RECEIVE, true, r)) GA_TRY(write(e->compute, dist_window_ready(&e->w, e->rank, r), 0));
  }
  return GA_OK;
}

ga_status dist_gather_rehearse(dist_device *e) {
  dist_gather *x = e->gather;
  const tile_device d = {.stream = e->compute, .rehearsal = &x->shapes[0]};
  GA_TRY(dist_device_order(e, x->second, e->compute));
  GA_TRY(dist_gather_run_local(e, true));
  for (int32_t g = 0; g < x->groups; g++) GA_TRY(dist_gather_run_group(e, g, true));
  GA_TRY(dist_device_order(e, e->compute, x->second));
  if (!dist_is_backward(e) || e->plan->p.splits_heads) return GA_OK;
  GA_TRY(take_gradients(e, &d));
  return give_gradients(e, &d);
}

static ga_status enqueue_run(dist_device *e) {
  dist_gather *x = e->gather;
  const tile_device d = {.stream = e->compute};
  ga_stream *const others[] = {x->local, e->copies, x->second, x->taking};
  static const char *const waits[] = {"own copy", "copies", "attention", "results"};
  const group_heads all = {.n_kv = e->plan->p.kv_heads};
  const block_view own = own_gathered(e, DIST_SLOT_KV);
  const bool splits = e->plan->p.splits_heads;
  if (e->spans) dist_spans_clear(e->spans, e->is_recording);
  GA_TRY(dist_device_order(e, x->local, e->compute));
  GA_TRY(dist_device_order(e, e->copies, e->compute));
  if (!splits) {
    GA_TRY(dist_span_begin(e->spans, x->local, &(span_of){GA_DIST_WORK_COPY, dist_tensor_name(DIST_KV), -1, -1, 0}));
    GA_TRY(dist_copy_heads(x->local, &own, false, x->keys, false, &all));
    GA_TRY(dist_span_end(e->spans, x->local));
  }
  GA_TRY(clear_results(e));
  GA_TRY(dist_gather_run_local(e, false));
  GA_TRY(dist_device_order(e, x->second, e->compute));
  if (splits) {
    GA_TRY(dist_device_order(e, x->taking, e->compute));
    GA_TRY(dist_split_send_inputs(e));
  }
  for (int32_t g = 0; g < x->groups; g++) GA_TRY(run_head_group(e, g));
  if (has_results(e)) GA_TRY(return_results(e, x->groups - 1));
  for (size_t i = 0; i < (splits ? 4 : 3); i++) GA_TRY(dist_device_join(e, e->compute, others[i], waits[i]));
  if (dist_is_backward(e) && !splits) {
    GA_TRY(take_gradients(e, &d));
    GA_TRY(give_gradients(e, &d));
  }
  return reset_counters(e);
}

/* A device that cannot record runs without, from then on; what else goes wrong meets the run that follows, too. */
static void record_run(dist_device *e) {
  const ga_graphs *graphs = e->ctx->device->graphs;
  dist_gather *x = e->gather;
  x->may_record = false;
  if (graphs->begin(e->compute) != GA_OK) return;
  e->is_recording = true;
  const ga_status status = enqueue_run(e), ended = graphs->end(e->compute, &x->graph);
  e->is_recording = false;
  if (x->graph) x->graph->ctx = e->ctx;
  x->may_record = status == GA_OK && ended == GA_OK;
  if (x->may_record) return;
  ga_graph_destroy(x->graph);
  x->graph = NULL;
}

/* What others' counts come to in a run: what lets go of streams that wait for a rank that has failed. */
static void set_counts_due(dist_device *e) {
  for (int32_t r = 0; r < e->plan->p.ranks; r++) e->w.sides[r].given = e->w.sides[r].sent = (uint32_t)e->gather->groups;
}

ga_status dist_gather_enqueue(dist_device *e) {
  dist_gather *x = e->gather;
  const bool again = !memcmp(&x->last, e->io, sizeof x->last);
  if (!again) {
    ga_graph_destroy(x->graph);
    x->graph = NULL;
    x->last = *e->io;
  }
  set_counts_due(e);
  if (again && !x->graph && x->may_record) record_run(e);
  if (e->spans) GA_TRY(dist_spans_start(e->spans, e->compute));
  GA_TRY(x->graph ? e->ctx->device->graphs->launch(x->graph, e->compute) : enqueue_run(e));
  e->sent_bytes += x->run_bytes;
  return GA_OK;
}
