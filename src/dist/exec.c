/* Runs a plan: one rank's steps, in their order. */
#include <math.h>
#include <string.h>

#include "base/abort.h"
#include "base/mem.h"
#include "base/sized.h"
#include "dist/exec.h"
#include "dist/tile.h"

/* A send under way. */
typedef struct posted_send {
  comm_ticket ticket;
  int32_t slot;
  void *packed; /* what is sent, when it is not the slot itself */
} posted_send;

typedef struct exec_slot {
  void *memory; /* of its own: NULL where it is the caller's */
  const dist_step *block;
  comm_ticket ticket; /* of the receive that fills it */
} exec_slot;

struct ga_dist_exec {
  const ga_dist_plan *plan;
  ga_comm *comm;
  ga_ctx *ctx;
  int32_t rank;
  exec_slot *slots; /* [n_slots] */
  float *scratch;
  posted_send *sends;
  int64_t n_sends, send_room;
  uint64_t sent_bytes;
  const ga_dist_tensors *io; /* of the run under way */
  dist_device *device;       /* NULL: this file runs the plan */
  dist_spans *spans;         /* NULL: no timeline is asked for, or the device's has it */
};

static void free_exec(ga_dist_exec *e) {
  if (!e) return;
  dist_device_destroy(e->device);
  dist_spans_destroy(e->spans);
  for (int32_t i = 0; e->slots && i < e->plan->programs[e->rank].n_slots; i++)
    ga_buffer_free(e->ctx, e->slots[i].memory);
  ga_mem_free(e->slots);
  ga_mem_free(e->scratch);
  ga_mem_free(e->sends);
  ga_mem_free(e);
}

void ga_dist_exec_destroy(ga_dist_exec *exec) { free_exec(exec); }
uint64_t ga_dist_exec_sent_bytes(const ga_dist_exec *exec) {
  if (!exec) return 0;
  return exec->device ? dist_device_sent(exec->device) : exec->sent_bytes;
}

const char *ga_dist_exec_copies(const ga_dist_exec *exec) {
  return exec && exec->device ? dist_device_copies(exec->device) : "";
}

const char *ga_dist_exec_host_staged(const ga_dist_exec *exec) {
  return exec && exec->device ? dist_device_why_host(exec->device) : "";
}

/* Results whose sums have another type than the caller's tensors are summed in memory of the slot. */
static ga_status make_sums(ga_dist_exec *e) {
  const dist_problem *p = &e->plan->p;
  if (p->partial_dtype == p->dtype) return GA_OK;
  const bool backward = p->flags & GA_DIST_BACKWARD;
  const int64_t each = dist_dtype_bytes(p->partial_dtype);
  const int64_t out = p->q->rows[e->rank] * p->q_heads * (backward ? p->head_dim : p->v_dim) * each,
                dkv = p->kv->rows[e->rank] * p->kv_heads * ((int64_t)p->head_dim + p->v_dim) * each;
  GA_TRY(ga_buffer_alloc_for(e->ctx, (size_t)out, "attention of ranks", &e->slots[DIST_SLOT_OUT].memory));
  if (!backward) return GA_OK;
  return ga_buffer_alloc_for(e->ctx, (size_t)dkv, "attention of ranks", &e->slots[DIST_SLOT_DKV].memory);
}

static ga_status fill_exec(ga_dist_exec *e) {
  const dist_program *g = &e->plan->programs[e->rank];
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)g->n_slots, sizeof *e->slots, "slots of a rank", &p));
  e->slots = p;
  GA_TRY(make_sums(e));
  for (int32_t i = DIST_OWN_SLOTS; i < g->n_slots; i++) {
    GA_TRY(ga_buffer_alloc_for(e->ctx, (size_t)g->slot_bytes[i], "attention of ranks", &p));
    e->slots[i].memory = p;
  }
  GA_TRY(ga_mem_zalloc((size_t)dist_tile_scratch(e->plan, e->rank), sizeof(float), "a tile", &p));
  e->scratch = p;
  return GA_OK;
}

/* A step has one span, and so have the last sends and the results. */
static ga_status make_host_timeline(ga_dist_exec *e) {
  GA_TRY(dist_spans_create(e->ctx, e->plan->programs[e->rank].n_steps + 2, &e->spans));
  dist_spans_name(e->spans, NULL, "host");
  return GA_OK;
}

static ga_status check_exec(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx) {
  GA_REQUIRE(plan && ctx, GA_ERR_ARG, "dist: %s is null", plan ? "ctx" : "plan");
  GA_REQUIRE(comm->size == plan->p.ranks, GA_ERR_ARG, "dist: the communicator has %d ranks; the plan has %d",
             comm->size, plan->p.ranks);
  return GA_OK;
}

static ga_status check_exec_options(const ga_ctx *ctx, bool on_device, const ga_dist_exec_options *o) {
  const char *copies = o->copies;
  GA_REQUIRE(o->timeline == 0 || o->timeline == 1, GA_ERR_ARG, "dist: options.timeline is %d; must be 0 or 1",
             o->timeline);
  GA_REQUIRE(!o->reserved, GA_ERR_ARG, "dist: options.reserved is %d; must be 0", o->reserved);
  GA_REQUIRE(on_device || !copies || !*copies || !strcmp(copies, "auto"), GA_ERR_UNSUPPORTED,
             "dist: copies is '%.40s'; on %s ranks send messages, and it must be auto", copies, ctx->device->name);
  return GA_OK;
}

static ga_status create_exec(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx, bool on_device,
                             const ga_dist_exec_options *options, ga_dist_exec **out) {
  GA_REQUIRE(out && comm, GA_ERR_ARG, "dist: %s is null", out ? "comm" : "out");
  *out = NULL;
  ga_dist_exec *e = NULL;
  void *p = NULL;
  ga_status status = check_exec(plan, comm, ctx);
  if (status == GA_OK) status = check_exec_options(ctx, on_device, options);
  if (status == GA_OK) status = ga_mem_zalloc(1, sizeof *e, "an executor", &p);
  if (status == GA_OK) {
    e = p;
    *e = (ga_dist_exec){.plan = plan, .comm = comm, .ctx = ctx, .rank = comm->rank};
    if (!on_device) status = fill_exec(e);
    if (status == GA_OK && !on_device && options->timeline) status = make_host_timeline(e);
  }
  /* Hashes first: what a device's ranks make next follows from the plan. */
  if (status == GA_OK) status = ga_comm_meet(comm, "plan hash", plan->hash);
  if (status == GA_OK && on_device) status = dist_device_create(plan, comm, ctx, options, &e->device);
  if (status != GA_OK) comm->calls->abort(comm, status, ga_error_text());
  if (status == GA_OK)
    *out = e;
  else
    free_exec(e);
  return status;
}

ga_status ga_dist_exec_create(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx, ga_dist_exec **out) {
  return ga_dist_exec_create_with(plan, comm, ctx, NULL, out);
}

ga_status ga_dist_exec_create_with(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx,
                                   const ga_dist_exec_options *options, ga_dist_exec **out) {
  ga_dist_exec_options o = GA_DIST_EXEC_OPTIONS_INIT;
  if (options) GA_TRY(GA_SIZED_TAKE("dist: options", ga_dist_exec_options, options, &o));
  return create_exec(plan, comm, ctx, ctx && !ga_device_in_host_memory(ctx->device), &o, out);
}

ga_status dist_exec_create_on_device(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx,
                                     const ga_dist_exec_options *options, ga_dist_exec **out) {
  const ga_dist_exec_options none = GA_DIST_EXEC_OPTIONS_INIT;
  return create_exec(plan, comm, ctx, true, options ? options : &none, out);
}

/* --- the timeline --- */

static const dist_spans *spans_of(const ga_dist_exec *e) { return e->device ? dist_device_spans(e->device) : e->spans; }

static ga_status find_timeline(const ga_dist_exec *exec, ga_dist_timeline *out) {
  GA_REQUIRE(spans_of(exec), GA_ERR_STATE, "dist: the executor records no timeline; options.timeline asks for it");
  GA_REQUIRE(dist_spans_timeline(spans_of(exec), out), GA_ERR_STATE, "dist: no run with a timeline has ended well");
  return GA_OK;
}

ga_status ga_dist_exec_timeline(const ga_dist_exec *exec, ga_dist_timeline *out) {
  ga_dist_timeline full;
  GA_REQUIRE(exec && out, GA_ERR_ARG, "dist: %s is null", exec ? "out" : "exec");
  GA_TRY(ga_sized_check_out("dist: timeline", out, ga_dist_timeline_first));
  GA_TRY(find_timeline(exec, &full));
  ga_sized_give(&full, sizeof full, out);
  return GA_OK;
}

ga_status ga_dist_exec_span(const ga_dist_exec *exec, int64_t index, ga_dist_span *out) {
  ga_dist_timeline all;
  GA_REQUIRE(exec && out, GA_ERR_ARG, "dist: %s is null", exec ? "out" : "exec");
  GA_TRY(ga_sized_check_out("dist: span", out, ga_dist_span_first));
  GA_TRY(find_timeline(exec, &all));
  GA_REQUIRE(index >= 0 && index < all.spans, GA_ERR_ARG, "dist: span %lld; the run has %lld", (long long)index,
             (long long)all.spans);
  ga_sized_give(dist_spans_at(spans_of(exec), index), sizeof *out, out);
  return GA_OK;
}

/* --- the caller's tensors --- */

static ga_status check_dist_io(const ga_dist_exec *e, const ga_dist_tensors *io) {
  const dist_problem *p = &e->plan->p;
  const uint64_t ids[2] = {io->q_layout, io->kv_layout}, want[2] = {p->q->id, p->kv->id};
  for (int i = 0; i < 2; i++)
    GA_REQUIRE(ids[i] == want[i], GA_ERR_ARG, "dist: %s_layout is %016llx; the plan's is %016llx", i ? "kv" : "q",
               (unsigned long long)ids[i], (unsigned long long)want[i]);
  const bool backward = p->flags & GA_DIST_BACKWARD, q = p->q->rows[e->rank] > 0, kv = p->kv->rows[e->rank] > 0;
  const struct {
    const void *pointer;
    bool needed;
    const char *name;
  } all[] = {{io->q, q, "q"},
             {io->k, kv, "k"},
             {io->v, kv, "v"},
             {io->o, q, "o"},
             {io->lse, q, "lse"},
             {io->dout, q && backward, "dout"},
             {io->dq, q && backward, "dq"},
             {io->dk, kv && backward, "dk"},
             {io->dv, kv && backward, "dv"},
             {io->sinks, p->flags & GA_DIST_SINKS, "sinks"},
             {io->dsinks, p->flags & GA_DIST_SINKS && backward, "dsinks"},
             {io->alibi, p->flags & GA_DIST_ALIBI, "alibi"}};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++)
    GA_REQUIRE(all[i].pointer || !all[i].needed, GA_ERR_ARG,
               "dist: %s is null; rank %d has rows of it, or the plan asks for it", all[i].name, e->rank);
  return GA_OK;
}

static block_view caller_view(const ga_dist_exec *e, int32_t slot) {
  return dist_caller_view(&e->plan->p, e->io, e->rank, slot);
}

/* The same where its steps read and write it. */
static block_view own_view(const ga_dist_exec *e, int32_t slot) {
  block_view v = caller_view(e, slot);
  unsigned char *at = e->slots[slot].memory;
  if (!at) return v;
  v.dtype = e->plan->p.partial_dtype;
  for (int c = 0; c < v.n_parts; c++) {
    v.part[c] = at;
    at += v.rows * v.heads * v.dim[c] * dist_dtype_bytes(v.dtype);
  }
  return v;
}

static block_view view_of_slot(const ga_dist_exec *e, int32_t slot) {
  if (slot < DIST_OWN_SLOTS) return own_view(e, slot);
  return dist_view_of_step(e->plan, e->slots[slot].block, e->slots[slot].memory);
}

/* --- steps --- */

static ga_status run_send(ga_dist_exec *e, const dist_step *s) {
  GA_TRY(dist_grow(&e->sends, e->n_sends, &e->send_room, sizeof *e->sends, "sends of a rank"));
  posted_send *x = &e->sends[e->n_sends];
  *x = (posted_send){.slot = s->slot};
  const dist_step *held = s->slot < DIST_OWN_SLOTS ? NULL : e->slots[s->slot].block;
  const void *data = e->slots[s->slot].memory;
  if (!held || held->pieces != s->pieces || held->heads != s->heads || held->bytes != s->bytes) {
    GA_TRY(ga_mem_alloc((size_t)s->bytes, "a message", &x->packed));
    const block_view to = dist_view_of_step(e->plan, s, x->packed), from = view_of_slot(e, s->slot);
    dist_copy_block(&to, &from);
    data = x->packed;
  }
  e->n_sends++;
  e->sent_bytes += (uint64_t)s->bytes;
  return e->comm->calls->send(e->comm, s->peer, data, (size_t)s->bytes, &x->ticket);
}

/* Waits for sends out of a slot, -1 = all. */
static ga_status end_sends(ga_dist_exec *e, int32_t slot) {
  int64_t kept = 0;
  ga_status status = GA_OK;
  for (int64_t i = 0; i < e->n_sends; i++) {
    posted_send *x = &e->sends[i];
    if (status != GA_OK || (slot >= 0 && x->slot != slot)) {
      e->sends[kept++] = *x;
      continue;
    }
    status = e->comm->calls->wait(e->comm, &x->ticket);
    if (status == GA_OK)
      ga_mem_free(x->packed);
    else
      e->sends[kept++] = *x;
  }
  e->n_sends = kept;
  return status;
}

static ga_status run_tile_step(ga_dist_exec *e, const dist_step *s) {
  tile_job job = {.ctx = e->ctx,
                  .step = s,
                  .steps = 1,
                  .q = view_of_slot(e, s->slot_q),
                  .kv = view_of_slot(e, s->slot_kv),
                  .out = view_of_slot(e, s->slot),
                  .alibi = e->plan->p.flags & GA_DIST_ALIBI ? e->io->alibi : NULL,
                  .scratch = e->scratch};
  if (s->slot_dkv >= 0) job.dkv = view_of_slot(e, s->slot_dkv);
  return dist_tile_run(&job);
}

static ga_status run_plan_step(ga_dist_exec *e, const dist_step *s) {
  exec_slot *slot = &e->slots[s->slot];
  switch (s->kind) {
  case DIST_OPEN: {
    slot->block = s;
    const block_view v = view_of_slot(e, s->slot);
    if (s->tensor == DIST_O) dist_clear_block(&v);
    for (int64_t i = 0; i < s->zeros; i++) dist_clear_rows(&v, e->plan->zeros[s->zero + i]);
    return GA_OK;
  }
  case DIST_SEND: return run_send(e, s);
  case DIST_RECEIVE:
    slot->block = s;
    return e->comm->calls->receive(e->comm, s->peer, slot->memory, (size_t)s->bytes, &slot->ticket);
  case DIST_WAIT: return e->comm->calls->wait(e->comm, &slot->ticket);
  case DIST_TILE:
    GA_TRY(e->comm->calls->check(e->comm)); /* a rank that computes for long hears of others' errors, too */
    GA_TRY(ga_abort_poll("dist"));
    return run_tile_step(e, s);
  case DIST_MERGE: {
    const block_view to = view_of_slot(e, s->slot), from = view_of_slot(e, s->from);
    dist_merge_block(&to, &from);
    return GA_OK;
  }
  default: return end_sends(e, s->slot);
  }
}

/* The sinks join the softmax of each row that has seen a key, once, when all its keys have. */
static void add_sinks(const ga_dist_exec *e) {
  const block_view o = own_view(e, DIST_SLOT_OUT);
  float row[MOST_ROW];
  for (int32_t h = 0; h < o.heads; h++)
    for (int64_t i = 0; i < o.rows; i++) {
      float *const lse = &o.lse[h * o.rows + i];
      if (*lse == -INFINITY) continue;
      const double a = (double)*lse, s = (double)e->io->sinks[h], top = a > s ? a : s;
      const double all = top + log(exp(a - top) + exp(s - top)), weight = exp(a - all);
      void *const at = dist_row_at(&o, 0, i, h);
      dist_load_row(o.dtype, at, o.dim[0], row);
      for (int32_t c = 0; c < o.dim[0]; c++) row[c] = (float)(weight * (double)row[c]);
      dist_store_row(o.dtype, row, o.dim[0], at);
      *lse = (float)all;
    }
}

/* - sum over the rank's rows of e^(sink - LSE) rowsum(dO O). */
static void find_dsinks(const ga_dist_exec *e) {
  const block_view g = own_view(e, DIST_SLOT_Q);
  float o[MOST_ROW], dout[MOST_ROW];
  for (int32_t h = 0; h < g.heads; h++) {
    double sum = 0;
    for (int64_t i = 0; i < g.rows; i++) {
      const float lse = g.lse[h * g.rows + i];
      double dot = 0;
      if (lse == -INFINITY) continue;
      dist_load_row(g.dtype, dist_row_at(&g, 1, i, h), g.dim[1], o);
      dist_load_row(g.dtype, dist_row_at(&g, 2, i, h), g.dim[2], dout);
      for (int32_t c = 0; c < g.dim[1]; c++) dot += (double)o[c] * (double)dout[c];
      sum -= exp((double)e->io->sinks[h] - (double)lse) * dot;
    }
    e->io->dsinks[h] = (float)sum;
  }
}

/* Sums of another type are rounded once, into the caller's tensors. */
static void give_results(const ga_dist_exec *e) {
  const uint32_t flags = e->plan->p.flags;
  if (flags & GA_DIST_SINKS) (flags & GA_DIST_BACKWARD ? find_dsinks : add_sinks)(e);
  for (int32_t slot = DIST_SLOT_OUT; slot < DIST_OWN_SLOTS; slot++) {
    if (!e->slots[slot].memory) continue;
    const block_view to = caller_view(e, slot), from = own_view(e, slot);
    dist_convert_block(&to, &from);
  }
}

static span_of span_of_step(const ga_dist_exec *e, const dist_step *s) {
  const exec_slot *slot = &e->slots[s->slot];
  span_of x = {.what = "", .peer = -1, .group = -1};
  switch (s->kind) {
  case DIST_OPEN: x.work = GA_DIST_WORK_CLEAR, x.what = dist_tensor_name(s->tensor); break;
  case DIST_SEND:
    x.work = GA_DIST_WORK_PUSH, x.what = dist_tensor_name(s->tensor), x.peer = s->peer, x.bytes = s->bytes;
    break;
  case DIST_WAIT:
    x.work = GA_DIST_WORK_WAIT, x.what = dist_tensor_name(slot->block->tensor), x.peer = slot->block->peer;
    break;
  case DIST_TILE: x.work = GA_DIST_WORK_ATTENTION; break;
  case DIST_MERGE: x.work = GA_DIST_WORK_MERGE, x.what = dist_tensor_name(s->tensor); break;
  default: x.work = GA_DIST_WORK_WAIT, x.what = "sends"; break;
  }
  return x;
}

static ga_status run_step_as_span(ga_dist_exec *e, const dist_step *s) {
  const bool is_work = s->kind != DIST_RECEIVE && (s->kind != DIST_OPEN || s->tensor == DIST_O || s->zeros);
  if (!e->spans || !is_work) return run_plan_step(e, s);
  const span_of span = span_of_step(e, s);
  GA_TRY(dist_spans_open(e->spans, NULL, &span));
  GA_TRY(run_plan_step(e, s));
  return dist_spans_close(e->spans, NULL);
}

static ga_status run_steps(ga_dist_exec *e) {
  const dist_program *g = &e->plan->programs[e->rank];
  if (e->spans) {
    dist_spans_clear(e->spans, false);
    GA_TRY(dist_spans_start(e->spans, NULL));
  }
  for (int64_t i = 0; i < g->n_steps; i++) GA_TRY(run_step_as_span(e, &g->steps[i]));
  GA_TRY(dist_span_begin(e->spans, NULL, &(span_of){GA_DIST_WORK_WAIT, "sends", -1, -1, 0}));
  GA_TRY(end_sends(e, -1));
  GA_TRY(dist_span_end(e->spans, NULL));
  GA_TRY(dist_span_begin(e->spans, NULL, &(span_of){GA_DIST_WORK_CONVERT, "", -1, -1, 0}));
  give_results(e);
  GA_TRY(dist_span_end(e->spans, NULL));
  if (e->spans) {
    GA_TRY(dist_spans_finish(e->spans, NULL));
    GA_TRY(dist_spans_read(e->spans, NULL));
  }
  return ga_comm_meet(e->comm, "end of run", 0);
}

static void clear_outputs(const ga_dist_exec *e) {
  const bool backward = e->plan->p.flags & GA_DIST_BACKWARD;
  for (int32_t slot = DIST_SLOT_OUT; slot <= (backward ? DIST_SLOT_DKV : DIST_SLOT_OUT); slot++) {
    const block_view v = caller_view(e, slot);
    dist_clear_block(&v);
    for (int64_t i = 0; v.lse && i < v.rows * v.heads; i++) v.lse[i] = 0;
  }
  if (backward && e->plan->p.flags & GA_DIST_SINKS)
    for (int32_t h = 0; h < e->plan->p.q_heads; h++) e->io->dsinks[h] = 0;
}

ga_status ga_dist_exec_run(ga_dist_exec *exec, const ga_dist_tensors *io) {
  GA_REQUIRE(exec, GA_ERR_ARG, "dist: exec is null");
  ga_dist_exec *e = exec;
  ga_dist_tensors full;
  ga_status status = GA_SIZED_TAKE("dist: tensors", ga_dist_tensors, io, &full);
  if (status == GA_OK) status = check_dist_io(e, &full);
  const bool can_write = status == GA_OK;
  if (status == GA_OK && e->device) return dist_device_run(e->device, &full);
  e->io = &full;
  if (status == GA_OK) status = run_steps(e);
  if (status != GA_OK) {
    e->comm->calls->abort(e->comm, status, ga_error_text()); /* from here on nobody reads what was sent */
    for (int64_t i = 0; i < e->n_sends; i++) ga_mem_free(e->sends[i].packed);
    e->n_sends = 0;
    if (can_write) clear_outputs(e);
  }
  e->io = NULL;
  return status;
}
