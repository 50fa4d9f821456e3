/* Host side of the attention backward kernels (src/cuda/kern/attn_bwd): the main kernel, and helper steps before and
 * after it. */
#ifndef GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_SM90A_H
#define GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_SM90A_H

#include "cuda/kern/attn/attn_fwd_sm90a.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

/* A value of cuda_attn_bwd_variant.deterministic: a thread block processes all keys of a KV head. */
enum { CUDA_ATTN_BWD_KV_RESIDENT = 2 };

/* Parameters of a variant; attn_bwd_sm90a.toml explains them. */
typedef struct cuda_attn_bwd_variant {
  cuda_variant base;
  /* d is the largest head dimension of q and k, dv the largest of v. */
  int32_t d, dv;
  int32_t rows; /* Number of rows of Q in a step. */
  /* deterministic is the order of dQ's sums: 0 arbitrary, 1 fixed, or CUDA_ATTN_BWD_KV_RESIDENT. features has bits
   * GA_KATTN_*. */
  int32_t deterministic, features;
  int32_t cluster2; /* 1: a cluster of two blocks shares a tile of keys. */
  cuda_attn_mask mask;
  /* Kernels of the helper steps. NULL: the variant has no such step. */
  const ga_kernel *pre, *sink, *post;
} cuda_attn_bwd_variant;

const char *cuda_attn_bwd_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_bwd_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans the helper step `pre`, with sinks the helper step `sink`, and the main kernel. If the main kernel does not
 * write dQ itself, the helper `post` follows, which writes dQ from the accumulator. All steps use one workspace.
 * Returns a reject reason, or NULL. */
const char *cuda_attn_bwd_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
/* Launches the main kernel of a cuda_attn_bwd_variant. */
ga_status cuda_attn_bwd(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* Parameters of a variant for every shape; see attn_bwd_fallback_sm80.c. */
typedef struct cuda_attn_bwd_fallback_variant {
  cuda_variant base;
  /* d is the largest head dimension. own is the number of rows of the tile that a thread block keeps in shared
   * memory. */
  int32_t d, own;
  /* Kernels of the helper steps. */
  const ga_kernel *pre, *sink;
} cuda_attn_bwd_fallback_variant;

double cuda_attn_bwd_fallback_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *cuda_attn_bwd_fallback_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans the helper steps of the variant and then the main kernel. Helper `pre` prepares the LSE and rowsum(dO O) of
 * each query; `sink`, planned only for calls with sinks, computes the gradients of the sinks. Returns a reject reason,
 * or NULL. */
const char *cuda_attn_bwd_fallback_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
/* Launches the main kernel of a cuda_attn_bwd_fallback_variant. */
ga_status cuda_attn_bwd_fallback(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                 ga_stream *stream);

/* Returns the factor of dQ and dK in a sequence with a single key. It is 0: the key's weight is 1 whatever its logit
 * is, and a difference of dP and delta is only a rounding error.
 *
 * With sinks, or with a flag GA_ATTN_BWD_ADD_*, the factor is the scale. The given LSE may then cover other keys
 * too. */
float cuda_attn_bwd_scale_alone(const ga_attn_bwd_desc *d);
/* Returns `lengths` if d has the flag GA_ATTN_LENGTHS, else NULL. */
const int32_t *cuda_attn_bwd_lengths(const ga_attn_bwd_desc *d, const int32_t *lengths);
/* Functions for both kinds of variants. cuda_attn_bwd_tensor converts a tensor to a kernel's arguments,
 * cuda_attn_bwd_step launches a helper step, and cuda_attn_bwd_first_steps plans the steps before the main kernel. */
ga_kbwd_tensor cuda_attn_bwd_tensor(const void *p, const ga_attn_strides *strides);
GA_NODISCARD ga_status cuda_attn_bwd_step(const ga_kernel *step, int64_t blocks, bool dependent, const void *args,
                                          ga_stream *stream);
const char *cuda_attn_bwd_first_steps(const ga_kernel *pre, const ga_kernel *sink, const ga_attn_bwd_desc *d,
                                      ga_plan_step_launch launch_pre, ga_plan_step_launch launch_sink,
                                      ga_plan_steps *steps);

#endif
