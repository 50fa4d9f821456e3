/* Host side of the products by experts (src/cuda/kern/expert): checks and launches. */
#ifndef GA_CUDA_KERN_EXPERT_EXPERT_H
#define GA_CUDA_KERN_EXPERT_EXPERT_H

#include "cuda/kern/expert/expert_args.h"
#include "cuda/rt/cuda.h"
#include "ga/experts.h"

/* Checks the pointers of a call. Activations must be aligned to their elements, w to w_align bytes. */
GA_NODISCARD ga_status cuda_expert_check_io(ga_stream *stream, const ga_kernel *k, const ga_expert_gemm_desc *d,
                                            const ga_expert_gemm_io *a, size_t w_align);
ga_kargs_expert cuda_expert_kargs(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a);
/* Returns true if the call has nothing to write. */
static inline bool cuda_expert_is_empty(const ga_expert_gemm_desc *d) { return d->tokens == 0 || d->n == 0; }

/* Returns the expected number of groups of up to `rows` sorted rows of one expert, for experts chosen at random. */
double cuda_expert_groups(const ga_expert_gemm_desc *d, int64_t rows);

/* --- native weights: blocks in the layout of the model file --- */
const char *cuda_expert_native_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_expert_native(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                             ga_stream *stream);

/* --- packed stacks (GA_LAYOUT_MMA_PACKED) --- */

typedef struct cuda_expert_few_variant {
  cuda_variant base;
  const ga_kernel *sum; /* Kernel of the step that adds up slots' results. */
} cuda_expert_few_variant;

/* Returns a reject reason if no row for packed stacks accepts the description, whatever its shape. NULL: some row may
 * accept it. */
const char *cuda_expert_packed_refusal(const ga_kernel *kernel, const ga_expert_gemm_desc *desc);
/* Plans the sum of slots' results, which begin the workspace, by kernel `sum`, if the call is OUT with SORTED. */
const char *cuda_expert_plan_sum(const ga_kernel *sum, const ga_expert_gemm_desc *desc, ga_plan_steps *steps);
const char *cuda_expert_few_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_expert_few_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *cuda_expert_few_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
ga_status cuda_expert_few(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream);

/* --- packed stacks, one token or a few, whose rows are not sorted, on Hopper --- */
const char *cuda_expert_ring_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_expert_ring_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_expert_ring(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream);

#endif
