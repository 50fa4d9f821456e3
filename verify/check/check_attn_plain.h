/* The plain evaluation of attention that bounds the error of rows: sums in f32, by one row after the other. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_PLAIN_H
#define GA_VERIFY_CHECK_CHECK_ATTN_PLAIN_H

#include "verify/check/check.h"

typedef struct check_attn_row {
  const ga_attn_desc *d;
  const ga_attn_io *a;
  int64_t b, i, n_q, n_kv, q_first, kv_first;
  int h;
  const ga_attn_stretch *stretch; /* of Q, from row q_first on; keys are counted through all stretches. Else NULL */
  bool tensor;                    /* products as tensor cores take them */
  bool as_kv;                     /* q and o rounded to the type of K and V */
  bool rounds;                    /* weights rounded to the type of V */
  float *s;                       /* logits [n_kv] */
  float *o;                       /* [v_dim] */
  double *q;                      /* [head_dim], see check_attn_load_query */
  double *kv;                     /* [head_dim or v_dim, the larger]: the key or value at work */
} check_attn_row;

typedef struct check_attn_key {
  const void *k, *v;
  int64_t j, p;   /* index in its array, place of the query */
  bool elsewhere; /* in another document */
} check_attn_key;

bool check_attn_is_scaled_cache(const ga_attn_desc *d);
/* Sequences: of the batch, or of its stretches of Q. */
int64_t check_attn_sequences(const ga_attn_desc *d);
/* The row (i, h to be set by the caller) of sequence b. */
check_attn_row check_attn_sequence(const ga_attn_desc *d, const ga_attn_io *a, int64_t b);
/* The key that comes j-th when all parts are counted through. */
check_attn_key check_attn_key_of(const check_attn_row *r, int64_t j);
/* Element where row j of K or V begins. */
int64_t check_attn_kv_at(const check_attn_row *r, const ga_attn_strides *s, int64_t j);
/* Of key j of an e4m3 cache, else 1. */
float check_attn_scale_of(const check_attn_row *r, const ga_attn_scale *s, int64_t j);
/* Fills q with the query of row (i, h), as the kernel multiplies it. */
void check_attn_load_query(const check_attn_row *r);
/* -infinity where the row does not see key n. Its query has been loaded. */
float check_attn_logit(const check_attn_row *r, int64_t n);
ga_status check_attn_plain(const ga_kernel *kernel, const void *desc, const void *io);

#endif
