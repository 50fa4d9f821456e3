/* Random tensors of the whole batch, in the order of tokens, as floats; and the results of one rank for them. */
#ifndef GA_VERIFY_DIST_BATCH_H
#define GA_VERIFY_DIST_BATCH_H

#include "verify/dist/shape.h"

/* Inputs are floats that dtype represents exactly. o_in: o rounded to dtype, an input of the backward. */
typedef struct dist_batch {
  int32_t dtype;
  int64_t nq, nk, q, o, k, v; /* tokens; floats of each tensor */
  float *in_q, *in_k, *in_v, *in_dout, *o_in;
  float *o_one, *lse_one, *dq_one, *dk_one, *dv_one; /* one rank's results, in f32 */
} dist_batch;

/* Draws the inputs from the seed, the same in every process of a run. Release with dist_free_batch, also after a
 * failure. */
GA_NODISCARD ga_status dist_make_batch(const dist_task *t, int64_t seed, dist_batch *b);
void dist_free_batch(dist_batch *b);
/* Rounds the inputs to dtype, and fills the results: a CPU's in f32, or those of the rank's GPU in dtype. rank: this
 * process's; -1 stands for 0. */
GA_NODISCARD ga_status dist_run_one(const char *devices, int32_t rank, const dist_task *t, dist_batch *b);
/* The same for one document on a GPU, whose queries and keys begin at q0 and k0. host: converts. */
GA_NODISCARD ga_status dist_one_on_device(ga_ctx *host, ga_ctx *ctx, const ga_dist_desc *d, dist_batch *b, int64_t q0,
                                          int64_t nq, int64_t k0, int64_t nk);

#endif
