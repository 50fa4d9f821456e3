/* Attention on the CPU: division of the work into units. The arithmetic is in body/attn_tmpl.h.
 *
 *   queries of a sequence  a unit computes                                                          results
 *   many                   a tile of queries of one KV head, with all or 16 of its query heads      final
 *   few                    all queries, for several KV heads, over one split of the keys            merged later
 *
 * A unit of few queries reads keys and values in the order of their addresses. The borders of tiles and splits depend
 * on the sequence's own lengths alone, and KV heads are independent. Results therefore depend neither on the number of
 * threads nor on the rest of the batch.
 *
 * With GA_ATTN_INVARIANT keys are never split, tiles of keys begin at multiples of ATTN_KEYS, and sums have one order
 * for any number of rows. A key that a row does not see adds 0 to the row's sums. */
#ifndef GA_CPU_CPU_ATTN_H
#define GA_CPU_CPU_ATTN_H

#include "cpu/cpu_layer.h"
#include "ga/mla.h"

/* Number of keys of a tile. */
#define ATTN_KEYS 64
/* Keys are split only for sequences of at most this many queries. */
#define ATTN_SPLIT_QUERIES 8
/* Least number of keys of a split, a multiple of ATTN_KEYS. */
#define ATTN_SPLIT_MIN 256
/* Largest number of splits of a sequence's keys. */
#define ATTN_SPLITS 32
/* Largest number of KV heads of a unit with few queries. */
#define ATTN_UNIT_HEADS 8

/* Sizes that follow from the description of a call. */
typedef struct attn_shape {
  /* Number of query heads per KV head. */
  int group;
  /* chunk is the number of query heads that share a unit. n_chunks is the number of chunks into which a KV head's query
   * heads are divided. */
  int chunk, n_chunks;
  /* Number of queries of a unit. */
  int q_tile;
  /* Number of rows of a unit, chunk * q_tile, at most 128. */
  int rows;
  /* Number of KV heads of a unit with few queries. */
  int unit_heads;
  /* Number of rows of q, acc, m and l (attn_tmpl.h) for which a unit has memory, over all its KV heads. */
  int state_rows;
  /* head_dim and v_dim, rounded up to multiples of 16 floats. */
  int64_t head_pad, v_pad;
  /* Sizes of the array of partial results, [batch, q_heads, partial_q, partial_splits, partial_floats]. */
  int64_t partial_q, partial_splits, partial_floats;
} attn_shape;

typedef struct attn_sequence {
  int64_t b, n_q, n_kv;
  /* Rows of Q (q_first), and of K and V (kv_first), at which the sequence begins in packed arrays (GA_ATTN_VARLEN).
   * Otherwise 0. */
  int64_t q_first, kv_first;
  /* Number of keys in a split, and number of splits. If n_splits is 0, the keys are not split, and the queries are
   * divided into n_tiles tiles. */
  int64_t split_keys, n_splits;
  int64_t first_split, n_tiles;
  /* Stretch of Q that this struct stands for; it begins at row q_first. Its keys are counted through all stretches of
   * K. NULL: the sequence has no stretches. */
  const ga_attn_stretch *stretch;
} attn_sequence;

typedef struct attn_unit {
  attn_sequence s;
  /* The unit's KV heads are [kv_head, kv_head + n_kv_heads). n_kv_heads is 1 if the query heads of a KV head are
   * divided into several chunks. */
  int kv_head, n_kv_heads;
  /* Query heads [head, head + n_heads), which read KV head kv_head. */
  int head, n_heads;
  /* Queries of the unit: [q, q + n_q). */
  int64_t q, n_q;
  int64_t key_begin, key_end;
  /* Index of the split of keys, for which the unit stores partial results. -1: keys are not split, and the unit writes
   * the output. */
  int64_t split;
} attn_unit;

typedef struct attn_job attn_job;
typedef void (*attn_unit_fn)(const attn_job *job, const attn_unit *unit, float *scratch);

struct attn_job {
  const ga_attn_desc *d;
  const ga_attn_io *a;
  attn_shape shape;
  attn_unit_fn fn;
  /* Index of the first unit of each sequence, or of each stretch of Q, [sequences + 1]. */
  int64_t *first_unit;
  float *partials;
  float *scratch;
  /* Number of floats of scratch memory per thread. */
  uint64_t scratch_floats;
};

/* Sets [*begin, *end) to the keys of sequence s that its query i sees. */
void attn_visible(const attn_job *job, const attn_sequence *s, int64_t i, int64_t *begin, int64_t *end);

/* Returns the address of the partial result of sequence b, query q and query head `head` for a split of the keys.
 * Results of consecutive splits are shape.partial_floats floats apart. */
static inline float *attn_partial(const attn_job *job, int64_t b, int64_t head, int64_t q, int64_t split) {
  const attn_shape *h = &job->shape;
  return job->partials +
         (((b * job->d->q_heads + head) * h->partial_q + q) * h->partial_splits + split) * h->partial_floats;
}

/* Finishes a row: adds the attention sink to l, and writes acc / l to O and the LSE to its array. acc [v_dim] is the
 * sum of weighted values, l the sum of weights, m the largest logit, -infinity if no key was seen. */
void attn_finish_row(const attn_job *job, const attn_sequence *s, int head, int64_t q, float m, float l,
                     const float *acc);

/* Divides the work into units, calls fn for each and merges partial results. Each kernel's launch function is one call
 * of this function, with its own fn. */
ga_status cpu_attn_run(const ga_kernel *kernel, const ga_attn_desc *d, const ga_attn_io *a, void *workspace,
                       ga_stream *stream, attn_unit_fn fn);

/* Runs a call of ga_mla as calls of `attention`, the launch of attention of an instruction set: its only KV head has
 * the first elements of keys as values. Rows of e4m3 become bf16 in the workspace, a sequence at a time. GA_ERR_ARG: a
 * sequence has more queries or tokens than the description allows, or begins before 0. */
GA_NODISCARD ga_status cpu_mla_run(const ga_kernel *kernel, const ga_mla_desc *d, const ga_mla_io *a, void *workspace,
                                   ga_stream *stream, ga_kernel_launch attention);

#endif
