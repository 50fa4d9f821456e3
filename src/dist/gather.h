/* Plans that a device runs as plain calls of attention over keys in the order of positions, not tile by tile: each
 * query sees all its keys in one call, so that nothing is merged, and bits are those of one device.
 *
 * Ranks keep their queries and gather all keys that these see:
 *
 *   zigzag of 2 ranks, 4 chunks; rank 0 has chunks 0 and 3
 *     gathered K, V    | 0 | 1 | 2 | 3 |    own chunks are copied, others are pushed by their owners
 *     call 1           queries of chunk 3, keys of chunks 0 to 3
 *     call 2           queries of chunk 0, keys of chunk 0
 *
 * Heads are cut into groups: one group's calls run while the next one's keys come.
 *
 * Of several documents the calls of many stretches are one: each stretch is a packed sequence of its own, which has its
 * document's keys up to its last query. Backward no two of a call share keys. Documents that are on one rank as a whole
 * are local: their keys are read, and their gradients written, where the caller has them.
 *
 * Or ranks split the heads (Ulysses, arXiv 2309.14509): each has all tokens of its heads, and one call for them.
 *
 *   tokens of rank 0, all heads  -\                /->  heads of rank 0, all tokens  -- attention --> O of its heads
 *   tokens of rank 1, all heads  --+- all-to-all -+-->  heads of rank 1, all tokens       O goes back the same way
 */
#ifndef GA_DIST_GATHER_H
#define GA_DIST_GATHER_H

#include "dist/plan.h"

enum { GATHER_MOST_GROUPS = 8, GATHER_PARTS = 2 };

bool dist_gathers(const dist_problem *p);
/* True if each rank can have whole KV heads (Ulysses): every KV head goes to one rank, each rank has as many, and all
 * blocks are sent before the first tile. The builder keeps the answer in p->splits_heads. */
bool dist_may_split_heads(const dist_problem *p);
static inline bool dist_is_plain(const dist_problem *p) { return p->splits_heads || dist_gathers(p); }
/* Returns how many KV heads a rank computes. */
static inline int32_t dist_heads_of_rank(const dist_problem *p) {
  return p->splits_heads ? p->kv_heads / p->ranks : p->kv_heads;
}
/* Returns the number of head groups that fits the plan's shape; it becomes grid.groups where the caller gives 0. */
int32_t dist_gather_groups(const dist_problem *p);
/* Returns the bytes of K (part 0), V (part 1) or their gradients of all ranks: [all tokens, kv_heads, dim] of dtype. */
int64_t dist_gather_bytes(const dist_problem *p, int part, int32_t dtype);
static inline int32_t dist_gather_dim(const dist_problem *p, int part) { return part ? p->v_dim : p->head_dim; }

/* One call of attention: the queries of one of the rank's stretches by all keys that they see. Keys are rows of the
 * gathered keys, or of the rank's own keys if `local`. Where heads are split, the queries are a whole document's. */
typedef struct gather_call {
  int32_t stretch, round; /* round: calls of a document that share keys have different ones */
  bool causal, local;
  bool adds;        /* backward: to what dK, dV and dsinks hold. dQ is written: no other call has these queries */
  int64_t row, n_q; /* of the rank */
  int64_t doc;
  int64_t key, n_k;
  int64_t window;
} gather_call;

/* Calls [first, first + n) of the list that are run as one call of packed sequences; with n = 1 it is not packed. */
typedef struct gather_batch {
  int64_t first, n;
  int64_t max_q, max_k;
} gather_batch;

typedef struct gather_list {
  gather_call *calls;
  gather_batch *batches; /* local ones first */
  int64_t n_calls, n_batches, room, batch_room;
  /* Backward: rows that no call overwrites before other calls add to them or they are sent. Zeros are written there
   * first. */
  dist_rows *q_zeros, *kv_zeros; /* rows of the rank's dQ; of dK and dV of all tokens */
  int64_t n_q_zeros, n_kv_zeros, q_room, kv_room;
  bool sink_zeros; /* the same of dsinks */
} gather_list;

enum { GATHER_CALLS_A_STRETCH = 2 }; /* at most */

/* Release with dist_gather_free, also after a failure. */
GA_NODISCARD ga_status dist_gather_list(const dist_problem *p, int32_t rank, gather_list *l);
void dist_gather_free(gather_list *l);

#endif
