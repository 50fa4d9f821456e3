/* Launch side of the attention backward kernels (src/cuda/kern/attn_bwd): a step before the main kernel, the main
 * kernel, steps after it. */
#ifndef GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_SM90A_H
#define GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_SM90A_H

#include "cuda/kern/attn/attn_fwd_sm90a.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

enum { CUDA_ATTN_BWD_KV_RESIDENT = 2 }; /* a block takes all keys of a KV head */

/* A variant's shape; see attn_bwd_sm90a.toml. */
typedef struct cuda_attn_bwd_variant {
  cuda_variant base;
  int32_t d, dv; /* widest head of q and k, of v */
  int32_t rows;  /* rows of Q in a step */
  /* order of dQ's sums: 0 arbitrary, 1 fixed, CUDA_ATTN_BWD_KV_RESIDENT */
  int32_t deterministic, features;
  int32_t cluster2; /* a tile of keys is shared by a cluster of two blocks */
  cuda_attn_mask mask;
  const ga_kernel *pre, *sink, *post; /* its helper steps */
} cuda_attn_bwd_variant;

const char *cuda_attn_bwd_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_bwd_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans pre; with sinks their gradient; the main kernel; and post, where the main kernel does not write dQ itself. All
 * steps use one workspace. */
const char *cuda_attn_bwd_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
/* Launches the main kernel. */
ga_status cuda_attn_bwd(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* A variant for every shape; see attn_bwd_fallback_sm80.c. */
typedef struct cuda_attn_bwd_fallback_variant {
  cuda_variant base;
  int32_t d, own;              /* widest head; rows of a resident tile */
  const ga_kernel *pre, *sink; /* its helper steps */
} cuda_attn_bwd_fallback_variant;

double cuda_attn_bwd_fallback_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *cuda_attn_bwd_fallback_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans pre; with sinks their gradient; the main kernel. */
const char *cuda_attn_bwd_fallback_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
/* Launches the main kernel. */
ga_status cuda_attn_bwd_fallback(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                 ga_stream *stream);

/* Returns the final factor of dQ and dK. With a single key it is 0: the key's weight is 1 whatever its logit, and the
 * rounding error of dO V - dO O is no gradient. With a flag ADD_ the key may be one of several, whose LSE is given, so
 * the factor stays. */
float cuda_attn_bwd_scale(const ga_attn_bwd_desc *d);
/* Returns the lengths of a call with LENGTHS; NULL without the flag. */
const int32_t *cuda_attn_bwd_lengths(const ga_attn_bwd_desc *d, const int32_t *lengths);
/* Shared by both kinds of variants: a tensor in the form of kernel arguments, the launch of a helper, and the steps up
 * to the main kernel. */
ga_kbwd_tensor cuda_attn_bwd_tensor(const void *p, const ga_attn_strides *strides);
GA_NODISCARD ga_status cuda_attn_bwd_step(const ga_kernel *step, int64_t blocks, bool dependent, const void *args,
                                          ga_stream *stream);
const char *cuda_attn_bwd_first_steps(const ga_kernel *pre, const ga_kernel *sink, const ga_attn_bwd_desc *d,
                                      ga_plan_step_launch launch_pre, ga_plan_step_launch launch_sink,
                                      ga_plan_steps *steps);

#endif
