/* State of a plan that collects keys or splits heads (gather.h) on a device. device_gather.c orders the streams, and
 * moves collected keys and gradients. device_split.c moves tensors where heads are split. device_gather_calls.c makes
 * the calls of attention. */
#ifndef GA_DIST_DEVICE_GATHER_H
#define GA_DIST_DEVICE_GATHER_H

#include "dist/device.h"
#include "dist/gather.h"

enum { SPLIT_WHOLE = 2 };

struct dist_gather {
  ga_stream *second, *local;
  /* One event per head group, recorded after the calls whose dK and dV are sent to other ranks. */
  ga_event *returned[GATHER_MOST_GROUPS];
  gather_list list;
  int64_t covered; /* Number of queries that some call computes. */
  /* Device memory: q_start, q_len, kv_start and kv_len of the calls of each batch. */
  int32_t *starts;
  /* Indices of the rank's own stretches of Q and of K, V, without the stretches of local documents. */
  int32_t *q_gathered, *kv_gathered;
  int64_t n_q_gathered, n_kv_gathered;
  const dist_step **moves; /* Sends, receives and merges of the rank's program in its order, [n_moves]. */
  int64_t n_moves;
  int32_t groups;
  /* K and V of all tokens, in the window. */
  void *keys[GATHER_PARTS];
  /* Backward: dK and dV of all tokens. */
  float *sums[GATHER_PARTS];
  float *lse[2]; /* Log-sum-exp of a call, one array for each of the two computing streams. */
  /* Ops that have been rehearsed, for each of the two computing streams. */
  tile_shapes shapes[2];
  /* Tensors of the previous run. */
  ga_dist_tensors last;
  /* CUDA graph of a run with the tensors `last`. NULL: none has been recorded. */
  ga_graph *graph;
  bool may_record;
  uint64_t run_bytes; /* Number of bytes that a run sends. */
  /* The fields up to `copied` are used where heads are split. whole: O or dQ (index 0), and dK with dV (index 1), of
   * all tokens and the rank's heads. */
  void *whole[SPLIT_WHOLE];
  /* Stream that copies results from peers into the caller's tensors. */
  ga_stream *taking;
  /* One event per head group, recorded after the copies of the rank's own inputs. */
  ga_event *copied[GATHER_MOST_GROUPS];
  /* The fields below are used where devices do not write into each other's memory. */
  void *packed[2]; /* Messages that a group of heads receives (index 0), and messages that it sends (index 1). */
  ga_link_message *messages;
};

/* Tensors of the calls. q is Q, in the backward also O, dO and LSE. kv is K and V. out is O or dQ. dkv is dK and dV,
 * used in the backward only. */
typedef struct gather_views {
  block_view q, kv, out, dkv;
} gather_views;

/* Heads of a group: KV heads [kv, kv + n_kv), and the query heads [q, q + n_q) that read them. */
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

/* Copies the heads h of all rows of a view of keys to the arrays `all`, [tokens, kv_heads, dim]. With to_view it copies
 * from the arrays to the view. packed: the view's rows are contiguous in memory; otherwise they are rows of the rank's
 * own tensors. */
GA_NODISCARD ga_status dist_copy_heads(ga_stream *stream, const block_view *v, bool packed,
                                       void *const all[GATHER_PARTS], bool to_view, const group_heads *h);

/* Returns whether step s has kind `kind` and moves inputs (or results) from or to `peer`. -1 stands for any peer. */
static inline bool dist_gather_moves(const dist_step *s, int32_t kind, bool results, int32_t peer) {
  return s->kind == kind && dist_is_result(s->tensor) == results && (peer < 0 || s->peer == peer);
}

/* Returns the heads of a step's block that belong to head group g. */
static inline dist_heads dist_heads_of_step(const dist_device *e, const dist_step *s, int32_t g) {
  const int32_t n = s->heads / e->gather->groups, begin = s->head + g * n;
  return (dist_heads){begin, begin + n};
}

/* --- where heads are split: device_split.c --- */

/* Returns the bytes of device memory that a rank needs, in addition to its window, where heads are split. */
int64_t dist_split_memory(const dist_problem *p, int32_t rank);
GA_NODISCARD ga_status dist_split_create(dist_device *e);
void dist_split_destroy(dist_device *e);
gather_views dist_split_views(const dist_device *e);
/* Enqueues the copies of all inputs, one head group after the other. The rank's own rows are copied on stream `local`,
 * rows for peers on stream `copies`. With an exchange only own rows are copied here; messages follow for each group. */
GA_NODISCARD ga_status dist_split_send_inputs(dist_device *e);
/* Enqueues the sends of head group g's results to the ranks that own the rows; own rows go to the caller's tensors.
 * With an exchange only own rows are copied here; messages follow. */
GA_NODISCARD ga_status dist_split_send_results(dist_device *e, int32_t g);
/* dist_split_pack copies the block of step s into a message's memory, dist_split_unpack copies it from there. */
GA_NODISCARD ga_status dist_split_pack(dist_device *e, const dist_step *s, const block_view *packed);
GA_NODISCARD ga_status dist_split_unpack(dist_device *e, const dist_step *s, const block_view *packed);
GA_NODISCARD ga_status dist_split_clear(dist_device *e);

/* --- device_gather.c --- */

/* Returns the name that a timeline shows for a group's inputs or results. */
static inline const char *dist_gather_moved(const dist_device *e, bool results) {
  if (e->plan->p.splits_heads) return results ? "results" : "inputs";
  return dist_tensor_name(results ? DIST_DKV : DIST_KV);
}

/* Returns the bytes that a group of heads sends to `peer`. -1: to all peers. */
int64_t dist_gather_sent_bytes(const dist_device *e, bool results, int32_t peer);

/* --- device_gather_exchange.c --- */

GA_NODISCARD ga_status dist_gather_exchange_create(dist_device *e);
void dist_gather_exchange_destroy(dist_device *e);
/* Enqueue, on stream `copies`, the exchange of head group g's inputs or results with all other ranks. */
GA_NODISCARD ga_status dist_gather_exchange_inputs(dist_device *e, int32_t g);
GA_NODISCARD ga_status dist_gather_exchange_results(dist_device *e, int32_t g);

/* --- device_gather_calls.c --- */

/* Lists the calls of attention. For calls that share a launch, copies first rows and lengths to dist_gather.starts. */
GA_NODISCARD ga_status dist_gather_prepare_calls(dist_device *e);
/* Returns the bytes of dist_gather.starts: first rows and lengths, on the device, of calls that share a launch. */
int64_t dist_gather_starts_bytes(const dist_problem *p, int32_t rank);
/* Enqueue calls of attention. dist_gather_run_local enqueues the calls of local documents, with all heads.
 * dist_gather_run_group enqueues the calls over collected keys, with head group g. rehearse: only ops that have not run
 * on the stream yet are launched. */
GA_NODISCARD ga_status dist_gather_run_local(dist_device *e, bool rehearse);
GA_NODISCARD ga_status dist_gather_run_group(dist_device *e, int32_t g, bool rehearse);

#endif
