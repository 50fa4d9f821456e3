/* Host side of the kernels that exchange data with other devices (src/cuda/kern/dist). */
#ifndef GA_CUDA_KERN_DIST_DIST_H
#define GA_CUDA_KERN_DIST_DIST_H

#include "cuda/rt/cuda.h"
#include "ga/collective.h"

typedef struct cuda_reduce_variant {
  cuda_variant base;
  /* Largest number of ranks whose data the kernel adds. */
  int32_t ranks;
} cuda_reduce_variant;

const char *cuda_all_reduce_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_all_reduce_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_all_reduce(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream);

const char *cuda_collective_links_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_collective_links_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_collective_links(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                ga_stream *stream);
/* Checks that all ranks make the same call, before a kernel over links (ga_links_create) enqueues anything. All ranks
 * must call this function, and the hosts wait for each other. Returns an error for a stream that is being recorded. */
GA_NODISCARD ga_status cuda_links_agree(const ga_kernel *kernel, const ga_collective_desc *desc,
                                        const ga_collective_io *io, ga_stream *stream);

const char *cuda_reduce_scatter_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_reduce_scatter_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_reduce_scatter_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_reduce_scatter(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                              ga_stream *stream);

#endif
