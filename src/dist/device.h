/* An executor on a device, from the inside: device.c runs plans step by step, device_gather.c those that gather
 * keys. */
#ifndef GA_DIST_DEVICE_H
#define GA_DIST_DEVICE_H

#include "comm/exchange.h"
#include "dist/exec.h"
#include "dist/tile.h"
#include "dist/window.h"

enum { DIST_COMPUTES, DIST_COPIES }; /* streams whose progress is counted */

typedef struct device_slot {
  void *memory; /* of the window, or sums of an own tensor; NULL: the caller's */
  const dist_step *block;
  int32_t from;   /* rank of the receive that fills it */
  uint32_t due;   /* and the count it is there at */
  ga_event *sent; /* behind its last send; NULL: none was made yet */
  bool is_sending;
  int32_t round, sent_round; /* with rounds: of the receive that fills it, of the last send out of it; -1 = none */
} device_slot;

typedef struct dist_rounds dist_rounds; /* messages of a plan that runs step by step: device_rounds.c */
typedef struct dist_gather dist_gather; /* what a plan that gathers keys has besides: device_gather.c */

struct dist_device {
  const ga_dist_plan *plan;
  ga_comm *comm;
  ga_ctx *ctx;
  int32_t rank;
  dist_window w;
  ga_stream *compute, *copies, *rescue;
  ga_event *mark; /* orders one stream behind another */
  device_slot *slots;
  void *scratch;
  dist_gather *gather;     /* NULL: the plan runs step by step */
  dist_exchange *exchange; /* NULL: the devices write into each other's memory */
  dist_rounds *rounds;     /* NULL: they do, or keys are gathered */
  dist_spans *timeline;    /* NULL: none is asked for */
  dist_spans *spans;       /* the same in a run; NULL in its rehearsal */
  tile_shapes shapes;
  bool is_rehearsed, is_recording;
  bool has_looked; /* in this run: a replay writes the numbers of the run before */
  int64_t under_way;
  uint64_t sent_bytes;
  const ga_dist_tensors *io; /* of the run under way */
  double deadline;           /* if the streams come no further */
  uint64_t last_moves;       /* of the exchange, at the last look */
  uint32_t progress[WINDOW_STREAMS];
  /* Copies of the streams' progress counters, which show whether they still advance. look: the newest, of
   * ga_host_alloc; last_look: the one before. */
  unsigned char *look, last_look[WINDOW_PROGRESS];
};

/* Work on `after` comes behind the present end of `before`. */
GA_NODISCARD ga_status dist_device_order(dist_device *e, ga_stream *after, ga_stream *before);
/* What is enqueued on the stream behind it waits for the value of a counter in a window: a span. s: whom for. */
GA_NODISCARD ga_status dist_device_wait(dist_device *e, ga_stream *stream, const uint32_t *at, uint32_t value,
                                        const span_of *s);
GA_NODISCARD ga_status dist_device_note(dist_device *e, ga_stream *stream, int32_t which);
/* Before more is enqueued: waits when much is under way, and looks whether the others go on. */
GA_NODISCARD ga_status dist_device_make_room(dist_device *e, int64_t steps);
/* A rank's own tensor where its steps read and write it. */
block_view dist_device_own(const dist_device *e, int32_t slot);
/* What a slot holds. */
block_view dist_device_slot(const dist_device *e, int32_t slot);
/* `after` waits for the present end of `before`, or for an event: a span. */
GA_NODISCARD ga_status dist_device_join(dist_device *e, ga_stream *after, ga_stream *before, const char *what);
GA_NODISCARD ga_status dist_device_follow(dist_device *e, ga_stream *after, ga_event *event, const char *what);
/* Zeros in stream order; any bytes that are a multiple of 2. */
GA_NODISCARD ga_status dist_device_zero(dist_device *e, ga_stream *stream, void *at, int64_t bytes);

/* --- rounds of messages: device_rounds.c --- */

GA_NODISCARD ga_status dist_rounds_create(dist_device *e);
void dist_rounds_destroy(dist_device *e);
void dist_rounds_begin(dist_device *e);
/* A SEND or RECEIVE has been reached: `compute` has now all that comes before it. */
GA_NODISCARD ga_status dist_rounds_post(dist_device *e, const dist_step *s, int32_t *round);
/* Runs all rounds up to `round`, this one included. The stream `compute` then waits for its messages. */
GA_NODISCARD ga_status dist_rounds_await(dist_device *e, int32_t round);
/* Runs those that nobody here waits for. */
GA_NODISCARD ga_status dist_rounds_end(dist_device *e);
int32_t dist_rounds_of(const dist_device *e); /* how many there are */
/* Spans that a round adds to the timeline at most. A step that waits for the round adds one of its own. */
enum { DIST_ROUND_SPANS = 3 };

/* --- plans that gather keys --- */

/* Spans of a run at most. */
int64_t dist_gather_most_spans(const dist_device *e);
void dist_gather_name_streams(const dist_device *e);
/* Bytes that it takes beside the window. */
int64_t dist_gather_memory(const dist_problem *p, int32_t rank);
GA_NODISCARD ga_status dist_gather_create(dist_device *e);
void dist_gather_destroy(dist_device *e);
/* Nothing is sent or waited for, and each op is launched once on each stream that it will be on. */
GA_NODISCARD ga_status dist_gather_rehearse(dist_device *e);
/* Enqueues all of a run. */
GA_NODISCARD ga_status dist_gather_enqueue(dist_device *e);
/* Have its own streams ended? */
GA_NODISCARD ga_status dist_gather_query(const dist_device *e, bool *done);

#endif
