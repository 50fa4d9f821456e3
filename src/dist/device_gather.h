/* A plan of plain calls (gather.h) on a device, from the inside: device_gather.c orders the streams, and moves gathered
 * keys and gradients; device_split.c moves tensors where heads are split; device_gather_calls.c makes the calls. */
#ifndef GA_DIST_DEVICE_GATHER_H
#define GA_DIST_DEVICE_GATHER_H

#include "dist/device.h"
#include "dist/gather.h"

enum { SPLIT_WHOLE = 2 };

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
  /* Where heads are split: */
  void *whole[SPLIT_WHOLE];             /* O or dQ, and dK with dV, of all tokens and the rank's heads */
  ga_stream *taking;                    /* results that peers have sent go to the caller's tensors */
  ga_event *copied[GATHER_MOST_GROUPS]; /* behind own rows of a group's inputs */
  /* Where devices do not write into each other's memory: */
  void *packed[2]; /* what a group of heads receives, and what it sends */
  ga_link_message *messages;
};

/* Tensors of calls: what queries bring (Q, backward O, dO and LSE, too), keys; O or dQ; backward dK and dV. */
typedef struct gather_views {
  block_view q, kv, out, dkv;
} gather_views;

/* Heads of a group: of keys, and of the queries that read them. */
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

/* Row `key` of the sums, of a head. */
static inline float *dist_sum_at(const dist_device *e, int c, int64_t key, int32_t head) {
  const dist_problem *p = &e->plan->p;
  return e->gather->sums[c] + (key * p->kv_heads + head) * dist_gather_dim(p, c);
}

/* Some heads of all rows of a view of keys, and the same in [tokens, kv_heads, dim]. packed: rows of the view lie one
 * behind the other, else they are the rank's own. */
GA_NODISCARD ga_status dist_copy_heads(ga_stream *stream, const block_view *v, bool packed,
                                       void *const all[GATHER_PARTS], bool to_view, const group_heads *h);

/* A step moves inputs, or results, from or to a peer; peer -1: any. */
static inline bool dist_gather_moves(const dist_step *s, int32_t kind, bool results, int32_t peer) {
  return s->kind == kind && dist_is_result(s->tensor) == results && (peer < 0 || s->peer == peer);
}

/* Heads of a group in the block of a step. */
static inline dist_heads dist_heads_of_step(const dist_device *e, const dist_step *s, int32_t g) {
  const int32_t n = s->heads / e->gather->groups, begin = s->head + g * n;
  return (dist_heads){begin, begin + n};
}

/* --- where heads are split: device_split.c --- */

/* Bytes of a device, beside the window. */
int64_t dist_split_memory(const dist_problem *p, int32_t rank);
GA_NODISCARD ga_status dist_split_create(dist_device *e);
void dist_split_destroy(dist_device *e);
gather_views dist_split_views(const dist_device *e);
/* Of all groups, one behind the other: own rows of inputs go to their places, on `local`, and others are pushed theirs,
 * on `copies`; those of an exchange go group by group. */
GA_NODISCARD ga_status dist_split_send_inputs(dist_device *e);
/* Results of a group go to their owners and into the caller's tensors. */
GA_NODISCARD ga_status dist_split_send_results(dist_device *e, int32_t g);
/* A message: into its memory, and out of it. */
GA_NODISCARD ga_status dist_split_pack(dist_device *e, const dist_step *s, const block_view *packed);
GA_NODISCARD ga_status dist_split_unpack(dist_device *e, const dist_step *s, const block_view *packed);
GA_NODISCARD ga_status dist_split_clear(dist_device *e);

/* --- device_gather.c --- */

/* What inputs or results of a group are called on a timeline. */
static inline const char *dist_gather_moved(const dist_device *e, bool results) {
  if (e->plan->p.splits_heads) return results ? "results" : "inputs";
  return dist_tensor_name(results ? DIST_DKV : DIST_KV);
}

/* That a group of heads sends to a peer, to all with peer = -1. */
int64_t dist_gather_sent_bytes(const dist_device *e, bool results, int32_t peer);

/* --- device_gather_exchange.c --- */

GA_NODISCARD ga_status dist_gather_exchange_create(dist_device *e);
void dist_gather_exchange_destroy(dist_device *e);
/* On the stream of copies, inputs and results of a group go from and to all others. */
GA_NODISCARD ga_status dist_gather_exchange_inputs(dist_device *e, int32_t g);
GA_NODISCARD ga_status dist_gather_exchange_results(dist_device *e, int32_t g);

/* --- device_gather_calls.c --- */

/* Lists the calls, and brings what packed ones need to the device. */
GA_NODISCARD ga_status dist_gather_prepare_calls(dist_device *e);
/* Bytes of a device for that. */
int64_t dist_gather_starts_bytes(const dist_problem *p, int32_t rank);
/* Those of local documents, all heads; those over gathered keys, a group of heads. rehearse: only what is new. */
GA_NODISCARD ga_status dist_gather_run_local(dist_device *e, bool rehearse);
GA_NODISCARD ga_status dist_gather_run_group(dist_device *e, int32_t g, bool rehearse);

#endif
