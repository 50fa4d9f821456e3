/* Launch side of the attention backward kernels (src/cuda/kern/attn_bwd): a step before, the main kernel, steps behind.
 * */
#ifndef GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_SM90A_H
#define GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_SM90A_H

#include "cuda/kern/attn/attn_fwd_sm90a.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

enum { CUDA_ATTN_BWD_KV_RESIDENT = 2 }; /* a block takes all keys of a KV head */

/* A row's shape: see attn_bwd_sm90a.toml. */
typedef struct cuda_attn_bwd_variant {
  cuda_variant base;
  int32_t d, dv;                   /* widest head of q and k, of v */
  int32_t rows;                    /* of Q in a step */
  int32_t deterministic, features; /* order of dQ's sums: 0 as it comes, 1 fixed, CUDA_ATTN_BWD_KV_RESIDENT */
  int32_t cluster2;                /* a tile of keys is for a cluster of two blocks */
  cuda_attn_mask mask;
  const ga_kernel *pre, *sink, *post; /* its steps */
} cuda_attn_bwd_variant;

const char *cuda_attn_bwd_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_bwd_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* pre; with sinks their gradient; the main kernel; where it does not write dQ itself, post. All see one workspace. */
const char *cuda_attn_bwd_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
/* The main kernel. */
ga_status cuda_attn_bwd(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* Rows for every shape: attn_bwd_fallback_sm80.c. */
typedef struct cuda_attn_bwd_fallback_variant {
  cuda_variant base;
  int32_t d, own;              /* widest head; rows of a tile that stays */
  const ga_kernel *pre, *sink; /* its steps */
} cuda_attn_bwd_fallback_variant;

double cuda_attn_bwd_fallback_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *cuda_attn_bwd_fallback_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* pre; with sinks their gradient; the main kernel. */
const char *cuda_attn_bwd_fallback_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
/* The main kernel. */
ga_status cuda_attn_bwd_fallback(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                 ga_stream *stream);

/* What dQ and dK are multiplied with at last. With one key they are 0: its weight is 1, whatever its logit is, and what
 * sums in different orders leave of dO V - dO O is no gradient. With a flag ADD_ it may be one of more keys, whose LSE
 * is given. */
float cuda_attn_bwd_scale(const ga_attn_bwd_desc *d);
/* Lengths that a call with LENGTHS gives; NULL without. */
const int32_t *cuda_attn_bwd_lengths(const ga_attn_bwd_desc *d, const int32_t *lengths);
/* What both share: a tensor as kernels see it; the launch of a helper; their steps up to the main kernel. */
ga_kbwd_tensor cuda_attn_bwd_tensor(const void *p, const ga_attn_strides *strides);
GA_NODISCARD ga_status cuda_attn_bwd_step(const ga_kernel *step, int64_t blocks, bool dependent, const void *args,
                                          ga_stream *stream);
const char *cuda_attn_bwd_first_steps(const ga_kernel *pre, const ga_kernel *sink, const ga_attn_bwd_desc *d,
                                      ga_plan_step_launch launch_pre, ga_plan_step_launch launch_sink,
                                      ga_plan_steps *steps);

#endif
