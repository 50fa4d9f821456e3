/* What follows from a row of ladder.def: step, arch, threads, BM, shared, maps, flags */
#ifndef GA_CUDA_KERN_LADDER_LADDER_ROWS_H
#define GA_CUDA_KERN_LADDER_LADDER_ROWS_H

#define GA_LADDER_ID(step, arch) "attn_ladder_bf16_d128_full_" #arch "_" #step
#define GA_LADDER_SOURCE(step)   "src/cuda/kern/ladder/" #step ".cu"
#define GA_LADDER_PARAMS(shared) "SMEM=" #shared

#endif
