/* Runs a plan on a device. The host enqueues a rank's steps and waits once, at the end: one stream computes, one
 * copies.
 *
 * A RECEIVE tells the sender's window that a slot is free, behind the work that used it. A SEND waits for that on the
 * stream of copies, writes the block into the receiver's slot, and then the count of its messages into the receiver's
 * window. A WAIT is a wait of the computing stream for that count. Neither stream needs the host meanwhile.
 *
 * Where devices do not write into each other's memory, messages go in rounds instead: device_rounds.c.
 *
 * While a stream waits for a value, a driver may hold up the first launch of a kernel, frees and loading of modules. So
 * a first run is rehearsed: each op of its shapes is launched once before any stream waits. */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "dist/device.h"
#include "dist/gather.h"

uint64_t dist_device_sent(const dist_device *e) { return e->sent_bytes; }

/* --- making --- */

static ga_status check_device_problem(const dist_problem *p, const ga_ctx *ctx) {
  const char *name = ctx->device->name;
  const bool is_host = ga_device_works_in_calls(ctx->device), plain = dist_is_plain(p);
  GA_REQUIRE(ctx->device->sharing, GA_ERR_UNSUPPORTED, "dist: %s has no values that streams wait for", name);
  GA_REQUIRE(plain || !(p->flags & (GA_DIST_SINKS | GA_DIST_ALIBI)), GA_ERR_UNSUPPORTED,
             "dist: plans with sinks or ALiBi run on a cpu context, or gather keys (llama3; ALiBi: or ulysses); this "
             "one is of %s",
             name);
  GA_REQUIRE(!(p->flags & GA_DIST_ALIBI) || p->flags & GA_DIST_CAUSAL, GA_ERR_UNSUPPORTED,
             "dist: ALiBi without a causal mask runs on a cpu context; this one is of %s", name);
  GA_REQUIRE(p->partial_dtype == GA_F32, GA_ERR_UNSUPPORTED, "dist: partial_dtype is %s; on %s it must be f32",
             ga_dtype_name((ga_dtype)p->partial_dtype), name);
  GA_REQUIRE(
      is_host || plain || p->dtype != GA_F32, GA_ERR_UNSUPPORTED,
      "dist: dtype is f32; allowed on %s: f16, bf16, and f32 where keys are gathered (llama3) or heads split (ulysses)",
      name);
  return GA_OK;
}

/* Of an own tensor whose sums have another type than the caller's tensor; 0: they are in that. */
static int64_t own_sums_bytes(const dist_problem *p, int32_t rank, int32_t slot) {
  const bool backward = p->flags & GA_DIST_BACKWARD, gathers = dist_gathers(p);
  if (p->partial_dtype == p->dtype || p->splits_heads) return 0;
  if (slot == DIST_SLOT_OUT && (backward || !gathers))
    return dist_device_bytes(p->q->rows[rank] * p->q_heads * (backward ? p->head_dim : p->v_dim) * 4);
  if (slot == DIST_SLOT_DKV && backward && !gathers)
    return dist_device_bytes(p->kv->rows[rank] * p->kv_heads * ((int64_t)p->head_dim + p->v_dim) * 4);
  return 0;
}

static ga_status make_own_sums(dist_device *e) {
  for (int32_t slot = DIST_SLOT_OUT; slot < DIST_OWN_SLOTS; slot++) {
    const int64_t bytes = own_sums_bytes(&e->plan->p, e->rank, slot);
    if (bytes) GA_TRY(ga_buffer_alloc_zeroed(e->ctx, (size_t)bytes, "attention of ranks", &e->slots[slot].memory));
  }
  return GA_OK;
}

int64_t dist_device_memory(const ga_dist_plan *plan, int32_t rank) {
  int64_t bytes = dist_window_bytes(plan, rank);
  for (int32_t slot = DIST_SLOT_OUT; slot < DIST_OWN_SLOTS; slot++) bytes += own_sums_bytes(&plan->p, rank, slot);
  return bytes + (dist_is_plain(&plan->p) ? dist_gather_memory(&plan->p, rank)
                                          : dist_device_scratch(plan, rank) * (int64_t)sizeof(float));
}

/* Spans that a step begins at most, its waits included. */
static int64_t most_spans_of_step(const dist_problem *p, const dist_step *s) {
  switch (s->kind) {
  case DIST_TILE: return 2 * dist_step_most_calls(p, s);
  case DIST_SEND: return 3;
  default: return 1;
  }
}

static ga_status make_timeline(dist_device *e) {
  const dist_program *g = &e->plan->programs[e->rank];
  int64_t most = 1; /* results */
  for (int64_t i = 0; i < g->n_steps && !e->gather; i++) most += most_spans_of_step(&e->plan->p, &g->steps[i]);
  if (e->rounds) most += DIST_ROUND_SPANS * (int64_t)dist_rounds_of(e);
  if (e->gather) most = dist_gather_most_spans(e);
  GA_TRY(dist_spans_create(e->ctx, most, &e->timeline));
  dist_spans_name(e->timeline, e->compute, "compute");
  if (e->gather) dist_gather_name_streams(e);
  dist_spans_name(e->timeline, e->copies, "copies");
  return GA_OK;
}

static ga_status make_executor(dist_device *e, const char *copies) {
  const dist_program *g = &e->plan->programs[e->rank];
  void *p;
  dist_copies wanted;
  GA_TRY(check_device_problem(&e->plan->p, e->ctx));
  GA_TRY(dist_copies_wanted(e->comm, e->ctx->device, copies, &wanted));
  GA_TRY(ga_mem_zalloc((size_t)g->n_slots, sizeof *e->slots, "slots of a rank", &p));
  e->slots = p;
  GA_TRY(ga_stream_create(e->ctx, &e->compute));
  GA_TRY(ga_stream_create(e->ctx, &e->copies));
  GA_TRY(ga_stream_create(e->ctx, &e->rescue));
  GA_TRY(ga_event_create(e->ctx, &e->mark));
  GA_TRY(ga_host_alloc(e->ctx, WINDOW_PROGRESS, &p));
  e->look = p;
  GA_TRY(make_own_sums(e));
  GA_TRY(dist_window_open(e->plan, e->comm, e->ctx->device, wanted, &e->w));
  const ga_patience own = {dist_device_still_patient, e};
  const dist_copies used = e->w.memory.copies;
  if (used != DIST_COPIES_PEER) GA_TRY(dist_exchange_create(e->ctx, e->comm, used, &own, &e->exchange));
  if (dist_is_plain(&e->plan->p)) return dist_gather_create(e);
  GA_TRY(ga_buffer_alloc_zeroed(e->ctx, (size_t)dist_device_scratch(e->plan, e->rank) * sizeof(float),
                                "attention of ranks", &e->scratch));
  for (int32_t i = DIST_OWN_SLOTS; i < g->n_slots; i++) e->slots[i].memory = dist_window_slot(&e->w, e->rank, i);
  return e->exchange ? dist_rounds_create(e) : GA_OK;
}

const char *dist_device_copies(const dist_device *e) { return dist_copies_name(e->ctx->device, e->w.memory.copies); }
const char *dist_device_why_host(const dist_device *e) { return e->w.memory.why_host; }
const dist_spans *dist_device_spans(const dist_device *e) { return e->timeline; }

ga_status dist_device_create(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx, const ga_dist_exec_options *options,
                             dist_device **out) {
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof(dist_device), "an executor", &p));
  dist_device *e = p;
  *e = (dist_device){.plan = plan, .comm = comm, .ctx = ctx, .rank = comm->rank};
  ga_status status = make_executor(e, options->copies);
  if (status == GA_OK && options->timeline) status = make_timeline(e);
  if (status == GA_OK)
    *out = e;
  else
    dist_device_destroy(e);
  return status;
}

void dist_device_destroy(dist_device *e) {
  if (!e) return;
  dist_exchange_destroy(e->exchange); /* first: after an error its arrivals may go to buffers of the two below still */
  dist_gather_destroy(e);
  dist_rounds_destroy(e);
  dist_spans_destroy(e->timeline);
  ga_stream_destroy(e->compute);
  ga_stream_destroy(e->copies);
  ga_stream_destroy(e->rescue);
  ga_event_destroy(e->mark);
  for (int32_t i = 0; e->slots && i < e->plan->programs[e->rank].n_slots; i++) {
    ga_event_destroy(e->slots[i].sent);
    if (i < DIST_OWN_SLOTS) ga_buffer_free(e->ctx, e->slots[i].memory);
  }
  ga_buffer_free(e->ctx, e->scratch);
  ga_host_free(e->ctx, e->look);
  dist_window_close(&e->w);
  ga_mem_free(e->slots);
  ga_mem_free(e->shapes.seen);
  ga_mem_free(e);
}

/* --- steps --- */

static ga_status give_slot(dist_device *e, const dist_step *s) {
  device_slot *slot = &e->slots[s->slot];
  window_side *peer = &e->w.sides[s->peer];
  slot->block = s;
  slot->from = s->peer;
  slot->due = ++peer->given;
  return e->ctx->device->sharing->write_value(e->compute, dist_window_ready(&e->w, s->peer, e->rank), peer->given);
}

static ga_status push_block(dist_device *e, const dist_step *s) {
  device_slot *slot = &e->slots[s->slot];
  window_side *peer = &e->w.sides[s->peer];
  GA_REQUIRE(peer->next < peer->n_takes, GA_ERR_INTERNAL,
             "dist: rank %d takes %lld messages of rank %d; one more is sent", s->peer, (long long)peer->n_takes,
             e->rank);
  const dist_step *take = peer->takes[peer->next++];
  const block_view from = dist_device_slot(e, s->slot),
                   to = dist_device_view(e->plan, take, dist_window_slot(&e->w, s->peer, take->slot));
  ++peer->sent;
  GA_TRY(dist_device_join(e, e->copies, e->compute, "compute"));
  GA_TRY(dist_device_wait(e, e->copies, dist_window_ready(&e->w, e->rank, s->peer), peer->sent,
                          &(span_of){GA_DIST_WORK_WAIT, "room", s->peer, -1, 0}));
  GA_TRY(dist_span_begin(e->spans, e->copies,
                         &(span_of){GA_DIST_WORK_PUSH, dist_tensor_name(s->tensor), s->peer, -1, s->bytes}));
  GA_TRY(dist_device_copy(e->copies, &to, &from));
  GA_TRY(e->ctx->device->sharing->write_value(e->copies, dist_window_arrived(&e->w, s->peer, e->rank), peer->sent));
  GA_TRY(dist_span_end(e->spans, e->copies));
  if (!slot->sent) GA_TRY(ga_event_create(e->ctx, &slot->sent));
  GA_TRY(ga_event_record(e->ctx, slot->sent, e->copies));
  GA_TRY(dist_device_note(e, e->copies, DIST_COPIES));
  slot->is_sending = true;
  e->sent_bytes += (uint64_t)s->bytes;
  return GA_OK;
}

static ga_status let_slot_go(dist_device *e, device_slot *slot) {
  if (e->rounds) {
    if (slot->sent_round >= 0) GA_TRY(dist_rounds_await(e, slot->sent_round));
    slot->sent_round = -1;
    return GA_OK;
  }
  if (slot->is_sending) GA_TRY(dist_device_follow(e, e->compute, slot->sent, "copies"));
  slot->is_sending = false;
  return GA_OK;
}

static ga_status device_tiles(dist_device *e, const dist_step *s, int64_t n, const tile_device *d) {
  tile_job job = {.ctx = e->ctx,
                  .step = s,
                  .steps = n,
                  .q = dist_device_slot(e, s->slot_q),
                  .kv = dist_device_slot(e, s->slot_kv),
                  .out = dist_device_slot(e, s->slot),
                  .scratch = e->scratch,
                  .device = d};
  if (s->slot_dkv >= 0) job.dkv = dist_device_slot(e, s->slot_dkv);
  GA_TRY(dist_tile_run(&job));
  return dist_device_note(e, e->compute, DIST_COMPUTES);
}

static ga_status device_merge(dist_device *e, const dist_step *s, const tile_device *d) {
  const block_view to = dist_device_slot(e, s->slot), from = dist_device_slot(e, s->from);
  GA_TRY(
      dist_span_begin(e->spans, d->stream, &(span_of){GA_DIST_WORK_MERGE, dist_tensor_name(from.tensor), -1, -1, 0}));
  GA_TRY(dist_device_merge(e->ctx, d, &to, &from));
  return dist_span_end(e->spans, d->stream);
}

static ga_status open_device_block(dist_device *e, const dist_step *s) {
  e->slots[s->slot].block = s;
  const block_view v = dist_device_slot(e, s->slot);
  if (s->tensor != DIST_O && !s->zeros) return GA_OK;
  GA_TRY(dist_span_begin(e->spans, e->compute, &(span_of){GA_DIST_WORK_CLEAR, dist_tensor_name(s->tensor), -1, -1, 0}));
  if (s->tensor == DIST_O) GA_TRY(dist_device_clear(e->compute, &v));
  for (int64_t i = 0; i < s->zeros && s->tensor != DIST_O; i++)
    GA_TRY(dist_device_clear_rows(e->compute, &v, e->plan->zeros[s->zero + i]));
  return dist_span_end(e->spans, e->compute);
}

/* Enqueues step s, or the n tiles from s on. */
static ga_status device_step(dist_device *e, const dist_step *s, int64_t n, const tile_device *d) {
  device_slot *slot = &e->slots[s->slot];
  switch (s->kind) {
  case DIST_OPEN: return open_device_block(e, s);
  case DIST_WAIT:
    if (e->rounds) return dist_rounds_await(e, slot->round);
    GA_TRY(dist_device_wait(e, e->compute, dist_window_arrived(&e->w, e->rank, slot->from), slot->due,
                            &(span_of){GA_DIST_WORK_WAIT, dist_tensor_name(slot->block->tensor), slot->from, -1, 0}));
    return dist_device_note(e, e->compute, DIST_COMPUTES);
  case DIST_TILE: return device_tiles(e, s, n, d);
  case DIST_MERGE: return device_merge(e, s, d);
  default: return let_slot_go(e, slot);
  }
}

/* --- a run --- */

/* Of the rounds of all sends out of a slot the last one counts. */
static ga_status note_transfers(dist_device *e, const dist_step *steps, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    device_slot *slot = &e->slots[steps[i].slot];
    int32_t round;
    GA_TRY(dist_rounds_post(e, &steps[i], &round));
    if (steps[i].kind == DIST_RECEIVE) {
      slot->block = &steps[i];
      slot->round = round;
    } else {
      slot->sent_round = round > slot->sent_round ? round : slot->sent_round;
      e->sent_bytes += (uint64_t)steps[i].bytes;
    }
  }
  return GA_OK;
}

/* Sends and receives that follow each other: what is received is posted first, so that ranks that send to each other
 * need not wait for each other's sends. */
static ga_status run_transfers(dist_device *e, const dist_step *steps, int64_t n) {
  if (e->rounds) return note_transfers(e, steps, n);
  for (int64_t i = 0; i < n; i++)
    if (steps[i].kind == DIST_RECEIVE) GA_TRY(give_slot(e, &steps[i]));
  for (int64_t i = 0; i < n; i++)
    if (steps[i].kind == DIST_SEND) GA_TRY(push_block(e, &steps[i]));
  return GA_OK;
}

static bool is_transfer_step(const dist_step *s) { return s->kind == DIST_SEND || s->kind == DIST_RECEIVE; }

static ga_status enqueue_steps(dist_device *e) {
  const dist_program *g = &e->plan->programs[e->rank];
  const tile_device d = {.stream = e->compute, .spans = e->spans};
  if (e->rounds) dist_rounds_begin(e);
  if (e->spans) {
    dist_spans_clear(e->spans, false);
    GA_TRY(dist_spans_start(e->spans, e->compute));
    GA_TRY(dist_device_order(e, e->copies, e->compute)); /* no span begins before the run */
  }
  for (int32_t i = 0; i < g->n_slots; i++) e->slots[i].sent_round = -1;
  for (int64_t i = 0, n; i < g->n_steps; i += n) {
    const dist_step *s = &g->steps[i];
    for (n = 0; i + n < g->n_steps && is_transfer_step(&s[n]);) n++;
    const bool transfers = n > 0;
    if (!transfers) n = dist_tiles_together(&e->plan->p, s, g->n_steps - i);
    GA_TRY(dist_device_make_room(e, n));
    GA_TRY(transfers ? run_transfers(e, s, n) : device_step(e, s, n, &d));
  }
  return e->rounds ? dist_rounds_end(e) : GA_OK;
}

/* Sums of another type are rounded once, into the caller's tensors. */
static ga_status give_device_results(dist_device *e, const tile_device *d) {
  if (!e->slots[DIST_SLOT_OUT].memory && !e->slots[DIST_SLOT_DKV].memory) return GA_OK;
  GA_TRY(dist_span_begin(e->spans, d->stream, &(span_of){GA_DIST_WORK_CONVERT, "", -1, -1, 0}));
  for (int32_t slot = DIST_SLOT_OUT; slot < DIST_OWN_SLOTS; slot++) {
    if (!e->slots[slot].memory) continue;
    const block_view to = dist_caller_view(&e->plan->p, e->io, e->rank, slot), from = dist_device_own(e, slot);
    GA_TRY(dist_device_convert(e->ctx, d, &to, &from));
  }
  return dist_span_end(e->spans, d->stream);
}

/* Each op of the plan's shapes once, over whatever the slots hold: results are cleared when the run begins. */
static ga_status rehearse_steps(dist_device *e) {
  const dist_program *g = &e->plan->programs[e->rank];
  const tile_device d = {.stream = e->compute, .rehearsal = &e->shapes};
  for (int64_t i = 0, n; i < g->n_steps; i += n) {
    const dist_step *s = &g->steps[i];
    n = dist_tiles_together(&e->plan->p, s, g->n_steps - i);
    if (s->kind == DIST_OPEN || s->kind == DIST_RECEIVE) e->slots[s->slot].block = s;
    if (s->kind == DIST_OPEN) GA_TRY(device_step(e, s, n, &d));
    if (s->kind == DIST_TILE) GA_TRY(device_tiles(e, s, n, &d));
    if (s->kind == DIST_MERGE) GA_TRY(device_merge(e, s, &d));
  }
  return give_device_results(e, &d);
}

static ga_status rehearse(dist_device *e) {
  GA_TRY(e->gather ? dist_gather_rehearse(e) : rehearse_steps(e));
  GA_TRY(dist_device_await(e));
  e->is_rehearsed = true;
  return ga_comm_meet(e->comm, "rehearsal", 0);
}

/* Before the ranks meet: what the host does here then delays no run. */
static ga_status read_timeline(dist_device *e) { return e->spans ? dist_spans_read(e->spans, e->rescue) : GA_OK; }

static ga_status enqueue_and_wait(dist_device *e) {
  const tile_device d = {.stream = e->compute};
  e->under_way = 0;
  e->spans = NULL;
  for (int32_t r = 0; r < e->plan->p.ranks; r++) e->w.sides[r].next = 0;
  GA_TRY(dist_device_order(e, e->compute, e->ctx->stream)); /* where the caller has made his tensors */
  if (!e->is_rehearsed) GA_TRY(rehearse(e));
  e->deadline = ga_seconds() + e->comm->timeout;
  e->spans = e->timeline;
  if (e->gather) {
    GA_TRY(dist_gather_enqueue(e));
  } else {
    GA_TRY(enqueue_steps(e));
    GA_TRY(give_device_results(e, &d));
  }
  if (e->spans) GA_TRY(dist_spans_finish(e->spans, e->compute));
  GA_TRY(dist_device_await(e));
  GA_TRY(read_timeline(e));
  return ga_comm_meet(e->comm, "end of run", 0);
}

static ga_status zero_outputs(dist_device *e) {
  const bool backward = e->plan->p.flags & GA_DIST_BACKWARD;
  for (int32_t slot = DIST_SLOT_OUT; slot <= (backward ? DIST_SLOT_DKV : DIST_SLOT_OUT); slot++) {
    const block_view v = dist_caller_view(&e->plan->p, e->io, e->rank, slot);
    for (int c = 0; c < v.n_parts; c++)
      GA_TRY(dist_device_zero(e, e->rescue, v.part[c], v.rows * v.heads * v.dim[c] * dist_dtype_bytes(v.dtype)));
    if (v.lse) GA_TRY(dist_device_zero(e, e->rescue, v.lse, v.rows * v.heads * (int64_t)sizeof *v.lse));
  }
  if (backward && e->plan->p.flags & GA_DIST_SINKS)
    GA_TRY(dist_device_zero(e, e->rescue, e->io->dsinks, e->plan->p.q_heads * (int64_t)sizeof(float)));
  return ga_stream_sync(e->ctx, e->rescue);
}

ga_status dist_device_run(dist_device *e, const ga_dist_tensors *io) {
  e->io = io;
  e->has_looked = false;
  e->deadline = ga_seconds() + e->comm->timeout;
  const ga_status status = enqueue_and_wait(e);
  if (status != GA_OK) {
    char text[768];
    (void)snprintf(text, sizeof text, "%s", ga_error_text());
    e->comm->calls->abort(e->comm, status, text);
    if (e->exchange) dist_exchange_abort(e->exchange);
    dist_device_release(e);
    (void)zero_outputs(e);
    e->io = NULL;
    return ga_fail(status, "%s", text);
  }
  e->io = NULL;
  return GA_OK;
}
