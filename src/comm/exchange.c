/* Messages by the backend's library, or through host memory. There the ranks of one host share page-locked memory
 * (shared_host.c). Elsewhere the communicator carries chunks from one page-locked buffer to another; there are two for
 * each direction and rank: while one chunk travels, the next one comes from the device and the one before goes to it.
 *
 *   stream      chunk 0    chunk 1    chunk 2                 device to host
 *   host                   chunk 0    chunk 1    chunk 2      send, receive
 *   arrivals                          chunk 0    chunk 1 ...  host to device */
#include "comm/exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/abort.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "comm/shared_host.h"
#include "core/device.h"

/* Bytes: a large chunk hides what a copy costs to begin (10 us, 0.2 MB at 20 GB/s); buffers for all others of many
 * ranks are not to take more than MOST_BUFFERS. */
#define MOST_CHUNK   ((size_t)4 << 20)
#define LEAST_CHUNK  ((size_t)64 << 10)
#define MOST_BUFFERS ((size_t)128 << 20)

enum { BUFFERS = 2 };

/* To or from one other rank. */
typedef struct exchange_side {
  dist_cursor at;
  struct {
    unsigned char *memory; /* page-locked */
    ga_event *copied;      /* behind the copy from it or to it */
    bool is_copying, is_posted;
    size_t bytes; /* of the chunk in it; 0 = none */
    void *device; /* where a chunk that is received goes */
    comm_ticket ticket;
  } buffer[BUFFERS];
} exchange_side;

struct dist_exchange {
  ga_ctx *ctx;
  ga_comm *comm;
  ga_patience own; /* ask: NULL, or of the rank's own streams */
  ga_link *link;   /* NULL: through host memory, with what follows */
  double deadline; /* of what the library sets up */
  ga_stream *arrivals;
  ga_event *mark;
  dist_shared *shared; /* ranks of one host; NULL: the communicator carries messages, with what follows */
  void *memory;
  size_t chunk;
  exchange_side *sends, *receives; /* [ranks] */
};

#define LINK_WAIT 30.0 /* seconds, or the timeout if longer: to load code, and to reach each rank for the first time */

static double link_seconds(const dist_exchange *x) {
  return x->comm->timeout > LINK_WAIT ? x->comm->timeout : LINK_WAIT;
}

static size_t asked_chunk;

void dist_exchange_cut(size_t chunk) { asked_chunk = chunk; }

/* --- making --- */

static ga_status make_buffers(dist_exchange *x) {
  const int32_t ranks = x->comm->size;
  const size_t n = 2 * BUFFERS * (size_t)(ranks > 1 ? ranks - 1 : 1);
  void *p;
  x->chunk = asked_chunk ? asked_chunk : MOST_CHUNK;
  while (!asked_chunk && x->chunk > LEAST_CHUNK && n * x->chunk > MOST_BUFFERS) x->chunk /= 2;
  GA_TRY(ga_mem_zalloc((size_t)ranks, sizeof *x->sends, "ranks", &p));
  x->sends = p;
  GA_TRY(ga_mem_zalloc((size_t)ranks, sizeof *x->receives, "ranks", &p));
  x->receives = p;
  GA_TRY(ga_host_alloc(x->ctx, n * x->chunk, &x->memory));
  unsigned char *at = x->memory;
  for (int32_t r = 0; r < ranks; r++)
    for (int i = 0; i < BUFFERS && r != x->comm->rank; i++) {
      x->sends[r].buffer[i].memory = at;
      x->receives[r].buffer[i].memory = at + x->chunk;
      at += 2 * x->chunk;
      GA_TRY(ga_event_create(x->ctx, &x->sends[r].buffer[i].copied));
      GA_TRY(ga_event_create(x->ctx, &x->receives[r].buffer[i].copied));
    }
  return GA_OK;
}

static ga_status open_host(dist_exchange *x) {
  ga_status can;
  GA_TRY(ga_stream_create(x->ctx, &x->arrivals));
  GA_TRY(ga_event_create(x->ctx, &x->mark));
  GA_TRY(dist_shared_create(x->ctx, x->comm, asked_chunk, &x->shared, &can));
  if (x->shared) return GA_OK;
  if (x->comm->rank == 0) /* on several hosts it is no news */
    ga_log(GA_LOG_INFO, "dist: no page-locked memory that ranks share (%s): processors copy messages", ga_error_text());
  return make_buffers(x);
}

/* --- by a library --- */

static ga_status link_patience(void *user) {
  const dist_exchange *x = user;
  GA_TRY(x->comm->calls->check(x->comm));
  GA_TRY(ga_abort_poll("dist"));
  GA_REQUIRE(ga_seconds() < x->deadline, GA_ERR_TIMEOUT, "dist: rank %d waited %g s for %s to reach all ranks",
             x->comm->rank, link_seconds(x), x->ctx->device->links->name);
  return GA_OK;
}

static ga_patience patience_of(dist_exchange *x) {
  x->deadline = ga_seconds() + link_seconds(x);
  return (ga_patience){link_patience, x};
}

/* A library may wait for ever where two ranks have one device. */
static ga_status check_places(const dist_exchange *x, const ga_link_facts *mine) {
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)x->comm->size, sizeof *mine, "ranks", &p));
  const ga_link_facts *const all = p;
  ga_status status = ga_comm_all_gather(x->comm, mine, sizeof *mine, p);
  for (int32_t r = 0; r < x->comm->size && status == GA_OK; r++)
    for (int32_t other = 0; other < r && status == GA_OK; other++)
      if (!strcmp(all[r].place, all[other].place))
        status = ga_fail(GA_ERR_UNSUPPORTED,
                         "dist: ranks %d and %d are on one device (%.*s); %s wants one for each rank, peer and host "
                         "copies do not",
                         other, r, (int)strcspn(all[r].place, " "), all[r].place, x->ctx->device->links->name);
  ga_mem_free(p);
  return status;
}

static ga_status load_link(dist_exchange *x) {
  const ga_device *device = x->ctx->device;
  ga_link_facts facts;
  ga_status status;
  const ga_status can = dist_copies_agree(x->comm, device->links->load(x->ctx->device, &facts), &status);
  char what[48];
  GA_TRY(can);
  (void)snprintf(what, sizeof what, "the version of %s", device->links->name);
  GA_TRY(dist_copies_same(x->comm, what, facts.version));
  return check_places(x, &facts);
}

/* The id of rank 0 goes to all. */
static ga_status trade_link_id(dist_exchange *x, unsigned char id[GA_LINK_ID_BYTES]) {
  const ga_link_library *links = x->ctx->device->links;
  void *p;
  ga_status status, can;
  memset(id, 0, GA_LINK_ID_BYTES);
  can = dist_copies_agree(x->comm, x->comm->rank ? GA_OK : links->id(x->ctx->device, id), &status);
  GA_TRY(can);
  GA_TRY(ga_mem_zalloc((size_t)x->comm->size, GA_LINK_ID_BYTES, "ranks", &p));
  status = ga_comm_all_gather(x->comm, id, GA_LINK_ID_BYTES, p);
  memcpy(id, p, GA_LINK_ID_BYTES);
  ga_mem_free(p);
  return status;
}

static ga_status open_link(dist_exchange *x) {
  unsigned char id[GA_LINK_ID_BYTES];
  GA_TRY(load_link(x));
  GA_TRY(trade_link_id(x, id));
  const ga_patience patience = patience_of(x);
  return x->ctx->device->links->open(x->ctx->device, id, x->comm->rank, x->comm->size, &patience, &x->link);
}

uint64_t dist_exchange_moves(const dist_exchange *x) { return x->shared ? dist_shared_moves(x->shared) : 0; }

ga_status dist_exchange_check(dist_exchange *x) { return x->link ? x->ctx->device->links->check(x->link) : GA_OK; }

void dist_exchange_abort(dist_exchange *x) {
  if (x->link) x->ctx->device->links->abort(x->link);
}

/* --- both --- */

ga_status dist_exchange_create(ga_ctx *ctx, ga_comm *comm, dist_copies copies, const ga_patience *own,
                               dist_exchange **out) {
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof(dist_exchange), "messages of devices", &p));
  dist_exchange *x = p;
  *x = (dist_exchange){.ctx = ctx, .comm = comm};
  if (own) x->own = *own;
  const ga_status status = copies == DIST_COPIES_LINK ? open_link(x) : open_host(x);
  if (status == GA_OK)
    *out = x;
  else
    dist_exchange_destroy(x);
  return status;
}

void dist_exchange_destroy(dist_exchange *x) {
  if (!x) return;
  if (x->link) x->ctx->device->links->close(x->link);
  if (x->arrivals)
    (void)x->ctx->device->ops->stream_sync(x->arrivals); /* after an error it may read host memory still */
  dist_shared_destroy(x->shared);
  ga_stream_destroy(x->arrivals);
  ga_event_destroy(x->mark);
  for (int32_t r = 0; x->sends && x->receives && r < x->comm->size; r++)
    for (int i = 0; i < BUFFERS; i++) {
      ga_event_destroy(x->sends[r].buffer[i].copied);
      ga_event_destroy(x->receives[r].buffer[i].copied);
    }
  ga_host_free(x->ctx, x->memory);
  ga_mem_free(x->sends);
  ga_mem_free(x->receives);
  ga_mem_free(x);
}

/* --- chunks --- */

bool dist_next_chunk(dist_cursor *at, const ga_link_message *messages, int64_t n, int32_t peer, bool is_send,
                     size_t chunk, void **data, size_t *bytes) {
  for (; at->message < n; at->message++, at->offset = 0) {
    const ga_link_message *m = &messages[at->message];
    if (m->peer != peer || m->is_send != is_send || at->offset >= m->bytes) continue;
    *bytes = m->bytes - at->offset < chunk ? m->bytes - at->offset : chunk;
    *data = (char *)m->data + at->offset;
    at->offset += *bytes;
    return true;
  }
  return false;
}

static ga_status end_post(dist_exchange *x, exchange_side *s, int i) {
  if (s->buffer[i].is_posted) GA_TRY(x->comm->calls->wait(x->comm, &s->buffer[i].ticket));
  s->buffer[i].is_posted = false;
  return GA_OK;
}

/* Chunk c of what goes to each rank comes from the device. */
static ga_status load_chunks(dist_exchange *x, ga_stream *stream, const ga_link_message *messages, int64_t n,
                             int64_t c) {
  const int i = (int)(c % BUFFERS);
  for (int32_t r = 0; r < x->comm->size; r++) {
    exchange_side *s = &x->sends[r];
    void *data;
    GA_TRY(end_post(x, s, i));
    s->buffer[i].bytes = 0;
    if (!dist_next_chunk(&s->at, messages, n, r, true, x->chunk, &data, &s->buffer[i].bytes)) continue;
    GA_TRY(ga_copy_to_host_later(x->ctx, s->buffer[i].memory, data, s->buffer[i].bytes, stream));
    GA_TRY(ga_event_record(x->ctx, s->buffer[i].copied, stream));
  }
  return GA_OK;
}

static ga_status post_receives(dist_exchange *x, const ga_link_message *messages, int64_t n, int64_t c, bool *any) {
  const int i = (int)(c % BUFFERS);
  for (int32_t r = 0; r < x->comm->size; r++) {
    exchange_side *s = &x->receives[r];
    s->buffer[i].bytes = 0;
    if (!dist_next_chunk(&s->at, messages, n, r, false, x->chunk, &s->buffer[i].device, &s->buffer[i].bytes)) continue;
    if (s->buffer[i].is_copying) GA_TRY(ga_event_sync(s->buffer[i].copied));
    s->buffer[i].is_copying = false;
    GA_TRY(x->comm->calls->receive(x->comm, r, s->buffer[i].memory, s->buffer[i].bytes, &s->buffer[i].ticket));
    s->buffer[i].is_posted = true;
    *any = true;
  }
  return GA_OK;
}

static ga_status post_sends(dist_exchange *x, int64_t c, bool *any) {
  const int i = (int)(c % BUFFERS);
  for (int32_t r = 0; r < x->comm->size; r++) {
    exchange_side *s = &x->sends[r];
    if (!s->buffer[i].bytes) continue;
    GA_TRY(ga_event_sync(s->buffer[i].copied));
    GA_TRY(x->comm->calls->send(x->comm, r, s->buffer[i].memory, s->buffer[i].bytes, &s->buffer[i].ticket));
    s->buffer[i].is_posted = true;
    *any = true;
  }
  return GA_OK;
}

static ga_status store_chunks(dist_exchange *x, int64_t c) {
  const int i = (int)(c % BUFFERS);
  for (int32_t r = 0; r < x->comm->size; r++) {
    exchange_side *s = &x->receives[r];
    if (!s->buffer[i].bytes) continue;
    GA_TRY(end_post(x, s, i));
    GA_TRY(ga_copy_to_device_later(x->ctx, s->buffer[i].device, s->buffer[i].memory, s->buffer[i].bytes, x->arrivals));
    GA_TRY(ga_event_record(x->ctx, s->buffer[i].copied, x->arrivals));
    s->buffer[i].is_copying = true;
  }
  return GA_OK;
}

static ga_status follow_stream(dist_exchange *x, ga_stream *after, ga_stream *before) {
  GA_TRY(ga_event_record(x->ctx, x->mark, before));
  return ga_stream_wait_event(x->ctx, after, x->mark);
}

/* Chunk c of all pairs of ranks is posted before anybody waits for one, and waited for before chunk c + 2 is: so nobody
 * waits in a circle. */
static ga_status run_through_host(dist_exchange *x, ga_stream *stream, const ga_link_message *messages, int64_t n) {
  for (int32_t r = 0; r < x->comm->size; r++) x->sends[r].at = x->receives[r].at = (dist_cursor){0};
  GA_TRY(load_chunks(x, stream, messages, n, 0));
  for (int64_t c = 0;; c++) {
    bool any = false;
    GA_TRY(ga_abort_poll("dist"));
    GA_TRY(load_chunks(x, stream, messages, n, c + 1));
    GA_TRY(post_receives(x, messages, n, c, &any));
    GA_TRY(post_sends(x, c, &any));
    GA_TRY(store_chunks(x, c));
    if (!any) break;
  }
  for (int32_t r = 0; r < x->comm->size; r++)
    for (int i = 0; i < BUFFERS; i++) GA_TRY(end_post(x, &x->sends[r], i));
  return GA_OK;
}

ga_status dist_exchange_run(dist_exchange *x, ga_stream *stream, const ga_link_message *messages, int64_t n) {
  if (!x->link) {
    GA_TRY(follow_stream(x, x->arrivals, stream));
    GA_TRY(x->shared ? dist_shared_run(x->shared, stream, x->arrivals, messages, n, &x->own)
                     : run_through_host(x, stream, messages, n));
    return follow_stream(x, stream, x->arrivals);
  }
  const ga_patience patience = patience_of(x);
  return x->ctx->device->links->exchange(x->link, stream, messages, n, &patience);
}
