/* What follows from a row GA_CUDA_GEMM_TILE of gemm.def: mode, dtype, BM, BN, stages, pair, parts, and what is special:
 * XT and WT, operands stored across; SHORT, sums of 128 of k. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_TILE_ROWS_H
#define GA_CUDA_KERN_GEMM_GEMM_TILE_ROWS_H

#define GA_GEMM_TILE_ID(mode, dtype, bm, bn) "gemm_" #dtype "_" #mode "_sm90a_" #bm "x" #bn
#define GA_GEMM_TILE_SOURCE                  "src/cuda/kern/gemm/gemm_tile_sm90a.cu"
#define GA_GEMM_TILE_PARAMS(dtype, bm, bn, st, pair, parts, xt, wt, sums)                                    \
  "DTYPE=" #dtype ",BM=" #bm ",BN=" #bn ",STAGES=" #st ",PAIR=" #pair ",PARTS=" #parts ",XT=" #xt ",WT=" #wt \
  ",SHORT=" #sums
/* Stages of 128 bytes of k of X and W, two barriers each, with short sums their scales; 4 KiB a warp for results: OFF_*
 * of the kernel. */
#define GA_GEMM_TILE_SMEM(bm, bn, st, sums) \
  ((st) * (((bm) + (bn)) * 128 + 16 + ((sums) ? 4 * (bm) + 16 : 0)) + (bm)*256)
#define GA_GEMM_TILE_THREADS(bm) (2 * (bm) + 128)

#endif
