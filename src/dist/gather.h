/* Plans that a device runs as plain calls of attention over keys in the order of positions, not tile by tile. Each
 * query sees all its keys in one call. Therefore nothing is merged, and the bits are those of one device.
 *
 * Ranks keep their queries and collect ("gather") all keys that these queries see:
 *
 *   zigzag of 2 ranks, 4 chunks; rank 0 has chunks 0 and 3
 *     collected K, V   | 0 | 1 | 2 | 3 |    own chunks are copied, others are sent by their owners
 *     call 1           queries of chunk 3, keys of chunks 0 to 3
 *     call 2           queries of chunk 0, keys of chunk 0
 *
 * Heads are cut into groups: the calls of one group run while the keys of the next group are in flight.
 *
 * With several documents, many stretches share a call: each stretch is a packed sequence with its document's keys up to
 * its last query. In the backward no two stretches of a call share keys. Documents that are on one rank as a whole are
 * local: their keys are read from, and their gradients written to, the caller's tensors.
 *
 * Alternatively ranks split the heads (Ulysses, arXiv 2309.14509): each has all tokens of its heads, and makes one
 * call.
 *
 *   tokens of rank 0, all heads  -\                /->  heads of rank 0, all tokens  -- attention --> O of its heads
 *   tokens of rank 1, all heads  --+- all-to-all -+-->  heads of rank 1, all tokens       O goes back the same way */
#ifndef GA_DIST_GATHER_H
#define GA_DIST_GATHER_H

#include "dist/plan.h"

enum { GATHER_MOST_GROUPS = 8, GATHER_PARTS = 2 };

bool dist_gathers(const dist_problem *p);
/* Returns whether each rank can have whole KV heads (Ulysses). Then every KV head belongs to one rank, each rank has as
 * many, and all blocks are sent before the first tile. The builder keeps the answer in p->splits_heads. */
bool dist_may_split_heads(const dist_problem *p);
static inline bool dist_is_plain(const dist_problem *p) { return p->splits_heads || dist_gathers(p); }
/* Returns the number of KV heads that a rank computes. */
static inline int32_t dist_heads_of_rank(const dist_problem *p) {
  return p->splits_heads ? p->kv_heads / p->ranks : p->kv_heads;
}
/* Returns the default of grid.groups, the number of groups of heads that are sent one after the other. Fewer queries
 * and more stretches make fewer groups. */
int32_t dist_gather_groups(const dist_problem *p);
/* Returns the bytes of K (part 0), V (part 1) or their gradients for all ranks: [all tokens, kv_heads, dim] of type
 * dtype. */
int64_t dist_gather_bytes(const dist_problem *p, int part, int32_t dtype);
static inline int32_t dist_gather_dim(const dist_problem *p, int part) { return part ? p->v_dim : p->head_dim; }

/* One call of attention: the queries of one of the rank's stretches, with all keys that they see. Keys are rows of the
 * collected keys, or of the rank's own keys if `local`. Where heads are split, the queries are a whole document's. */
typedef struct gather_call {
  /* Number of the round. Calls of a document that share keys have different rounds. */
  int32_t stretch, round;
  bool causal, local;
  /* Backward, true: the call adds to the old dK, dV and dsinks. dQ is always overwritten, because no other call has
   * these queries. */
  bool adds;
  int64_t row, n_q; /* First row of the queries in the rank's tensors, and their number. */
  int64_t doc;
  int64_t key, n_k;
  int64_t window;
} gather_call;

/* Calls [first, first + n) of the list, which run as one call of packed sequences. A single call is not packed. */
typedef struct gather_batch {
  int64_t first, n;
  int64_t max_q, max_k;
} gather_batch;

typedef struct gather_list {
  gather_call *calls;
  gather_batch *batches; /* Batches of calls. Batches of local documents come first. */
  int64_t n_calls, n_batches, room, batch_room;
  /* Backward: rows that must be set to zero first, of the rank's dQ, and of dK and dV of all tokens. No call overwrites
   * them before other calls add to them or they are sent. */
  dist_rows *q_zeros, *kv_zeros;
  int64_t n_q_zeros, n_kv_zeros, q_room, kv_room;
  bool sink_zeros; /* True: dsinks must be set to zero first. */
} gather_list;

enum { GATHER_CALLS_A_STRETCH = 2 }; /* Largest number of calls for one stretch. */

/* Lists the calls of a rank. Release the list with dist_gather_free, also after a failure. */
GA_NODISCARD ga_status dist_gather_list(const dist_problem *p, int32_t rank, gather_list *l);
void dist_gather_free(gather_list *l);

#endif
