/* A window: the part of a rank's device memory that other ranks write to. It has the slots of the rank's program, two
 * counters for each other rank, and two counters of the rank's own streams. Streams wait for counters, so that the host
 * need not. Where devices cannot write into each other's memory, messages are stored in the same slots, and the
 * counters for other ranks are not used.
 *
 * arrived[r] in a rank's window counts the messages of rank r that have arrived. ready[r] counts the slots of rank r
 * into which this rank may write. Both go on from run to run and are compared with wrap-around. In plans that gather
 * keys they count groups of heads, and begin each run at 0 (device_gather.c). */
#ifndef GA_DIST_WINDOW_H
#define GA_DIST_WINDOW_H

#include "comm/copies.h"
#include "comm/rank_memory.h"
#include "core/comm.h"
#include "core/ctx.h"
#include "dist/block.h"

/* Areas of a window where heads are split (gather.h). Q and KV have all tokens of the rank's heads; OUT and DKV have
 * all heads of the rank's rows, as the other ranks computed them. */
typedef enum split_area { SPLIT_Q, SPLIT_KV, SPLIT_OUT, SPLIT_DKV, SPLIT_AREAS } split_area;

/* One rank's record of a peer's window and messages. The array of them has an entry for the rank itself, too. */
typedef struct window_side {
  int64_t *slot_at;        /* [its slots] offset in its window */
  const dist_step **takes; /* the peer's receives of this rank's messages, oldest first */
  int64_t n_takes;
  uint32_t sent, given; /* messages posted to it; slots given to it: over all runs */
  int64_t next;         /* of takes: in this run */
  /* Where keys are gathered (gather.h): */
  int64_t keys_at[2]; /* offsets of gathered K and V in its window */
  int64_t *take_at;   /* [n_takes] of gradients: offset in its window */
  /* Where heads are split: */
  int64_t split_at[SPLIT_AREAS]; /* offsets of the areas in its window */
} window_side;

typedef struct dist_window {
  const ga_dist_plan *plan;
  ga_comm *comm;
  window_side *sides; /* [ranks] */
  dist_rank_memory memory;
} dist_window;

/* Allocates this rank's window and opens those of the others. All ranks call it. wanted: see dist_rank_memory_open. */
GA_NODISCARD ga_status dist_window_open(const ga_dist_plan *plan, ga_comm *comm, ga_device *device, dist_copies wanted,
                                        dist_window *w);
/* Returns the bytes of a rank's window. */
int64_t dist_window_bytes(const ga_dist_plan *plan, int32_t rank);
/* Frees the window. No stream may use it any more. */
void dist_window_close(dist_window *w);

void *dist_window_slot(const dist_window *w, int32_t rank, int32_t slot);
/* Return the counters in the window of `owner` that rank `from` writes. */
uint32_t *dist_window_arrived(const dist_window *w, int32_t owner, int32_t from);
uint32_t *dist_window_ready(const dist_window *w, int32_t owner, int32_t from);

/* Returns the counter, one of WINDOW_STREAMS, that shows the host how far one of the rank's own streams has come. All
 * counters are in the WINDOW_PROGRESS bytes that begin at the first one. */
#define WINDOW_LINE     64 /* bytes that a counter has for itself */
#define WINDOW_STREAMS  2
#define WINDOW_PROGRESS (WINDOW_STREAMS * WINDOW_LINE)
uint32_t *dist_window_progress(const dist_window *w, int32_t stream);

/* A block as devices have it in memory: LSE and parts begin at multiples of 256 bytes, as kernels want them. */
block_view dist_device_view(const ga_dist_plan *plan, const dist_step *s, void *memory);
void dist_device_align(block_view *v, void *memory);
int64_t dist_device_bytes(int64_t bytes);
/* Returns the bytes from the start of a view's memory to the end of its last part. */
size_t dist_device_extent(const block_view *v);

/* For plans that gather keys: return K (part 0) or V (part 1) of all tokens in the window of `rank`; and the memory for
 * the n-th gradients that `rank` receives from this rank. With this rank itself: the n-th it receives from any. */
void *dist_window_keys(const dist_window *w, int32_t rank, int part);
void *dist_window_take(const dist_window *w, int32_t rank, int64_t n);

/* For plans that split heads: return the view of an area of a rank's window; and of a tensor with all tokens and the
 * rank's heads in `memory`. */
block_view dist_window_area(const dist_window *w, int32_t rank, split_area area);
block_view dist_split_view(const dist_problem *p, int32_t rank, int32_t tensor, void *memory);
int64_t dist_view_bytes(const block_view *v);

#endif
