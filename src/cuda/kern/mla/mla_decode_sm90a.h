/* Host side of latent attention on Hopper (src/cuda/kern/mla/mla_decode_sm90a.cu). */
#ifndef GA_CUDA_KERN_MLA_MLA_DECODE_SM90A_H
#define GA_CUDA_KERN_MLA_MLA_DECODE_SM90A_H

#include "cuda/kern/mla/mla.h"

const char *cuda_mla_decode_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_mla_decode_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_mla_decode_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_mla_decode(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream);

#endif
