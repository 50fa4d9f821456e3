/* Plans that a device runs as plain calls of attention, and not tile by tile. The keys of a call are in the order of
 * their positions, and each query sees all its keys in one call. Therefore nothing is merged, and results have the same
 * bits as on one device.
 *
 * In the first kind of plan, ranks keep their queries and collect ("gather") all keys that these queries see:
 *
 *   zigzag of 2 ranks, 4 chunks; rank 0 has chunks 0 and 3
 *     collected K, V   | 0 | 1 | 2 | 3 |    own chunks are copied, others are sent by their owners
 *     call 1           queries of chunk 3, keys of chunks 0 to 3
 *     call 2           queries of chunk 0, keys of chunk 0
 *
 * Heads are cut into groups: the calls of one group run while the keys of the next group are in flight.
 *
 * With several documents, many stretches share a call. Each stretch is then a packed sequence with its document's keys
 * up to its last query. In the backward pass no two stretches of a call share keys. Documents that lie on one rank as a
 * whole are called local. Their keys are read from the caller's tensors, and their gradients are written there.
 *
 * In the second kind of plan, ranks split the heads (Ulysses, arXiv 2309.14509). Each rank has all tokens of its heads,
 * and makes one call.
 *
 *   tokens of rank 0, all heads  -\                /->  heads of rank 0, all tokens  -- attention --> O of its heads
 *   tokens of rank 1, all heads  --+- all-to-all -+-->  heads of rank 1, all tokens       O goes back the same way */
#ifndef GA_DIST_GATHER_H
#define GA_DIST_GATHER_H

#include "dist/plan.h"

enum { GATHER_MOST_GROUPS = 8, GATHER_PARTS = 2 };

bool dist_gathers(const dist_problem *p);
/* Returns whether ranks can split the heads (Ulysses), so that each KV head belongs to one rank. For that, ranks must
 * have equal numbers of KV heads, and all blocks must be sent before the first tile. The builder stores the result in
 * p->splits_heads. */
bool dist_may_split_heads(const dist_problem *p);
static inline bool dist_is_plain(const dist_problem *p) { return p->splits_heads || dist_gathers(p); }
/* Returns the number of KV heads for which a rank computes attention. */
static inline int32_t dist_heads_of_rank(const dist_problem *p) {
  return p->splits_heads ? p->kv_heads / p->ranks : p->kv_heads;
}
/* Returns the default of grid.groups, the number of groups of heads that are sent one after the other. The number is
 * smaller for few queries, and for many stretches. */
int32_t dist_gather_groups(const dist_problem *p);
/* Returns the bytes of K (part 0) or V (part 1) of all ranks together. The array is [all tokens, kv_heads, dim] of type
 * dtype; its gradient is as large. */
int64_t dist_gather_bytes(const dist_problem *p, int part, int32_t dtype);
static inline int32_t dist_gather_dim(const dist_problem *p, int part) { return part ? p->v_dim : p->head_dim; }

/* One call of attention: queries of one of the rank's stretches, with all keys that they see. If `local`, keys are rows
 * of the rank's own K and V, otherwise of the collected K and V. Where heads are split, a call has all queries of a
 * document. */
typedef struct gather_call {
  /* Index of the stretch of queries, and number of the round. In the backward pass, calls of a document that share keys
   * are in different rounds. */
  int32_t stretch, round;
  bool causal, local;
  /* Backward pass: true if the call adds to the old dK, dV and dsinks. dQ is always overwritten, because no other call
   * has these queries. */
  bool adds;
  int64_t row, n_q; /* First row of the queries in the rank's tensors, and their number. */
  int64_t doc;
  /* First row and number of the keys, in the collected keys or, if `local`, in the rank's own. */
  int64_t key, n_k;
  int64_t window;
} gather_call;

/* Entries [first, first + n) of gather_list.calls, which run as one call of packed sequences. A single call (n = 1) is
 * not packed. max_q and max_k are the entries' largest n_q and n_k. */
typedef struct gather_batch {
  int64_t first, n;
  int64_t max_q, max_k;
} gather_batch;

typedef struct gather_list {
  gather_call *calls;
  gather_batch *batches; /* Batches of calls, [n_batches]. Batches of local documents come first. */
  int64_t n_calls, n_batches, room, batch_room;
  /* Backward pass: rows that must be set to zero before the calls. q_zeros are rows of the rank's dQ, kv_zeros of dK
   * and dV of all tokens. No call overwrites these rows before other calls add to them or they are sent. */
  dist_rows *q_zeros, *kv_zeros;
  int64_t n_q_zeros, n_kv_zeros, q_room, kv_room;
  bool sink_zeros; /* True: dsinks must be set to zero before the calls. */
} gather_list;

enum { GATHER_CALLS_A_STRETCH = 2 }; /* Largest number of calls of attention for one stretch of queries. */

/* Lists in *l the calls of attention of a rank. Release the list with dist_gather_free, also after a failure. */
GA_NODISCARD ga_status dist_gather_list(const dist_problem *p, int32_t rank, gather_list *l);
void dist_gather_free(gather_list *l);

#endif
