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
  /* One event for each group of heads, recorded after the group's calls. The sends of the group's results to other
   * ranks wait for it. */
  ga_event *returned[GATHER_MOST_GROUPS];
  gather_list list;
  int64_t covered; /* Number of queries that are in some call of attention. */
  /* Arrays q_start, q_len, kv_start and kv_len of the calls of each batch, in device memory. */
  int32_t *starts;
  /* Indices of the rank's own stretches of Q (q_gathered) and of K and V (kv_gathered). Stretches of local documents
   * (gather.h) are left out. */
  int32_t *q_gathered, *kv_gathered;
  int64_t n_q_gathered, n_kv_gathered;
  const dist_step **moves; /* SEND, RECEIVE and MERGE steps of the rank's program, in its order, [n_moves]. */
  int64_t n_moves;
  int32_t groups;
  /* K (index 0) and V (index 1) of all tokens, in the rank's window. */
  void *keys[GATHER_PARTS];
  /* Backward pass: sums of dK (index 0) and of dV (index 1) of all tokens. */
  float *sums[GATHER_PARTS];
  float *lse[2]; /* Log-sum-exp of the calls, one array for each of the streams `compute` and `second`. */
  /* Shapes of ops that a rehearsal has launched, for each of the streams `compute` and `second`. */
  tile_shapes shapes[2];
  /* Tensors of the previous run. */
  ga_dist_tensors last;
  /* CUDA graph of a run with the tensors `last`. NULL: no graph has been recorded. */
  ga_graph *graph;
  bool may_record;
  uint64_t run_bytes; /* Number of bytes that a run sends. */
  /* The fields from `whole` to `copied` are used where heads are split. whole[0] has O or dQ, and whole[1] has dK with
   * dV, of all tokens and the rank's heads. */
  void *whole[SPLIT_WHOLE];
  /* Stream that copies results from peers into the caller's tensors. */
  ga_stream *taking;
  /* One event for each group of heads, recorded after the copies of the rank's own inputs. */
  ga_event *copied[GATHER_MOST_GROUPS];
  /* The fields below are used where devices do not write into each other's memory. */
  void *packed[2]; /* Memory for the messages that a group of heads receives (index 0) and sends (index 1). */
  ga_link_message *messages;
};

/* Views of the tensors that calls of attention use. q has Q, and in the backward pass also O, dO and LSE. kv has K and
 * V. out has O or dQ. dkv has dK and dV, and is used in the backward pass only. */
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

/* Returns the address of row `key` and KV head `head` in gather->sums: dK (c = 0) or dV (c = 1), in f32. */
static inline float *dist_sum_at(const dist_device *e, int c, int64_t key, int32_t head) {
  const dist_problem *p = &e->plan->p;
  return e->gather->sums[c] + (key * p->kv_heads + head) * dist_gather_dim(p, c);
}

/* Copies the heads h of all rows of v, a view of keys, to the arrays `all` of K and V, [tokens, kv_heads, dim]. With
 * to_view it copies from the arrays to the view. packed: the view's rows are contiguous in memory; otherwise they are
 * rows of the rank's own tensors. */
GA_NODISCARD ga_status dist_copy_heads(ga_stream *stream, const block_view *v, bool packed,
                                       void *const all[GATHER_PARTS], bool to_view, const group_heads *h);

/* Returns whether step s has kind `kind` and transfers inputs (or results) from or to `peer`. -1 stands for any
 * peer. */
static inline bool dist_gather_moves(const dist_step *s, int32_t kind, bool results, int32_t peer) {
  return s->kind == kind && dist_is_result(s->tensor) == results && (peer < 0 || s->peer == peer);
}

/* Returns the heads of step s's block that belong to head group g. */
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
 * rows for peers on stream `copies`. If e->exchange is set, only own rows are copied; dist_gather_exchange_inputs sends
 * the others. */
GA_NODISCARD ga_status dist_split_send_inputs(dist_device *e);
/* Enqueues the sends of head group g's results to the ranks that own the rows; own rows go to the caller's tensors. If
 * e->exchange is set, only own rows are copied; dist_gather_exchange_results sends the others. */
GA_NODISCARD ga_status dist_split_send_results(dist_device *e, int32_t g);
/* dist_split_pack copies the block that step s sends into the message's memory `packed`. dist_split_unpack copies the
 * block that step s receives out of it. */
GA_NODISCARD ga_status dist_split_pack(dist_device *e, const dist_step *s, const block_view *packed);
GA_NODISCARD ga_status dist_split_unpack(dist_device *e, const dist_step *s, const block_view *packed);
GA_NODISCARD ga_status dist_split_clear(dist_device *e);

/* --- device_gather.c --- */

/* Returns the name, a static string, under which a timeline shows the inputs or results of a group of heads. */
static inline const char *dist_gather_moved(const dist_device *e, bool results) {
  if (e->plan->p.splits_heads) return results ? "results" : "inputs";
  return dist_tensor_name(results ? DIST_DKV : DIST_KV);
}

/* Returns the bytes of inputs or results that one group of heads sends to `peer`. -1: to all peers. */
int64_t dist_gather_sent_bytes(const dist_device *e, bool results, int32_t peer);

/* --- device_gather_exchange.c --- */

GA_NODISCARD ga_status dist_gather_exchange_create(dist_device *e);
void dist_gather_exchange_destroy(dist_device *e);
/* Enqueue, on stream `copies`, the exchange of head group g's inputs or results with all other ranks. */
GA_NODISCARD ga_status dist_gather_exchange_inputs(dist_device *e, int32_t g);
GA_NODISCARD ga_status dist_gather_exchange_results(dist_device *e, int32_t g);

/* --- device_gather_calls.c --- */

/* Lists the rank's calls of attention in dist_gather.list. Copies the first rows and the lengths of calls that share a
 * launch to dist_gather.starts. */
GA_NODISCARD ga_status dist_gather_prepare_calls(dist_device *e);
/* Returns the size in bytes of dist_gather.starts, the first rows and lengths of calls that share a launch. */
int64_t dist_gather_starts_bytes(const dist_problem *p, int32_t rank);
/* Enqueue calls of attention. dist_gather_run_local enqueues the calls over local documents (gather.h), with all heads.
 * dist_gather_run_group enqueues the calls over collected keys, with head group g. rehearse: only ops that have not run
 * on the stream yet are launched. */
GA_NODISCARD ga_status dist_gather_run_local(dist_device *e, bool rehearse);
GA_NODISCARD ga_status dist_gather_run_group(dist_device *e, int32_t g, bool rehearse);

#endif
