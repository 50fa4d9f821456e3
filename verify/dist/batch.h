/* Random tensors of a whole batch of tokens, in the order of tokens, as floats. With them are the results that one rank
 * computes alone. */
#ifndef GA_VERIFY_DIST_BATCH_H
#define GA_VERIFY_DIST_BATCH_H

#include "verify/dist/shape.h"

/* A batch. Its inputs are floats that the type dtype represents exactly. o_in is o rounded to dtype, an input of the
 * backward pass. */
typedef struct dist_batch {
  int32_t dtype;
  int64_t nq; /* number of queries */
  int64_t nk; /* number of keys */
  int64_t q;  /* number of floats of Q */
  int64_t o;  /* number of floats of O */
  int64_t k;  /* number of floats of K */
  int64_t v;  /* number of floats of V */
  float *in_q, *in_k, *in_v, *in_dout, *o_in;
  float *o_one, *lse_one, *dq_one, *dk_one, *dv_one; /* results of one rank that computes the whole batch, in f32 */
} dist_batch;

/* Draws the inputs from the seed, so that they are the same in every process of a run. The caller releases *b with
 * dist_free_batch, also after a failure. */
GA_NODISCARD ga_status dist_make_batch(const dist_task *t, int64_t seed, dist_batch *b);
void dist_free_batch(dist_batch *b);
/* Rounds the inputs to dtype, and computes the results of one rank: in f32 on a CPU, in dtype on the rank's GPU.
 * devices: value of --device. rank: rank of this process; -1 stands for 0. */
GA_NODISCARD ga_status dist_run_one(const char *devices, int32_t rank, const dist_task *t, dist_batch *b);
/* Computes the results of one document on a GPU. Its nq queries begin at q0, and its nk keys at k0. host: a context
 * that converts types. */
GA_NODISCARD ga_status dist_one_on_device(ga_ctx *host, ga_ctx *ctx, const ga_dist_desc *d, dist_batch *b, int64_t q0,
                                          int64_t nq, int64_t k0, int64_t nk);

#endif
