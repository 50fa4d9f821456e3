/* The plain evaluation of attention: sums in f32, one query row after the other. Its error is the measure for the
 * errors of kernels. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_PLAIN_H
#define GA_VERIFY_CHECK_CHECK_ATTN_PLAIN_H

#include "verify/check/check.h"

typedef struct check_attn_row {
  const ga_attn_desc *d;
  const ga_attn_io *a;
  int64_t b, i, n_q, n_kv, q_first, kv_first;
  int h;
  const ga_attn_stretch *stretch; /* stretch of Q whose rows begin at q_first; NULL: the call has no stretches */
  bool tensor;                    /* products are summed as tensor cores sum them */
  bool as_kv;                     /* q and o are rounded to the type of K and V */
  bool rounds;                    /* softmax weights are rounded to the type of V */
  float *s;                       /* [n_kv] logits */
  float *o;                       /* [v_dim] the output row */
  double *q;                      /* [head_dim] the query, which check_attn_load_query loads */
  double *kv;                     /* [head_dim or v_dim, whichever is larger] the current key or value */
} check_attn_row;

typedef struct check_attn_key {
  const void *k, *v;
  int64_t j;      /* index of the key in the array of keys */
  int64_t p;      /* position of the query, as the index j of a key at the same position */
  bool elsewhere; /* the key is in another document than the query, which does not see it */
} check_attn_key;

bool check_attn_is_scaled_cache(const ga_attn_desc *d);
/* Returns the number of sequences of a call, or of stretches of Q. */
int64_t check_attn_sequences(const ga_attn_desc *d);
/* Returns the state for the rows of sequence number b. The caller sets its fields i (query) and h (head). */
check_attn_row check_attn_sequence(const ga_attn_desc *d, const ga_attn_io *a, int64_t b);
/* Returns key number j of the sequence, counted through all segments or stretches. */
check_attn_key check_attn_key_of(const check_attn_row *r, int64_t j);
/* Returns the offset, in elements, of row j of K or V. s: strides of that array. */
int64_t check_attn_kv_at(const check_attn_row *r, const ga_attn_strides *s, int64_t j);
/* Returns the scale of key j in a cache of e4m3 numbers; 1 for other types. */
float check_attn_scale_of(const check_attn_row *r, const ga_attn_scale *s, int64_t j);
/* Loads the query of row r->i and head r->h into r->q, rounded as the kernel rounds it. */
void check_attn_load_query(const check_attn_row *r);
/* Returns the logit of key number n; -infinity: the query does not see the key. The query must have been loaded. */
float check_attn_logit(const check_attn_row *r, int64_t n);
ga_status check_attn_plain(const ga_kernel *kernel, const void *desc, const void *io);

#endif
