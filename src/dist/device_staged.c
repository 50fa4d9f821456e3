/* Transfers of a device through host memory, for devices that do not reach each other: on several hosts, under MPI, or
 * where the driver refuses.
 *
 *   slot --copy--> outbox --copy--> page-locked buffer --send--> buffer of the other rank --copy--> its slot
 *                  (dense)          (dense)                                                         (aligned)
 *
 * The host waits for its own copies and for messages, the computing stream for neither: tiles enqueued before go on
 * meanwhile. Messages are what ranks in host memory send (exec.c), byte for byte. */
#include "base/mem.h"
#include "dist/device.h"

typedef struct host_buffer {
  void *at; /* of ga_host_alloc */
  size_t bytes;
  bool is_taken;
} host_buffer;

typedef struct staged_send {
  comm_ticket ticket;
  int32_t slot;
  int64_t buffer;
} staged_send;

typedef struct staged_slot {
  comm_ticket ticket; /* of the receive that fills it */
  int64_t buffer;
  ga_event *given; /* behind the last work on what it held before; NULL: it takes no messages */
} staged_slot;

struct dist_staged {
  void *outbox;
  staged_slot *slots;   /* [n_slots] */
  host_buffer *buffers; /* kept from run to run */
  int64_t n_buffers, buffer_room;
  staged_send *sends; /* under way */
  int64_t n_sends, send_room;
};

/* --- making --- */

static ga_status make_outbox(dist_device *e) {
  const dist_program *g = &e->plan->programs[e->rank];
  int64_t most = 0;
  for (int64_t i = 0; i < g->n_steps; i++)
    if (g->steps[i].kind == DIST_SEND) most = ga_max_i64(most, g->steps[i].bytes);
  return most ? ga_buffer_alloc_zeroed(e->ctx, (size_t)most, "attention of ranks", &e->staged->outbox) : GA_OK;
}

static ga_status make_slots(dist_device *e) {
  const dist_program *g = &e->plan->programs[e->rank];
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)g->n_slots, sizeof *e->staged->slots, "slots of a rank", &p));
  e->staged->slots = p;
  for (int32_t i = DIST_OWN_SLOTS; i < g->n_slots; i++)
    GA_TRY(ga_buffer_alloc_zeroed(e->ctx, (size_t)dist_device_bytes(g->slot_bytes[i]), "attention of ranks",
                                  &e->slots[i].memory));
  for (int64_t i = 0; i < g->n_steps; i++) {
    ga_event **const given = &e->staged->slots[g->steps[i].slot].given;
    if (g->steps[i].kind == DIST_RECEIVE && !*given) GA_TRY(ga_event_create(e->ctx, given));
  }
  return GA_OK;
}

ga_status dist_staged_create(dist_device *e) {
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof *e->staged, "transfers through host memory", &p));
  e->staged = p;
  GA_TRY(ga_buffer_alloc_zeroed(e->ctx, WINDOW_PROGRESS, "attention of ranks", &p));
  e->counters = p;
  GA_TRY(make_outbox(e));
  return make_slots(e);
}

void dist_staged_destroy(dist_device *e) {
  dist_staged *t = e->staged;
  if (!t) return;
  for (int32_t i = 0; t->slots && i < e->plan->programs[e->rank].n_slots; i++) {
    ga_event_destroy(t->slots[i].given);
    if (i < DIST_OWN_SLOTS) continue;
    ga_buffer_free(e->ctx, e->slots[i].memory);
    e->slots[i].memory = NULL;
  }
  for (int64_t i = 0; i < t->n_buffers; i++) ga_host_free(e->ctx, t->buffers[i].at);
  ga_buffer_free(e->ctx, t->outbox);
  ga_buffer_free(e->ctx, e->counters);
  ga_mem_free(t->slots);
  ga_mem_free(t->buffers);
  ga_mem_free(t->sends);
  ga_mem_free(t);
  e->staged = NULL;
}

/* --- buffers --- */

/* The smallest free one that is large enough, else a new one. */
static ga_status take_buffer(dist_device *e, size_t bytes, int64_t *index) {
  dist_staged *t = e->staged;
  int64_t best = -1;
  for (int64_t i = 0; i < t->n_buffers; i++) {
    const host_buffer *b = &t->buffers[i];
    if (!b->is_taken && b->bytes >= bytes && (best < 0 || b->bytes < t->buffers[best].bytes)) best = i;
  }
  if (best < 0) {
    host_buffer b = {.bytes = bytes ? bytes : 1};
    GA_TRY(dist_grow(&t->buffers, t->n_buffers, &t->buffer_room, sizeof b, "buffers of a rank"));
    GA_TRY(ga_host_alloc(e->ctx, b.bytes, &b.at));
    best = t->n_buffers;
    t->buffers[t->n_buffers++] = b;
  }
  t->buffers[best].is_taken = true;
  *index = best;
  return GA_OK;
}

/* Waits for sends out of a slot, -1 = all. */
static ga_status end_staged_sends(dist_device *e, int32_t slot) {
  dist_staged *t = e->staged;
  int64_t kept = 0;
  ga_status status = GA_OK;
  for (int64_t i = 0; i < t->n_sends; i++) {
    const staged_send x = t->sends[i];
    if (status == GA_OK && (slot < 0 || x.slot == slot)) {
      status = e->comm->calls->wait(e->comm, &x.ticket);
      if (status == GA_OK) t->buffers[x.buffer].is_taken = false;
      if (status == GA_OK) continue;
    }
    t->sends[kept++] = x;
  }
  t->n_sends = kept;
  return status;
}

ga_status dist_staged_end(dist_device *e) { return e->staged ? end_staged_sends(e, -1) : GA_OK; }

void dist_staged_drop(dist_device *e) {
  if (!e->staged) return;
  e->staged->n_sends = 0;
  for (int64_t i = 0; i < e->staged->n_buffers; i++) e->staged->buffers[i].is_taken = false;
}

/* --- steps --- */

static ga_status send_block(dist_device *e, const dist_step *s) {
  dist_staged *t = e->staged;
  staged_send x = {.slot = s->slot};
  GA_TRY(dist_grow(&t->sends, t->n_sends, &t->send_room, sizeof x, "sends of a rank"));
  GA_TRY(take_buffer(e, (size_t)s->bytes, &x.buffer));
  if (s->bytes) {
    const block_view from = dist_device_slot(e, s->slot), to = dist_view_of_step(e->plan, s, t->outbox);
    GA_TRY(dist_device_order(e, e->copies, e->compute));
    GA_TRY(dist_device_copy(e->copies, &to, &from));
    GA_TRY(ga_copy_to_host_later(e->ctx, t->buffers[x.buffer].at, t->outbox, (size_t)s->bytes, e->copies));
    GA_TRY(dist_device_note(e, e->copies, DIST_COPIES));
    GA_TRY(ga_stream_sync(e->ctx, e->copies));
  }
  GA_TRY(e->comm->calls->send(e->comm, s->peer, t->buffers[x.buffer].at, (size_t)s->bytes, &x.ticket));
  t->sends[t->n_sends++] = x;
  e->sent_bytes += (uint64_t)s->bytes;
  return GA_OK;
}

static ga_status post_receive(dist_device *e, const dist_step *s) {
  staged_slot *slot = &e->staged->slots[s->slot];
  e->slots[s->slot].block = s;
  GA_TRY(take_buffer(e, (size_t)s->bytes, &slot->buffer));
  GA_TRY(ga_event_record(e->ctx, slot->given, e->compute));
  void *const at = e->staged->buffers[slot->buffer].at;
  return e->comm->calls->receive(e->comm, s->peer, at, (size_t)s->bytes, &slot->ticket);
}

static ga_status copy_part(dist_device *e, void *to, const void *from, int64_t bytes) {
  return bytes ? ga_copy_to_device_later(e->ctx, to, from, (size_t)bytes, e->copies) : GA_OK;
}

static ga_status land_message(dist_device *e, int32_t index) {
  staged_slot *slot = &e->staged->slots[index];
  host_buffer *b = &e->staged->buffers[slot->buffer];
  GA_TRY(e->comm->calls->wait(e->comm, &slot->ticket));
  const block_view to = dist_device_slot(e, index), from = dist_view_of_step(e->plan, e->slots[index].block, b->at);
  GA_TRY(ga_stream_wait_event(e->ctx, e->copies, slot->given));
  if (to.lse) GA_TRY(copy_part(e, to.lse, from.lse, to.rows * to.heads * (int64_t)sizeof *to.lse));
  for (int c = 0; c < to.n_parts; c++)
    GA_TRY(copy_part(e, to.part[c], from.part[c], to.rows * to.heads * to.dim[c] * dist_dtype_bytes(to.dtype)));
  GA_TRY(dist_device_note(e, e->copies, DIST_COPIES));
  GA_TRY(ga_stream_sync(e->ctx, e->copies));
  b->is_taken = false;
  return GA_OK;
}

ga_status dist_staged_step(dist_device *e, const dist_step *s) {
  switch (s->kind) {
  case DIST_SEND: return send_block(e, s);
  case DIST_RECEIVE: return post_receive(e, s);
  case DIST_WAIT: return land_message(e, s->slot);
  default: return end_staged_sends(e, s->slot);
  }
}
