/* What follows from a row GA_CUDA_GEMM_TILE of gemm.def: mode, dtype, BN, stages, pair, split */
#ifndef GA_CUDA_KERN_GEMM_GEMM_TILE_ROWS_H
#define GA_CUDA_KERN_GEMM_GEMM_TILE_ROWS_H

#define GA_GEMM_TILE_ID(mode, dtype, bn) "gemm_" #dtype "_" #mode "_sm90a_128x" #bn
#define GA_GEMM_TILE_SOURCE "src/cuda/kern/gemm/gemm_tile_sm90a.cu"
#define GA_GEMM_TILE_PARAMS(dtype, bn, st, pair, split) \
  "DTYPE=" #dtype ",BN=" #bn ",STAGES=" #st ",PAIR=" #pair ",SPLIT=" #split
/* Stages of 64 columns of X and W, two barriers each: OFF_* of the kernel. */
#define GA_GEMM_TILE_SMEM(bn, st) ((st) * ((128 + (bn)) * 128 + 16))

#endif
