/* The plain evaluation of attention, by which the error of kernels is bounded: sums in f32, one query row after the
 * other. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_PLAIN_H
#define GA_VERIFY_CHECK_CHECK_ATTN_PLAIN_H

#include "verify/check/check.h"

typedef struct check_attn_row {
  const ga_attn_desc *d;
  const ga_attn_io *a;
  int64_t b, i, n_q, n_kv, q_first, kv_first;
  int h;
  const ga_attn_stretch *stretch; /* the stretch of Q whose rows begin at q_first; NULL: the call has no stretches */
  bool tensor;                    /* products are computed as tensor cores do */
  bool as_kv;                     /* q and o are rounded to the type of K and V */
  bool rounds;                    /* weights are rounded to the type of V */
  float *s;                       /* [n_kv] logits */
  float *o;                       /* [v_dim] the output row */
  double *q;                      /* [head_dim] the query, loaded by check_attn_load_query */
  double *kv;                     /* [head_dim or v_dim, the larger] the current key or value */
} check_attn_row;

typedef struct check_attn_key {
  const void *k, *v;
  int64_t j;      /* index of the key in its array */
  int64_t p;      /* position of the query, in the same count as j */
  bool elsewhere; /* the key is in another document than the query */
} check_attn_key;

bool check_attn_is_scaled_cache(const ga_attn_desc *d);
/* Returns the number of sequences, or of stretches of Q. */
int64_t check_attn_sequences(const ga_attn_desc *d);
/* Returns a row of sequence b; the caller sets i and h. */
check_attn_row check_attn_sequence(const ga_attn_desc *d, const ga_attn_io *a, int64_t b);
/* Returns key number j, counted through all segments or stretches. */
check_attn_key check_attn_key_of(const check_attn_row *r, int64_t j);
/* Returns the offset, in elements, of row j of K or V. */
int64_t check_attn_kv_at(const check_attn_row *r, const ga_attn_strides *s, int64_t j);
/* Returns the scale of key j of an e4m3 cache; 1 for other types. */
float check_attn_scale_of(const check_attn_row *r, const ga_attn_scale *s, int64_t j);
/* Loads the query of row (i, h) into r->q, rounded as the kernel does. */
void check_attn_load_query(const check_attn_row *r);
/* Returns the logit of key n; -infinity: the row does not see it. The row's query must be loaded. */
float check_attn_logit(const check_attn_row *r, int64_t n);
ga_status check_attn_plain(const ga_kernel *kernel, const void *desc, const void *io);

#endif
