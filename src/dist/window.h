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

/* Areas of a window where heads are split (gather.h). SPLIT_Q and SPLIT_KV have all tokens of the rank's heads.
 * SPLIT_OUT and SPLIT_DKV have all heads of the rank's rows, as the other ranks have computed them. */
typedef enum split_area { SPLIT_Q, SPLIT_KV, SPLIT_OUT, SPLIT_DKV, SPLIT_AREAS } split_area;

/* A rank's record of a peer's window and messages. The array of these records also has an entry for the rank itself. */
typedef struct window_side {
  /* Offset of each slot of the peer in its window, in bytes. */
  int64_t *slot_at;
  /* The peer's receives of this rank's messages, oldest first. */
  const dist_step **takes;
  int64_t n_takes;
  uint32_t sent, given; /* Numbers over all runs: messages sent to the peer, and slots that the peer may write. */
  /* Index in `takes` of the next message of this run. */
  int64_t next;
  /* The fields below are used where keys are collected (gather.h). */
  int64_t keys_at[2]; /* Offsets of the collected K and V in the peer's window, in bytes. */
  int64_t *take_at;   /* Offset in the peer's window of each message of gradients, [n_takes], in bytes. */
  /* The field below is used where heads are split. */
  int64_t split_at[SPLIT_AREAS]; /* Offsets of the areas in the peer's window, in bytes. */
} window_side;

typedef struct dist_window {
  const ga_dist_plan *plan;
  ga_comm *comm;
  window_side *sides; /* Records of all ranks' windows, [ranks]. */
  dist_rank_memory memory;
} dist_window;

/* Allocates this rank's window and opens the windows of the others. All ranks call it. wanted is as in
 * dist_rank_memory_open. */
GA_NODISCARD ga_status dist_window_open(const ga_dist_plan *plan, ga_comm *comm, ga_device *device, dist_copies wanted,
                                        dist_window *w);
/* Returns the bytes of a rank's window. */
int64_t dist_window_bytes(const ga_dist_plan *plan, int32_t rank);
/* Frees the window. No stream may still use it. */
void dist_window_close(dist_window *w);

void *dist_window_slot(const dist_window *w, int32_t rank, int32_t slot);
/* Return the counters in the window of `owner` that rank `from` writes: numbers of messages that have arrived, and of
 * slots that are ready. */
uint32_t *dist_window_arrived(const dist_window *w, int32_t owner, int32_t from);
uint32_t *dist_window_ready(const dist_window *w, int32_t owner, int32_t from);

#define WINDOW_LINE     64 /* Bytes that are reserved for a counter. */
#define WINDOW_STREAMS  2
#define WINDOW_PROGRESS (WINDOW_STREAMS * WINDOW_LINE)
/* Returns the counter, one of WINDOW_STREAMS, that shows the host how far one of the rank's own streams has advanced.
 * All these counters are in the WINDOW_PROGRESS bytes that begin at the first one. */
uint32_t *dist_window_progress(const dist_window *w, int32_t stream);

/* Returns the view of step s's block in device memory. LSE and parts begin at multiples of 256 bytes, as kernels
 * require. */
block_view dist_device_view(const ga_dist_plan *plan, const dist_step *s, void *memory);
void dist_device_align(block_view *v, void *memory);
int64_t dist_device_bytes(int64_t bytes);
/* Returns the bytes from the start of a view's memory to the end of its last part. */
size_t dist_device_extent(const block_view *v);

/* Return addresses for plans that collect keys. dist_window_keys: K (part 0) or V (part 1) of all tokens, in the window
 * of `rank`. dist_window_take: the n-th gradients that `rank` receives from this rank. If `rank` is this rank, n counts
 * the gradients from all ranks. */
void *dist_window_keys(const dist_window *w, int32_t rank, int part);
void *dist_window_take(const dist_window *w, int32_t rank, int64_t n);

/* Return views for plans that split heads. dist_window_area returns the view of an area of a rank's window.
 * dist_split_view returns the view of a tensor in `memory`, with all tokens and the rank's heads. */
block_view dist_window_area(const dist_window *w, int32_t rank, split_area area);
block_view dist_split_view(const dist_problem *p, int32_t rank, int32_t tensor, void *memory);
int64_t dist_view_bytes(const block_view *v);

#endif
