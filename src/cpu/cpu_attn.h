/* Attention on the CPU: division of the work into units. The arithmetic is in body/attn_tmpl.h.
 *
 *   queries of a sequence  unit                                                                             results
 *   many                   a tile of queries of one KV head, or of a chunk of its query heads; all keys     final
 *   few                    all queries, for several KV heads; one split of the keys                         merged
 *
 * Units of few queries read memory in its order. The borders of tiles and splits depend on the sequence's own lengths
 * alone, and KV heads are independent. Results therefore depend neither on the number of threads nor on the rest of the
 * batch. GA_ATTN_INVARIANT: there are only tiles of queries, keys begin at multiples of ATTN_KEYS, and sums have one
 * order for any number of rows. A key that a row does not see adds 0 to it. */
#ifndef GA_CPU_CPU_ATTN_H
#define GA_CPU_CPU_ATTN_H

#include "cpu/cpu_layer.h"

/* Number of keys of a tile. */
#define ATTN_KEYS 64
/* Largest number of queries of a sequence for which the keys are split. */
#define ATTN_SPLIT_QUERIES 8
/* Least number of keys of a split, a multiple of ATTN_KEYS. */
#define ATTN_SPLIT_MIN 256
/* Largest number of splits. */
#define ATTN_SPLITS 32
/* Largest number of KV heads of a unit with few queries. */
#define ATTN_UNIT_HEADS 8

/* Sizes that follow from the description of a call. */
typedef struct attn_shape {
  /* Number of query heads per KV head. */
  int group;
  /* chunk is the number of query heads that share a unit; n_chunks is the number of chunks of a group. */
  int chunk, n_chunks;
  /* Number of queries of a unit. */
  int q_tile;
  /* Number of rows of a unit, chunk * q_tile, at most 128. */
  int rows;
  /* Number of KV heads of a unit with few queries. */
  int unit_heads;
  /* Number of rows of a unit's q, acc, m and l. */
  int state_rows;
  /* head_dim and v_dim, rounded up to multiples of 16 floats. */
  int64_t head_pad, v_pad;
  /* Sizes of the partial results: [batch, q_heads, partial_q, partial_splits, partial_floats]. */
  int64_t partial_q, partial_splits, partial_floats;
} attn_shape;

typedef struct attn_sequence {
  int64_t b, n_q, n_kv;
  /* First rows of the sequence in the packed arrays (VARLEN), otherwise 0. */
  int64_t q_first, kv_first;
  /* Keys of a split, and number of splits. n_splits 0: the keys are not split, and the queries are cut into n_tiles
   * tiles. */
  int64_t split_keys, n_splits;
  int64_t first_split, n_tiles;
  /* Stretch of Q, which begins at row q_first. Keys are counted through all stretches. NULL: the sequence has no
   * stretches. */
  const ga_attn_stretch *stretch;
} attn_sequence;

typedef struct attn_unit {
  attn_sequence s;
  /* First KV head and number of KV heads. A unit has more than one only without chunks. */
  int kv_head, n_kv_heads;
  /* Query heads [head, head + n_heads), which read KV head kv_head. */
  int head, n_heads;
  /* Queries [q, q + n_q). */
  int64_t q, n_q;
  int64_t key_begin, key_end;
  /* Index of the unit's partial results. -1: the unit writes the output. */
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

/* Sets [*begin, *end) to the keys that query i sees. */
void attn_visible(const attn_job *job, const attn_sequence *s, int64_t i, int64_t *begin, int64_t *end);

/* Returns the address of a partial result of query q and query head `head`. Results of consecutive splits are
 * shape.partial_floats floats apart. */
static inline float *attn_partial(const attn_job *job, int64_t b, int64_t head, int64_t q, int64_t split) {
  const attn_shape *h = &job->shape;
  return job->partials +
         (((b * job->d->q_heads + head) * h->partial_q + q) * h->partial_splits + split) * h->partial_floats;
}

/* Writes acc[v_dim] / l, with the sink added, and the LSE to the output row. m is the largest logit, -infinity when no
 * key was seen. */
void attn_finish_row(const attn_job *job, const attn_sequence *s, int head, int64_t q, float m, float l,
                     const float *acc);

/* Divides the work into units, runs `fn` on them and merges the partial results. The kernels' launch functions consist
 * of one call of this function. */
ga_status cpu_attn_run(const ga_kernel *kernel, const ga_attn_desc *d, const ga_attn_io *a, void *workspace,
                       ga_stream *stream, attn_unit_fn fn);

#endif
