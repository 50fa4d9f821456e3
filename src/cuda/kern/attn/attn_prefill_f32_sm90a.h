/* Host side of attention with many f32 queries over 16-bit K and V (src/cuda/kern/attn/attn_prefill_f32_sm90a.cu). */
#ifndef GA_CUDA_KERN_ATTN_ATTN_PREFILL_F32_SM90A_H
#define GA_CUDA_KERN_ATTN_ATTN_PREFILL_F32_SM90A_H

#include "cuda/rt/cuda.h"

const char *cuda_attn_prefill_f32_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_prefill_f32_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans three launches: the conversion of Q to the type of K and V, 16-bit attention (attn_fwd_sm90a.toml,
 * attn_short_sm90a.toml), and the conversion of O to f32. Returns a reject reason, or NULL. */
const char *cuda_attn_prefill_f32_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);

#endif
