/* A plan that gathers keys on a device, from the inside: device_gather.c moves keys and gradients and orders the
 * streams, device_gather_calls.c makes the calls. */
#ifndef GA_DIST_DEVICE_GATHER_H
#define GA_DIST_DEVICE_GATHER_H

#include "dist/device.h"
#include "dist/gather.h"

struct dist_gather {
  ga_stream *second, *local;
  ga_event *returned[GATHER_MOST_GROUPS]; /* behind the calls whose dK, dV go to others */
  gather_list list;
  int64_t covered;                   /* queries that some call has */
  int32_t *starts;                   /* on the device: for each batch its calls' q_start, q_len, kv_start, kv_len */
  int32_t *q_gathered, *kv_gathered; /* own stretches, all but those of local documents */
  int64_t n_q_gathered, n_kv_gathered;
  const dist_step **moves; /* [n_moves] sends, receives and merges of the rank's program, in its order */
  int64_t n_moves;
  int32_t groups;
  void *keys[GATHER_PARTS];  /* K, V of all tokens, in the window */
  float *sums[GATHER_PARTS]; /* backward: dK, dV of all tokens */
  float *lse[2];             /* of a call, for each of the two computing streams */
  tile_shapes shapes[2];     /* the same: what has been rehearsed */
  ga_dist_tensors last;      /* of the run before */
  ga_graph *graph;           /* of a run with these; NULL: not recorded */
  bool may_record;
  uint64_t run_bytes; /* that a run sends */
  /* Where devices do not write into each other's memory: */
  void *packed[2]; /* what a group of heads receives, and what it sends */
  ga_link_message *messages;
};

/* Heads of a group: of keys, and of the queries that read them. */
typedef struct group_heads {
  int32_t kv, n_kv, q, n_q;
} group_heads;

static inline bool dist_is_backward(const dist_device *e) { return e->plan->p.flags & GA_DIST_BACKWARD; }

static inline group_heads dist_heads_of_group(const dist_device *e, int32_t g) {
  const dist_problem *p = &e->plan->p;
  const int32_t n_kv = p->kv_heads / e->gather->groups, each = p->q_heads / p->kv_heads;
  return (group_heads){.kv = g * n_kv, .n_kv = n_kv, .q = g * n_kv * each, .n_q = n_kv * each};
}

/* Row `key` of the sums, of a head. */
static inline float *dist_sum_at(const dist_device *e, int c, int64_t key, int32_t head) {
  const dist_problem *p = &e->plan->p;
  return e->gather->sums[c] + (key * p->kv_heads + head) * dist_gather_dim(p, c);
}

/* Some heads of all rows of a view of keys, and the same in [tokens, kv_heads, dim]. packed: rows of the view lie one
 * behind the other, else they are the rank's own. */
GA_NODISCARD ga_status dist_copy_heads(ga_stream *stream, const block_view *v, bool packed,
                                       void *const all[GATHER_PARTS], bool to_view, const group_heads *h);

/* That a group of heads sends to a peer, to all with peer = -1. */
int64_t dist_gather_sent_bytes(const dist_device *e, int32_t tensor, int32_t peer);

/* --- device_gather_exchange.c --- */

GA_NODISCARD ga_status dist_gather_exchange_create(dist_device *e);
void dist_gather_exchange_destroy(dist_device *e);
/* On the stream of copies, keys and gradients of a group go from and to all others. */
GA_NODISCARD ga_status dist_gather_exchange_keys(dist_device *e, int32_t g);
GA_NODISCARD ga_status dist_gather_exchange_gradients(dist_device *e, int32_t g);

/* --- device_gather_calls.c --- */

/* Lists the calls, and brings what packed ones need to the device. */
GA_NODISCARD ga_status dist_gather_prepare_calls(dist_device *e);
/* Bytes of a device for that. */
int64_t dist_gather_starts_bytes(const dist_problem *p, int32_t rank);
/* Those of local documents, all heads; those over gathered keys, a group of heads. rehearse: only what is new. */
GA_NODISCARD ga_status dist_gather_run_local(dist_device *e, bool rehearse);
GA_NODISCARD ga_status dist_gather_run_group(dist_device *e, int32_t g, bool rehearse);

#endif
