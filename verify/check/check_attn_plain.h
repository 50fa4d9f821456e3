/* The plain evaluation of attention that bounds the error of kernels: sums in f32, one query row after the other. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_PLAIN_H
#define GA_VERIFY_CHECK_CHECK_ATTN_PLAIN_H

#include "verify/check/check.h"

typedef struct check_attn_row {
  const ga_attn_desc *d;
  const ga_attn_io *a;
  int64_t b, i, n_q, n_kv, q_first, kv_first;
  int h;
  const ga_attn_stretch *stretch; /* the stretch of Q whose rows begin at q_first; NULL in calls without stretches */
  bool tensor;                    /* products with the arithmetic of tensor cores */
  bool as_kv;                     /* q and o rounded to the type of K and V */
  bool rounds;                    /* weights rounded to the type of V */
  float *s;                       /* logits [n_kv] */
  float *o;                       /* [v_dim] */
  double *q;                      /* [head_dim], see check_attn_load_query */
  double *kv;                     /* [head_dim or v_dim, the larger]: the current key or value */
} check_attn_row;

typedef struct check_attn_key {
  const void *k, *v;
  int64_t j, p;   /* index of the key in its array; position of the query, counted as j */
  bool elsewhere; /* in another document */
} check_attn_key;

bool check_attn_is_scaled_cache(const ga_attn_desc *d);
/* Number of sequences, or of stretches of Q. */
int64_t check_attn_sequences(const ga_attn_desc *d);
/* A row of sequence b; the caller sets i and h. */
check_attn_row check_attn_sequence(const ga_attn_desc *d, const ga_attn_io *a, int64_t b);
/* Key number j, counted through all parts. */
check_attn_key check_attn_key_of(const check_attn_row *r, int64_t j);
/* Offset, in elements, of row j of K or V. */
int64_t check_attn_kv_at(const check_attn_row *r, const ga_attn_strides *s, int64_t j);
/* Scale of key j of an e4m3 cache; 1 for other types. */
float check_attn_scale_of(const check_attn_row *r, const ga_attn_scale *s, int64_t j);
/* Loads the query of row (i, h) into q, rounded as the kernel does. */
void check_attn_load_query(const check_attn_row *r);
/* The logit of key n, -infinity where the row does not see it. The row's query must be loaded. */
float check_attn_logit(const check_attn_row *r, int64_t n);
ga_status check_attn_plain(const ga_kernel *kernel, const void *desc, const void *io);

#endif
