/* The memory of each rank's device that the others write to: two counters for each pair of ranks, two of its own, and
 * the slots of the rank's program. Streams wait for counters, so that the host need not. Where devices do not write
 * into each other's memory, what comes from others is stored in the same places, without counters of pairs.
 *
 * arrived[r] in my window: how many messages of rank r lie in my slots. ready[r]: how many of its slots rank r has
 * given to me. Counters go on from run to run; they are compared as numbers that wrap around. Where keys are gathered
 * they are groups of heads, and begin each run at 0: device_gather.c. */
#ifndef GA_DIST_WINDOW_H
#define GA_DIST_WINDOW_H

#include "comm/copies.h"
#include "comm/rank_memory.h"
#include "core/comm.h"
#include "core/ctx.h"
#include "dist/block.h"

/* Where heads are split (gather.h): what a rank computes with, of all tokens and its heads; what the others compute for
 * it, of its rows and all heads. */
typedef enum split_area { SPLIT_Q, SPLIT_KV, SPLIT_OUT, SPLIT_DKV, SPLIT_AREAS } split_area;

/* What a rank knows of another, and of itself. */
typedef struct window_side {
  int64_t *slot_at;        /* [its slots] offset in its window */
  const dist_step **takes; /* its receives of my messages, oldest first */
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

/* All ranks call it. wanted: see dist_rank_memory_open. */
GA_NODISCARD ga_status dist_window_open(const ga_dist_plan *plan, ga_comm *comm, ga_device *device, dist_copies wanted,
                                        dist_window *w);
/* Bytes of a rank's memory in it. */
int64_t dist_window_bytes(const ga_dist_plan *plan, int32_t rank);
/* No stream uses it any more. */
void dist_window_close(dist_window *w);

void *dist_window_slot(const dist_window *w, int32_t rank, int32_t slot);
/* In the window of `owner`, what `from` writes. */
uint32_t *dist_window_arrived(const dist_window *w, int32_t owner, int32_t from);
uint32_t *dist_window_ready(const dist_window *w, int32_t owner, int32_t from);

/* How far the rank's own streams have come, which its host reads: of WINDOW_STREAMS counters number `stream`. The
 * counters lie in WINDOW_PROGRESS bytes from the first one on. */
#define WINDOW_LINE     64 /* bytes that a counter has for itself */
#define WINDOW_STREAMS  2
#define WINDOW_PROGRESS (WINDOW_STREAMS * WINDOW_LINE)
uint32_t *dist_window_progress(const dist_window *w, int32_t stream);

/* A block as devices have it in memory: LSE and parts begin at multiples of 256 bytes, as kernels want them. */
block_view dist_device_view(const ga_dist_plan *plan, const dist_step *s, void *memory);
void dist_device_align(block_view *v, void *memory);
int64_t dist_device_bytes(int64_t bytes);
/* Of a view that has memory: up to the end of its last part. */
size_t dist_device_extent(const block_view *v);

/* Where keys are gathered: K or V of all tokens, and the memory of the n-th gradients that `rank` takes from me; of the
 * own rank: that it takes from anybody. */
void *dist_window_keys(const dist_window *w, int32_t rank, int part);
void *dist_window_take(const dist_window *w, int32_t rank, int64_t n);

/* Where heads are split: an area of a rank, and a tensor of all tokens and its heads in some memory. */
block_view dist_window_area(const dist_window *w, int32_t rank, split_area area);
block_view dist_split_view(const dist_problem *p, int32_t rank, int32_t tensor, void *memory);
int64_t dist_view_bytes(const block_view *v);

#endif
