/* What follows from a row of attn_bwd_any.def: form, dtype, D, own, other, warps, blocks */
#ifndef GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_ANY_ROWS_H
#define GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_ANY_ROWS_H

#define GA_ATTN_BWD_ANY_ID(form, dtype, d, own, other, warps) \
  "attn_bwd_" #dtype "_d" #d "_" #form "_sm80_" #own "x" #other "w" #warps
#define GA_ATTN_BWD_ANY_SOURCE(form) "src/cuda/kern/attn_bwd/attn_bwd_" #form "_sm80.cu"
#define GA_ATTN_BWD_ANY_PARAMS(dtype, d, own, other, warps, blocks) \
  "DTYPE=" #dtype ",D=" #d ",OWN=" #own ",OTHER=" #other ",WARPS=" #warps ",BLOCKS=" #blocks
/* Two tiles of own rows, two of others, P and dS: OFF_* of the kernel. */
#define GA_ATTN_BWD_SMEM_any(d, own, other)   (((own) + (other)) * 2 * (d)*2 + 2 * (own) * (other)*2)
#define GA_ATTN_BWD_SMEM_plain(d, own, other) 0
/* Behind every row made for one generation; the tightest head first. */
#define GA_ATTN_BWD_ANY_SCORE(d) (40 - (d) / 32)

#endif
