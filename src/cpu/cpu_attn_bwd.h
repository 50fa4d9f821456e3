/* Gradients of attention on the CPU: division of the work into units. The arithmetic is in body/attn_bwd_tmpl.h.
 *
 * If there are many KV heads, a unit is one KV head. For each pair of a tile of keys and a tile of queries it computes
 * five products. dQ is summed in the output array.
 *
 * If there are few KV heads, or with GA_ATTN_BWD_ADD_DQ, a unit is one tile. It computes dK and dV of a tile of keys,
 * or dQ of a tile of queries, which takes seven products in all.
 *
 * Both ways add in the same order, so results are bitwise equal. Results depend neither on the number of threads nor on
 * the rest of the batch. */
#ifndef GA_CPU_CPU_ATTN_BWD_H
#define GA_CPU_CPU_ATTN_BWD_H

#include "cpu/cpu_layer.h"
#include "opdef/attn_rows.h"

#define BWD_TILE 64 /* Number of queries, and of keys, of a tile. */

typedef struct bwd_sequence {
  int64_t b, n_q, n_kv;
  /* Rows of Q (q_first), and of K and V (kv_first), at which the sequence begins in packed arrays (GA_ATTN_VARLEN).
   * Otherwise 0. */
  int64_t q_first, kv_first;
} bwd_sequence;

typedef enum bwd_kind {
  BWD_HEAD,   /* dQ, dK and dV of the whole KV head `head` */
  BWD_KEYS,   /* dK and dV of tile `tile` of KV head `head` */
  BWD_QUERIES /* dQ of tile `tile` of query head `head` */
} bwd_kind;

typedef struct bwd_unit {
  bwd_kind kind;
  bwd_sequence s;
  int head;
  int64_t tile;
} bwd_unit;

typedef struct bwd_job bwd_job;
typedef void (*bwd_unit_fn)(const bwd_job *job, const bwd_unit *unit, float *scratch);

struct bwd_job {
  const ga_attn_bwd_desc *d;
  const ga_attn_bwd_io *a;
  bwd_unit_fn fn;
  /* True: each unit is a whole KV head (BWD_HEAD). */
  bool heads;
  /* head_dim and v_dim, rounded up to multiples of 16 floats. */
  int64_t head_pad, v_pad;
  int64_t n_units;
  float *scratch;
  /* Number of floats of scratch memory per thread. */
  uint64_t scratch_floats;
};

/* Returns the offset, in elements, of token i of sequence s and head `head` in an array with the given strides. `first`
 * is the sequence's first row if arrays are packed, else 0. */
static inline int64_t bwd_at(const ga_attn_bwd_desc *d, const ga_attn_strides *stride, const bwd_sequence *s,
                             int64_t first, int64_t i, int64_t head) {
  return (d->flags & GA_ATTN_VARLEN ? 0 : s->b * stride->batch) + (first + i) * stride->token + head * stride->head;
}
/* Sets [*begin, *end) to the keys of sequence s that its query i sees. */
void bwd_keys_of(const ga_attn_bwd_desc *d, const bwd_sequence *s, int64_t i, int64_t *begin, int64_t *end);
/* Sets [*begin, *end) to the queries that see any of the keys [j, j + n). */
void bwd_queries_of(const ga_attn_bwd_desc *d, const bwd_sequence *s, int64_t j, int64_t n, int64_t *begin,
                    int64_t *end);

/* Divides the work into units and calls fn for each. Each kernel's launch function is one call of this function, with
 * its own fn. */
ga_status cpu_attn_bwd_run(const ga_kernel *kernel, const ga_attn_bwd_desc *d, const ga_attn_bwd_io *a, void *workspace,
                           ga_stream *stream, bwd_unit_fn fn);

#endif
