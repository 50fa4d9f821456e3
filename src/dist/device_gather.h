/* Runs a plan that gathers keys or splits heads (gather.h) on a device. device_gather.c orders the streams, and moves
 * gathered keys and gradients; device_split.c moves tensors where heads are split; device_gather_calls.c makes the
 * calls. */
#ifndef GA_DIST_DEVICE_GATHER_H
#define GA_DIST_DEVICE_GATHER_H

#include "dist/device.h"
#include "dist/gather.h"

enum { SPLIT_WHOLE = 2 };

struct dist_gather {
  ga_stream *second, *local;
  ga_event *returned[GATHER_MOST_GROUPS]; /* of each head group: recorded after the calls whose dK, dV go to others */
  gather_list list;
  int64_t covered;                   /* number of queries that some call computes */
  int32_t *starts;                   /* on the device: for each batch its calls' q_start, q_len, kv_start, kv_len */
  int32_t *q_gathered, *kv_gathered; /* own stretches, all but those of local documents */
  int64_t n_q_gathered, n_kv_gathered;
  const dist_step **moves; /* [n_moves] sends, receives and merges of the rank's program, in its order */
  int64_t n_moves;
  int32_t groups;
  void *keys[GATHER_PARTS];  /* K, V of all tokens, in the window */
  float *sums[GATHER_PARTS]; /* backward: dK, dV of all tokens */
  float *lse[2];             /* of a call, for each of the two computing streams */
  tile_shapes shapes[2];     /* ops that have been rehearsed, for each of these streams */
  ga_dist_tensors last;      /* tensors of the run before */
  ga_graph *graph;           /* recording of a run with the tensors `last`; NULL: none */
  bool may_record;
  uint64_t run_bytes; /* bytes that a run sends */
  /* Where heads are split: */
  void *whole[SPLIT_WHOLE];             /* O or dQ, and dK with dV, of all tokens and the rank's heads */
  ga_stream *taking;                    /* copies results that peers have sent into the caller's tensors */
  ga_event *copied[GATHER_MOST_GROUPS]; /* of each head group: recorded after the copies of the rank's own inputs */
  /* Where devices do not write into each other's memory: */
  void *packed[2]; /* messages that a group of heads receives, and messages that it sends */
  ga_link_message *messages;
};

/* Tensors of the calls. q: Q, in the backward also O, dO and LSE. kv: K and V. out: O or dQ. dkv: dK and dV, in the
 * backward alone. */
typedef struct gather_views {
  block_view q, kv, out, dkv;
} gather_views;

/* The heads of a group: KV heads [kv, kv + n_kv), and the query heads [q, q + n_q) that read them. */
typedef struct group_heads {
  int32_t kv, n_kv, q, n_q;
} group_heads;

static inline bool dist_is_backward(const dist_device *e) { return e->plan->p.flags & GA_DIST_BACKWARD; }

static inline group_heads dist_heads_of_group(const dist_device *e, int32_t g) {
  const dist_problem *p = &e->plan->p;
  const int32_t all = dist_heads_of_rank(p), n_kv = all / e->gather->groups, each = p->q_heads / p->kv_heads,
                kv = (p->splits_heads ? e->rank * all : 0) + g * n_kv;
  return (group_heads){.kv = kv, .n_kv = n_kv, .q = kv * each, .n_q = n_kv * each};
}

/* Returns the address of row `key` and KV head `head` in the f32 sums of dK (c = 0) or dV (c = 1). */
static inline float *dist_sum_at(const dist_device *e, int c, int64_t key, int32_t head) {
  const dist_problem *p = &e->plan->p;
  return e->gather->sums[c] + (key * p->kv_heads + head) * dist_gather_dim(p, c);
}

/* Copies the heads h of all rows of a view of keys to (or, with to_view, from) the arrays all, [tokens, kv_heads, dim].
 * packed: the view's rows are contiguous in memory; else they are rows of the rank's own tensors. */
GA_NODISCARD ga_status dist_copy_heads(ga_stream *stream, const block_view *v, bool packed,
                                       void *const all[GATHER_PARTS], bool to_view, const group_heads *h);

/* Returns whether step s is of `kind` and moves inputs (or results) from or to `peer`; -1 stands for any peer. */
static inline bool dist_gather_moves(const dist_step *s, int32_t kind, bool results, int32_t peer) {
  return s->kind == kind && dist_is_result(s->tensor) == results && (peer < 0 || s->peer == peer);
}

/* Returns the heads of a step's block that belong to head group g. */
static inline dist_heads dist_heads_of_step(const dist_device *e, const dist_step *s, int32_t g) {
  const int32_t n = s->heads / e->gather->groups, begin = s->head + g * n;
  return (dist_heads){begin, begin + n};
}

/* --- where heads are split: device_split.c --- */

/* Returns the device memory, in bytes, that a rank needs beside its window where heads are split. */
int64_t dist_split_memory(const dist_problem *p, int32_t rank);
GA_NODISCARD ga_status dist_split_create(dist_device *e);
void dist_split_destroy(dist_device *e);
gather_views dist_split_views(const dist_device *e);
/* Enqueues the copies of all inputs, head group after head group: the rank's own rows on stream `local`, rows for peers
 * on stream `copies`. With an exchange only own rows are copied here; messages follow for each group. */
GA_NODISCARD ga_status dist_split_send_inputs(dist_device *e);
/* Enqueues the sending of a group's results to the ranks that own the rows; own rows go to the caller's tensors. With
 * an exchange only own rows are copied here; messages follow. */
GA_NODISCARD ga_status dist_split_send_results(dist_device *e, int32_t g);
/* Copy the block of step s into a message's memory, and out of it. */
GA_NODISCARD ga_status dist_split_pack(dist_device *e, const dist_step *s, const block_view *packed);
GA_NODISCARD ga_status dist_split_unpack(dist_device *e, const dist_step *s, const block_view *packed);
GA_NODISCARD ga_status dist_split_clear(dist_device *e);

/* --- device_gather.c --- */

/* Returns the name that a timeline shows for a group's inputs or results. */
static inline const char *dist_gather_moved(const dist_device *e, bool results) {
  if (e->plan->p.splits_heads) return results ? "results" : "inputs";
  return dist_tensor_name(results ? DIST_DKV : DIST_KV);
}

/* Returns the bytes that a group of heads sends to `peer`; -1: to all peers. */
int64_t dist_gather_sent_bytes(const dist_device *e, bool results, int32_t peer);

/* --- device_gather_exchange.c --- */

GA_NODISCARD ga_status dist_gather_exchange_create(dist_device *e);
void dist_gather_exchange_destroy(dist_device *e);
/* Enqueue on stream `copies` the exchange of a group's inputs or results with all other ranks. */
GA_NODISCARD ga_status dist_gather_exchange_inputs(dist_device *e, int32_t g);
GA_NODISCARD ga_status dist_gather_exchange_results(dist_device *e, int32_t g);

/* --- device_gather_calls.c --- */

/* Lists the calls, and copies the starts and lengths of packed calls to the device. */
GA_NODISCARD ga_status dist_gather_prepare_calls(dist_device *e);
/* Returns the device memory that these starts and lengths take. */
int64_t dist_gather_starts_bytes(const dist_problem *p, int32_t rank);
/* Enqueue the calls of local documents, with all heads; and the calls over gathered keys, with one group of heads.
 * rehearse: launches only ops that have not run on the stream yet. */
GA_NODISCARD ga_status dist_gather_run_local(dist_device *e, bool rehearse);
GA_NODISCARD ga_status dist_gather_run_group(dist_device *e, int32_t g, bool rehearse);

#endif
