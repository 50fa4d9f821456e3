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

#define ATTN_KEYS          64  /* keys a tile */
#define ATTN_SPLIT_QUERIES 8   /* at most this many queries: the keys are split */
#define ATTN_SPLIT_MIN     256 /* keys a split, at least; a multiple of ATTN_KEYS */
#define ATTN_SPLITS        32  /* at most */
#define ATTN_UNIT_HEADS    8   /* KV heads a unit of few queries, at most */

/* Sizes that follow from the description. */
typedef struct attn_shape {
  int group;                                         /* query heads a KV head */
  int chunk, n_chunks;                               /* query heads that share a unit; chunks of a group */
  int q_tile;                                        /* queries a unit */
  int rows;                                          /* chunk * q_tile, at most 128 */
  int unit_heads;                                    /* KV heads of a unit of few queries */
  int state_rows;                                    /* rows of a unit's q, acc, m, l */
  int64_t head_pad, v_pad;                           /* dims rounded up to 16 floats */
  int64_t partial_q, partial_splits, partial_floats; /* partial results: [batch, q_heads, q, split, floats] */
} attn_shape;

typedef struct attn_sequence {
  int64_t b, n_q, n_kv;
  int64_t q_first, kv_first;    /* row of the packed arrays (VARLEN), else 0 */
  int64_t split_keys, n_splits; /* n_splits 0: not split, cut into n_tiles tiles of queries */
  int64_t first_split, n_tiles;
  const ga_attn_stretch *stretch; /* of Q, from row q_first on; keys are counted through all stretches. NULL: none */
} attn_sequence;

typedef struct attn_unit {
  attn_sequence s;
  int kv_head, n_kv_heads; /* more than one only without chunks */
  int head, n_heads;       /* query heads [head, head + n_heads) of KV head kv_head */
  int64_t q, n_q;          /* queries [q, q + n_q) */
  int64_t key_begin, key_end;
  int64_t split; /* number of its partial results; -1: it writes the output */
} attn_unit;

typedef struct attn_job attn_job;
typedef void (*attn_unit_fn)(const attn_job *job, const attn_unit *unit, float *scratch);

struct attn_job {
  const ga_attn_desc *d;
  const ga_attn_io *a;
  attn_shape shape;
  attn_unit_fn fn;
  int64_t *first_unit; /* [sequences + 1]: of the batch, or of its stretches of Q */
  float *partials;
  float *scratch;
  uint64_t scratch_floats; /* a thread */
};

/* First and one past the last key that query i sees. */
void attn_visible(const attn_job *job, const attn_sequence *s, int64_t i, int64_t *begin, int64_t *end);

/* Floats from one (head, query) to the next. */
static inline float *attn_partial(const attn_job *job, int64_t b, int64_t head, int64_t q, int64_t split) {
  const attn_shape *h = &job->shape;
  return job->partials +
         (((b * job->d->q_heads + head) * h->partial_q + q) * h->partial_splits + split) * h->partial_floats;
}

/* Writes acc[v_dim] / l into the output row, with the sink added, and LSE. m: largest logit, -infinity when no key was
 * seen. */
void attn_finish_row(const attn_job *job, const attn_sequence *s, int head, int64_t q, float m, float l,
                     const float *acc);

/* Divides the work, runs and merges it. Launch functions are one call of this. */
ga_status cpu_attn_run(const ga_kernel *kernel, const ga_attn_desc *d, const ga_attn_io *a, void *workspace,
                       ga_stream *stream, attn_unit_fn fn);

#endif
