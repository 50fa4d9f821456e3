/* A window: the part of a rank's device memory that other ranks write to. It has the slots of the rank's program, two
 * counters for each other rank, and two counters of the rank's own streams. Streams wait for counters, so that the host
 * need not. Where devices cannot write into each other's memory, messages are stored in the same slots, and the
 * counters for other ranks are not used.
 *
 * The counter arrived[r] in a rank's window counts the messages of rank r that have arrived. The counter ready[r]
 * counts the slots of rank r into which this rank may write. Both counters continue from run to run and are compared
 * with wrap-around. In plans that gather keys they count groups of heads, and begin each run at 0 (device_gather.c). */
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
  /* Offset in bytes of each of the peer's slots, in the peer's window. */
  int64_t *slot_at;
  /* The peer's RECEIVE steps for messages of this rank, oldest first, [n_takes]. */
  const dist_step **takes;
  int64_t n_takes;
  /* Numbers over all runs: messages sent to the peer (sent), and slots that this rank has allowed the peer to write
   * (given). */
  uint32_t sent, given;
  /* Index in `takes` of the next message of this run. */
  int64_t next;
  /* The fields below are used where keys are collected (gather.h). */
  int64_t keys_at[2]; /* Offsets in bytes of the collected K and V, in the peer's window. */
  int64_t *take_at;   /* Offset in bytes of each message of gradients, in the peer's window, [n_takes]. */
  /* The field below is used where heads are split. */
  int64_t split_at[SPLIT_AREAS]; /* Offsets in bytes of the areas (split_area), in the peer's window. */
} window_side;

typedef struct dist_window {
  const ga_dist_plan *plan;
  ga_comm *comm;
  window_side *sides; /* Records of all ranks' windows, indexed by rank, [ranks]. */
  dist_rank_memory memory;
} dist_window;

/* Allocates this rank's window and opens the windows of the others. All ranks call it. wanted is the kind of copies
 * that is requested; with DIST_COPIES_AUTO, peer access is used where it is possible, else host memory. */
GA_NODISCARD ga_status dist_window_open(const ga_dist_plan *plan, ga_comm *comm, ga_device *device, dist_copies wanted,
                                        dist_window *w);
/* Returns the size of a rank's window in bytes. */
int64_t dist_window_bytes(const ga_dist_plan *plan, int32_t rank);
/* Frees this rank's window. No stream may still use it. */
void dist_window_close(dist_window *w);

void *dist_window_slot(const dist_window *w, int32_t rank, int32_t slot);
/* Return the addresses of counters in the window of `owner` that rank `from` writes. The counter of dist_window_arrived
 * counts messages that have arrived. The counter of dist_window_ready counts slots that may be written. */
uint32_t *dist_window_arrived(const dist_window *w, int32_t owner, int32_t from);
uint32_t *dist_window_ready(const dist_window *w, int32_t owner, int32_t from);

#define WINDOW_LINE     64 /* Bytes that are reserved for a counter. */
#define WINDOW_STREAMS  2
#define WINDOW_PROGRESS (WINDOW_STREAMS * WINDOW_LINE)
/* Returns the address of the counter, one of WINDOW_STREAMS, that shows the host how far one of the rank's own streams
 * has advanced. All these counters are in the WINDOW_PROGRESS bytes that begin at the first one. */
uint32_t *dist_window_progress(const dist_window *w, int32_t stream);

/* Returns a view of step s's block at `memory`, on a device. LSE and parts begin at multiples of 256 bytes, as kernels
 * require. */
block_view dist_device_view(const ga_dist_plan *plan, const dist_step *s, void *memory);
void dist_device_align(block_view *v, void *memory);
int64_t dist_device_bytes(int64_t bytes);
/* Returns the bytes from the start of a view's memory to the end of its last part. */
size_t dist_device_extent(const block_view *v);

/* Return addresses in the window of `rank`, for plans that collect keys. dist_window_keys returns K (part 0) or V (part
 * 1) of all tokens. dist_window_take returns the memory for the n-th message of gradients that this rank sends to
 * `rank`. If `rank` is this rank itself, n counts the messages of all ranks. */
void *dist_window_keys(const dist_window *w, int32_t rank, int part);
void *dist_window_take(const dist_window *w, int32_t rank, int64_t n);

/* Return views for plans that split heads. dist_window_area returns a view of an area of a rank's window.
 * dist_split_view returns a view of a tensor at `memory`, with all tokens and the heads of `rank`. */
block_view dist_window_area(const dist_window *w, int32_t rank, split_area area);
block_view dist_split_view(const dist_problem *p, int32_t rank, int32_t tensor, void *memory);
int64_t dist_view_bytes(const block_view *v);

#endif
