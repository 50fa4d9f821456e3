/* Launch side of the kernels that work with other devices (src/cuda/kern/dist). */
#ifndef GA_CUDA_KERN_DIST_DIST_H
#define GA_CUDA_KERN_DIST_DIST_H

#include "cuda/rt/cuda.h"

typedef struct cuda_reduce_variant {
  cuda_variant base;
  int32_t ranks; /* most ranks that the kernel adds */
} cuda_reduce_variant;

const char *cuda_all_reduce_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_all_reduce_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_all_reduce(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream);

const char *cuda_collective_links_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_collective_links_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_collective_links(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                ga_stream *stream);

#endif
