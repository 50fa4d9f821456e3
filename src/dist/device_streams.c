/* Streams of a rank's executor: order between them, their waits for counters, and how the host waits for them. */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/abort.h"
#include "base/clock.h"
#include "dist/device_gather.h"

enum { MOST_UNDER_WAY = 400 }; /* steps that are enqueued at a time: a launch blocks when a driver's queue is full */
enum { MARKED_STEP = 2 };      /* with a timeline a step enqueues about twice as much: events of its spans */
#define NAP_NS        20000
#define FIRST_NAP     5e-3 /* seconds */
#define LONGEST_DRAIN 10.0 /* seconds in which streams must end once they are let go */
#define LONGEST_LOOK  1.0  /* seconds in which a few bytes of the device must come to the host */

/* Naps take longer than asked for: a wait naps once that is a small part of it. */
static void device_nap(double waited) {
  if (waited < FIRST_NAP)
    (void)sched_yield();
  else
    (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

ga_status dist_device_note(dist_device *e, ga_stream *stream, int32_t which) {
  const ga_sharing *sharing = e->ctx->device->sharing;
  uint32_t *const at = dist_window_progress(&e->w, which);
  ++e->progress[which];
  /* CUDA writes no values to memory of a pool, which the window is in where it is not shared. */
  return e->exchange ? sharing->fill(stream, at, e->progress[which], 1)
                     : sharing->write_value(stream, at, e->progress[which]);
}

/* Have the streams come further since the last look? Nothing else is on `rescue`, so that the copy need not wait; where
 * it does all the same, the device stands still. */
static ga_status has_come_further(dist_device *e, bool *further) {
  const double end = ga_seconds() + LONGEST_LOOK;
  bool here = false;
  *further = false;
  GA_TRY(ga_copy_to_host_later(e->ctx, e->look, dist_window_progress(&e->w, 0), WINDOW_PROGRESS, e->rescue));
  for (;;) {
    GA_TRY(e->ctx->device->ops->stream_query(e->rescue, &here));
    if (here || ga_seconds() > end) break;
    device_nap(LONGEST_LOOK);
  }
  if (!here) return GA_OK;
  *further = !e->has_looked || memcmp(e->look, e->last_look, WINDOW_PROGRESS) != 0;
  e->has_looked = true;
  memcpy(e->last_look, e->look, WINDOW_PROGRESS);
  return GA_OK;
}

/* Patience of a host that waits for its streams (ga_patience.ask). The timeout ends a wait in which no stream made
 * progress: a run may take longer. */
ga_status dist_device_still_patient(void *user) {
  dist_device *e = user;
  bool further = true;
  GA_TRY(e->comm->calls->check(e->comm));
  if (e->exchange) GA_TRY(dist_exchange_check(e->exchange));
  GA_TRY(ga_abort_poll("dist"));
  if (ga_seconds() < e->deadline) return GA_OK;
  GA_TRY(has_come_further(e, &further));
  const uint64_t moves = e->exchange ? dist_exchange_moves(e->exchange) : 0;
  further = further || moves != e->last_moves;
  e->last_moves = moves;
  GA_REQUIRE(further, GA_ERR_TIMEOUT, "dist: rank %d waited %g s for the streams of %s", e->rank, e->comm->timeout,
             e->ctx->device->name);
  e->deadline = ga_seconds() + e->comm->timeout;
  return GA_OK;
}

ga_status dist_device_wait(dist_device *e, ga_stream *stream, const uint32_t *at, uint32_t value, const span_of *s) {
  const ga_patience patience = {dist_device_still_patient, e};
  GA_TRY(dist_span_begin(e->spans, stream, s));
  GA_TRY(e->ctx->device->sharing->wait_value(stream, at, value, &patience));
  return dist_span_end(e->spans, stream);
}

ga_status dist_device_order(dist_device *e, ga_stream *after, ga_stream *before) {
  GA_TRY(ga_event_record(e->ctx, e->mark, before));
  return ga_stream_wait_event(e->ctx, after, e->mark);
}

ga_status dist_device_follow(dist_device *e, ga_stream *after, ga_event *event, const char *what) {
  GA_TRY(dist_span_begin(e->spans, after, &(span_of){GA_DIST_WORK_WAIT, what, -1, -1, 0}));
  GA_TRY(ga_stream_wait_event(e->ctx, after, event));
  return dist_span_end(e->spans, after);
}

ga_status dist_device_join(dist_device *e, ga_stream *after, ga_stream *before, const char *what) {
  GA_TRY(ga_event_record(e->ctx, e->mark, before));
  return dist_device_follow(e, after, e->mark, what);
}

ga_status dist_device_zero(dist_device *e, ga_stream *stream, void *at, int64_t bytes) {
  const uint32_t none = 0;
  GA_TRY(e->ctx->device->sharing->fill(stream, at, 0, (size_t)bytes / 4));
  if (bytes % 4 == 0) return GA_OK;
  return ga_copy_to_device(e->ctx, (char *)at + bytes / 4 * 4, &none, (size_t)bytes % 4, stream);
}

/* --- the host waits --- */

static ga_status gather_is_done(const dist_device *e, bool *done) {
  bool second = false, local = false, taken = true;
  GA_TRY(e->ctx->device->ops->stream_query(e->gather->second, &second));
  GA_TRY(e->ctx->device->ops->stream_query(e->gather->local, &local));
  if (e->gather->taking) GA_TRY(e->ctx->device->ops->stream_query(e->gather->taking, &taken));
  *done = second && local && taken;
  return GA_OK;
}

static ga_status all_done(const dist_device *e, bool *done) {
  bool computed = false, copied = false;
  ga_status (*const query)(ga_stream *, bool *) = e->ctx->device->ops->stream_query;
  GA_TRY(query(e->compute, &computed));
  GA_TRY(query(e->copies, &copied));
  *done = computed && copied;
  return *done && e->gather ? gather_is_done(e, done) : GA_OK;
}

ga_status dist_device_await(dist_device *e) {
  const double begin = ga_seconds();
  for (bool done = false;;) {
    GA_TRY(all_done(e, &done));
    if (done) return GA_OK;
    GA_TRY(dist_device_still_patient(e));
    device_nap(ga_seconds() - begin);
  }
}

ga_status dist_device_make_room(dist_device *e, int64_t steps) {
  if (e->is_recording) return GA_OK; /* it is launched as one */
  if (e->spans) steps *= MARKED_STEP;
  e->under_way += steps;
  if (e->under_way > MOST_UNDER_WAY) {
    GA_TRY(dist_device_await(e));
    e->under_way = steps;
  }
  return dist_device_still_patient(e);
}

/* After an error: nobody may write what the streams wait for, so this rank does. What living ranks still write may come
 * in between, so it does until they have ended. */
void dist_device_release(dist_device *e) {
  const ga_device *device = e->ctx->device;
  double end = ga_seconds() + LONGEST_DRAIN;
  bool done = false, further = false;
  e->has_looked = false;
  while (e->w.sides && all_done(e, &done) == GA_OK && !done) {
    if (ga_seconds() > end) { /* a recorded run goes on to its end: what it writes is the caller's until then */
      if (has_come_further(e, &further) != GA_OK || !further) break;
      end = ga_seconds() + LONGEST_DRAIN;
    }
    for (int32_t r = 0; r < e->plan->p.ranks && !e->exchange; r++) {
      (void)device->sharing->write_value(e->rescue, dist_window_arrived(&e->w, e->rank, r), e->w.sides[r].given);
      (void)device->sharing->write_value(e->rescue, dist_window_ready(&e->w, e->rank, r), e->w.sides[r].sent);
    }
    device_nap(LONGEST_DRAIN);
  }
  (void)device->ops->stream_sync(e->rescue);
}
