/* What follows from a row GA_CUDA_GEMM_WIDE of gemm.def: type, TYPE, BN, KW, stages of X, of W; and from
 * GA_CUDA_GEMM_STEP: name, arch, source */
#ifndef GA_CUDA_KERN_GEMM_GEMM_WIDE_ROWS_H
#define GA_CUDA_KERN_GEMM_GEMM_WIDE_ROWS_H

#define GA_GEMM_WIDE_ID(type, bn)                 "gemm_" #type "_wide_sm90a_128x" #bn
#define GA_GEMM_WIDE_SOURCE                       "src/cuda/kern/gemm/gemm_wide_sm90a.cu"
#define GA_GEMM_WIDE_PARAMS(TYPE, bn, kw, xs, ws) "W=" #TYPE ",BN=" #bn ",KW=" #kw ",X_STAGES=" #xs ",W_STAGES=" #ws
/* A pair's rings, of X in boxes and of W in units of eight tiles; results of a warp; two barriers a stage, a word:
 * OFF_* of the kernel. */
#define GA_GEMM_WIDE_SMEM(unit_bytes, bn, kw, xs, ws) \
  ((kw) * ((xs) * ((bn)*128 + 16) + (ws) * (8 * (unit_bytes) + 16) + 8 * 32 * 80) + 16)
#define GA_GEMM_WIDE_THREADS(kw) (256 * (kw) + 128)

#define GA_GEMM_STEP_ID(name, arch) "gemm_" name "_step_" arch "_256"

#endif
