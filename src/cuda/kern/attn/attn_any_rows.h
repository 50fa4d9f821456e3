/* What follows from a row of attn_any.def: dtype, D, BM, BN, warps, blocks */
#ifndef GA_CUDA_KERN_ATTN_ATTN_ANY_ROWS_H
#define GA_CUDA_KERN_ATTN_ATTN_ANY_ROWS_H

#define GA_ATTN_ANY_ID(dtype, d, bm, bn, warps) "attn_fwd_" #dtype "_d" #d "_any_sm80_" #bm "x" #bn "w" #warps
#define GA_ATTN_ANY_SOURCE "src/cuda/kern/attn/attn_fwd_sm80.cu"
#define GA_ATTN_ANY_PARAMS(dtype, d, bm, bn, warps, blocks) \
  "DTYPE=" #dtype ",D=" #d ",BM=" #bm ",BN=" #bn ",WARPS=" #warps ",BLOCKS=" #blocks
/* Q, two blocks of K and V, four tile records: OFF_* of the kernel. */
#define GA_ATTN_ANY_SMEM(d, bm, bn) (((bm) + 4 * (bn)) * (d) * 2 + 192)
/* Behind every row made for one generation; the tightest head first. */
#define GA_ATTN_ANY_SCORE(d) (50 - (d) / 32)

#endif
