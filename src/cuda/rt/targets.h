/* The table of GPUs that run the kernels of each instruction set. It is generated from tools/cuda_targets.toml, which
 * also determines the images in the build. */
#ifndef GA_CUDA_RT_TARGETS_H
#define GA_CUDA_RT_TARGETS_H

#include "core/kernel.h"

typedef struct cuda_target {
  ga_isa isa;
  int32_t capability; /* Least compute capability of the instruction set: 90 is 9.0. */
  bool forward;       /* True: GPUs of a higher compute capability run the instruction set too. */
  const char *suffix; /* Suffix of the compiler's target, which is sm_<capability of the GPU><suffix>. */
} cuda_target;

extern const cuda_target cuda_targets[];
extern const size_t cuda_n_targets;

/* Returns the instruction sets that a GPU of this compute capability runs, as a mask of bits 1 << ga_isa. 0: none. */
uint32_t cuda_isas_of(int capability);
/* Returns the suffix of an instruction set in names of the compiler's targets, or "". */
const char *cuda_suffix_of(ga_isa isa);

#endif
