/* Which GPUs run the rows of an instruction set. The table is made of tools/cuda_targets.toml, which the build's images
 * follow, too. */
#ifndef GA_CUDA_RT_TARGETS_H
#define GA_CUDA_RT_TARGETS_H

#include "core/kernel.h"

typedef struct cuda_target {
  ga_isa isa;
  int32_t capability; /* that its instructions need; 90 = 9.0 */
  bool forward;       /* newer GPUs run it, too */
  const char *suffix; /* compilers call the target sm_<capability of the GPU><suffix> */
} cuda_target;

extern const cuda_target cuda_targets[];
extern const size_t cuda_n_targets;

/* Instruction sets of a GPU: bits 1 << ga_isa; 0: none. */
uint32_t cuda_isas_of(int capability);
/* The suffix of an instruction set; "" where it has none. */
const char *cuda_suffix_of(ga_isa isa);

#endif
