/* The executor of one rank on a device, for the files device*.c. It runs a plan of distributed attention. device.c runs
 * plans step by step. device_gather.c runs plans that collect all keys on each rank, or split the heads. */
#ifndef GA_DIST_DEVICE_H
#define GA_DIST_DEVICE_H

#include "comm/exchange.h"
#include "dist/exec.h"
#include "dist/tile.h"
#include "dist/window.h"

/* Indices of the streams whose progress is counted: dist_device.compute and dist_device.copies. */
enum { DIST_COMPUTES, DIST_COPIES };

typedef struct device_slot {
  /* Memory of the slot: a part of the rank's window, or an accumulator for one of the rank's own results. NULL: the
   * slot is the caller's tensor. */
  void *memory;
  const dist_step *block;
  int32_t from; /* Rank whose message fills the slot. */
  /* The slot's message has arrived when the window's counter of messages from rank `from` has reached this value. */
  uint32_t due;
  /* Event recorded after the slot's last send. NULL: nothing has been sent from the slot yet. */
  ga_event *sent;
  bool is_sending;
  /* Used where messages are sent in rounds. `round` is the round of the receive that fills the slot, and sent_round the
   * round of the last send from it. -1: none. */
  int32_t round, sent_round;
} device_slot;

/* Rounds of the messages of a plan that runs step by step (device_rounds.c). Messages of one round are in flight at the
 * same time. */
typedef struct dist_rounds dist_rounds;
/* State of the executor of a plan that collects keys or splits heads (device_gather.c). */
typedef struct dist_gather dist_gather;

struct dist_device {
  const ga_dist_plan *plan;
  ga_comm *comm;
  ga_ctx *ctx;
  int32_t rank;
  dist_window w;
  ga_stream *compute, *copies, *rescue;
  /* Event that dist_device_order records to make one stream wait for another. */
  ga_event *mark;
  device_slot *slots;
  void *scratch;
  /* State for a plan that collects keys or splits heads. NULL: the plan runs step by step. */
  dist_gather *gather;
  /* Sends and receives the messages between devices. NULL: the devices write into each other's memory. */
  dist_exchange *exchange;
  /* State of the rounds of messages. NULL: the devices write into each other's memory, or the plan does not run step by
   * step. */
  dist_rounds *rounds;
  /* Recorder of the timeline. NULL: the executor was created without ga_dist_exec_options.timeline. */
  dist_spans *timeline;
  /* The recorder `timeline` while a run is recorded. NULL during a rehearsal, and without a timeline. */
  dist_spans *spans;
  tile_shapes shapes;
  bool is_rehearsed, is_recording;
  /* True after the streams' progress counters have been read in this run. Before that, `look` has the counters of the
   * previous run. */
  bool has_looked;
  int64_t under_way;
  uint64_t sent_bytes;
  /* Tensors of the run in flight. */
  const ga_dist_tensors *io;
  /* Time in seconds, on the monotonic clock, at which the run fails unless a stream has advanced before. */
  double deadline;
  /* Number of completed copies of the exchange (dist_exchange_moves) when progress was last read. */
  uint64_t last_moves;
  uint32_t progress[WINDOW_STREAMS];
  /* Copies of the streams' progress counters, which show whether the streams advance. `look` is the newest copy, in
   * memory of ga_host_alloc; last_look is the copy before it. */
  unsigned char *look, last_look[WINDOW_PROGRESS];
};

/* Returns a view of one of the rank's own tensors, in the memory where steps read and write it. slot is below
 * DIST_OWN_SLOTS. */
static inline block_view dist_device_own(const dist_device *e, int32_t slot) {
  block_view v = dist_caller_view(&e->plan->p, e->io, e->rank, slot);
  if (!e->slots[slot].memory) return v;
  v.dtype = e->plan->p.partial_dtype;
  dist_device_align(&v, e->slots[slot].memory);
  return v;
}

/* Returns a view of the block that a slot holds. */
static inline block_view dist_device_slot(const dist_device *e, int32_t slot) {
  if (slot < DIST_OWN_SLOTS) return dist_device_own(e, slot);
  return dist_device_view(e->plan, e->slots[slot].block, e->slots[slot].memory);
}

/* --- streams: device_streams.c --- */

/* Makes stream `after` wait for all work that `before` holds at the call. */
GA_NODISCARD ga_status dist_device_order(dist_device *e, ga_stream *after, ga_stream *before);
/* Makes the stream wait until the counter at `at`, in a window, reaches `value`. The timeline shows the wait as a span
 * with the fields of s. */
GA_NODISCARD ga_status dist_device_wait(dist_device *e, ga_stream *stream, const uint32_t *at, uint32_t value,
                                        const span_of *s);
GA_NODISCARD ga_status dist_device_note(dist_device *e, ga_stream *stream, int32_t which);
/* Waits until the streams have room for `steps` more enqueued steps. Fails if the streams or the other ranks no longer
 * advance. */
GA_NODISCARD ga_status dist_device_make_room(dist_device *e, int64_t steps);
/* dist_device_join makes stream `after` wait for all work that `before` holds at the call. dist_device_follow makes it
 * wait for an event. The timeline shows the wait as a span with the text `what`. */
GA_NODISCARD ga_status dist_device_join(dist_device *e, ga_stream *after, ga_stream *before, const char *what);
GA_NODISCARD ga_status dist_device_follow(dist_device *e, ga_stream *after, ga_event *event, const char *what);
/* Enqueues on `stream` the writing of `bytes` zero bytes at `at`. bytes must be a multiple of 2. */
GA_NODISCARD ga_status dist_device_zero(dist_device *e, ga_stream *stream, void *at, int64_t bytes);
/* Checks the run while the host waits; user is the dist_device. Returns an error if a rank has failed, the caller
 * aborts, or the streams have not advanced for the communicator's timeout. */
GA_NODISCARD ga_status dist_device_still_patient(void *user);
/* Waits until all streams of the executor are empty. */
GA_NODISCARD ga_status dist_device_await(dist_device *e);
/* Ends the waits of the streams after an error: writes the counters that they wait for, because the other ranks no
 * longer do. */
void dist_device_release(dist_device *e);

/* --- rounds of messages: device_rounds.c --- */

GA_NODISCARD ga_status dist_rounds_create(dist_device *e);
void dist_rounds_destroy(dist_device *e);
void dist_rounds_begin(dist_device *e);
/* Records that the SEND or RECEIVE step s is ready, and sets *round to the number of its round. All earlier steps must
 * be enqueued on `compute`. */
GA_NODISCARD ga_status dist_rounds_post(dist_device *e, const dist_step *s, int32_t *round);
/* Runs all rounds up to and including `round` that have not run yet. The stream `compute` then waits for their
 * messages. */
GA_NODISCARD ga_status dist_rounds_await(dist_device *e, int32_t round);
/* Runs the remaining rounds, for whose messages no step of this rank waits. */
GA_NODISCARD ga_status dist_rounds_end(dist_device *e);
int32_t dist_rounds_of(const dist_device *e); /* returns the number of rounds of messages in a run */
/* Largest number of spans that a round of messages adds to the timeline. A step that waits for the round adds another
 * span. */
enum { DIST_ROUND_SPANS = 3 };

/* --- plans that collect keys: device_gather.c --- */

/* Returns the largest number of spans that a run adds to the timeline. */
int64_t dist_gather_most_spans(const dist_device *e);
void dist_gather_name_streams(const dist_device *e);
/* Returns the bytes of device memory that a rank needs, in addition to its window, for a plan that collects keys. */
int64_t dist_gather_memory(const dist_problem *p, int32_t rank);
GA_NODISCARD ga_status dist_gather_create(dist_device *e);
void dist_gather_destroy(dist_device *e);
/* Launches each op once on each stream on which a run uses it. Kernels are then loaded and workspaces allocated.
 * Nothing is sent, and no other rank is waited for. */
GA_NODISCARD ga_status dist_gather_rehearse(dist_device *e);
/* Enqueues one whole run of a plan that collects keys or splits heads. */
GA_NODISCARD ga_status dist_gather_enqueue(dist_device *e);

#endif
