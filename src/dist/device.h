/* The executor of one rank on its device, for the files of this folder. device.c runs plans step by step;
 * device_gather.c runs plans that gather keys. */
#ifndef GA_DIST_DEVICE_H
#define GA_DIST_DEVICE_H

#include "comm/exchange.h"
#include "dist/exec.h"
#include "dist/tile.h"
#include "dist/window.h"

enum { DIST_COMPUTES, DIST_COPIES }; /* streams whose progress is counted */

typedef struct device_slot {
  void *memory; /* in the window, or sums of an own tensor; NULL: the caller's tensor is the slot */
  const dist_step *block;
  int32_t from;   /* rank whose message fills the slot */
  uint32_t due;   /* value of that rank's counter `arrived` from which the message is there */
  ga_event *sent; /* recorded after the slot's last send; NULL before the first send */
  bool is_sending;
  int32_t round, sent_round; /* with rounds: of the receive that fills it, of the last send out of it; -1 = none */
} device_slot;

typedef struct dist_rounds dist_rounds; /* messages of a plan that runs step by step: device_rounds.c */
typedef struct dist_gather dist_gather; /* the further state of a plan that gathers keys: device_gather.c */

struct dist_device {
  const ga_dist_plan *plan;
  ga_comm *comm;
  ga_ctx *ctx;
  int32_t rank;
  dist_window w;
  ga_stream *compute, *copies, *rescue;
  ga_event *mark; /* makes one stream wait for another */
  device_slot *slots;
  void *scratch;
  dist_gather *gather;     /* NULL: the plan runs step by step */
  dist_exchange *exchange; /* NULL: the devices write into each other's memory */
  dist_rounds *rounds;     /* NULL: they do, or keys are gathered */
  dist_spans *timeline;    /* NULL without ga_dist_exec_options.timeline */
  dist_spans *spans;       /* the same in a run; NULL in its rehearsal */
  tile_shapes shapes;
  bool is_rehearsed, is_recording;
  bool has_looked; /* in this run: before that, `look` has the counters of the run before */
  int64_t under_way;
  uint64_t sent_bytes;
  const ga_dist_tensors *io; /* of the run under way */
  double deadline;           /* when the run fails unless a stream advances */
  uint64_t last_moves;       /* the exchange's count of messages when progress was last looked at */
  uint32_t progress[WINDOW_STREAMS];
  /* Copies of the streams' progress counters, which show whether they still advance. look: the newest, of
   * ga_host_alloc; last_look: the one before. */
  unsigned char *look, last_look[WINDOW_PROGRESS];
};

/* Returns the view of the rank's own tensor in the memory where steps read and write it. */
static inline block_view dist_device_own(const dist_device *e, int32_t slot) {
  block_view v = dist_caller_view(&e->plan->p, e->io, e->rank, slot);
  if (!e->slots[slot].memory) return v;
  v.dtype = e->plan->p.partial_dtype;
  dist_device_align(&v, e->slots[slot].memory);
  return v;
}

/* Returns the view of the block that a slot holds. */
static inline block_view dist_device_slot(const dist_device *e, int32_t slot) {
  if (slot < DIST_OWN_SLOTS) return dist_device_own(e, slot);
  return dist_device_view(e->plan, e->slots[slot].block, e->slots[slot].memory);
}

/* --- streams: device_streams.c --- */

/* Makes stream `after` wait for all work that `before` holds now. */
GA_NODISCARD ga_status dist_device_order(dist_device *e, ga_stream *after, ga_stream *before);
/* Makes the stream wait until a counter of a window reaches `value`. The wait is a span of the timeline, which s
 * describes. */
GA_NODISCARD ga_status dist_device_wait(dist_device *e, ga_stream *stream, const uint32_t *at, uint32_t value,
                                        const span_of *s);
GA_NODISCARD ga_status dist_device_note(dist_device *e, ga_stream *stream, int32_t which);
/* Called before `steps` more steps are enqueued: waits while too many are in flight, and fails if other ranks no longer
 * advance. */
GA_NODISCARD ga_status dist_device_make_room(dist_device *e, int64_t steps);
/* Make stream `after` wait for all work that `before` holds now, or for an event. The wait is a span of the timeline;
 * `what` is its name. */
GA_NODISCARD ga_status dist_device_join(dist_device *e, ga_stream *after, ga_stream *before, const char *what);
GA_NODISCARD ga_status dist_device_follow(dist_device *e, ga_stream *after, ga_event *event, const char *what);
/* Enqueues the writing of zeros; bytes must be a multiple of 2. */
GA_NODISCARD ga_status dist_device_zero(dist_device *e, ga_stream *stream, void *at, int64_t bytes);
/* Called over and over while the host waits. Fails if the run is to end: a rank has failed, the caller aborts, or the
 * streams have not advanced for the communicator's timeout. user: the dist_device. */
GA_NODISCARD ga_status dist_device_still_patient(void *user);
/* Waits until all streams are empty. */
GA_NODISCARD ga_status dist_device_await(dist_device *e);
/* Lets the streams end after an error: writes the counters that they wait for, in place of the other ranks. */
void dist_device_release(dist_device *e);

/* --- rounds of messages: device_rounds.c --- */

GA_NODISCARD ga_status dist_rounds_create(dist_device *e);
void dist_rounds_destroy(dist_device *e);
void dist_rounds_begin(dist_device *e);
/* Adds a SEND or RECEIVE step to the next round, and sets *round to its number. All steps before it are enqueued on
 * `compute`. */
GA_NODISCARD ga_status dist_rounds_post(dist_device *e, const dist_step *s, int32_t *round);
/* Runs all rounds up to `round`, this one included. The stream `compute` then waits for its messages. */
GA_NODISCARD ga_status dist_rounds_await(dist_device *e, int32_t round);
/* Runs the rounds that no step of this rank waits for. */
GA_NODISCARD ga_status dist_rounds_end(dist_device *e);
int32_t dist_rounds_of(const dist_device *e); /* returns the number of rounds of a run */
/* The most spans that a round adds to the timeline. A step that waits for the round adds one of its own. */
enum { DIST_ROUND_SPANS = 3 };

/* --- plans that gather keys --- */

/* Returns the most spans that a run records. */
int64_t dist_gather_most_spans(const dist_device *e);
void dist_gather_name_streams(const dist_device *e);
/* Returns the bytes of device memory that a rank needs for a plan that gathers keys, in addition to its window. */
int64_t dist_gather_memory(const dist_problem *p, int32_t rank);
GA_NODISCARD ga_status dist_gather_create(dist_device *e);
void dist_gather_destroy(dist_device *e);
/* Launches each op once on each stream that a run will use, so that kernels are loaded and workspaces allocated.
 * Nothing is sent, and no other rank is waited for. */
GA_NODISCARD ga_status dist_gather_rehearse(dist_device *e);
/* Enqueues all work of a run. */
GA_NODISCARD ga_status dist_gather_enqueue(dist_device *e);

#endif
