/* Host side of the ladder (src/cuda/kern/ladder), attention kernels for learning. */
#ifndef GA_CUDA_KERN_LADDER_LADDER_HOST_H
#define GA_CUDA_KERN_LADDER_LADDER_HOST_H

#include "cuda/rt/cuda.h"

/* Parameters of a variant: bm is the number of rows of a tile, and maps is 1 if the kernel uses tensor maps. See the
 * .toml files. */
typedef struct cuda_ladder_variant {
  cuda_variant base;
  int32_t bm, maps;
} cuda_ladder_variant;

const char *cuda_ladder_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_ladder(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
