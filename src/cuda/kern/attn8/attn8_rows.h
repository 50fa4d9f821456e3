/* What follows from a row of attn8.def: type of q and k, dtype of o, D, mask, arch, BM, stages, sched, turn */
#ifndef GA_CUDA_KERN_ATTN8_ATTN8_ROWS_H
#define GA_CUDA_KERN_ATTN8_ATTN8_ROWS_H

#define GA_ATTN_FP8_ID(qk, dtype, d, mask, arch, bm, st, sched, turn) \
  "attn_" #qk "_" #dtype "_d" #d "_" #mask "_" #arch "_" #bm "x128x" #st "_" #sched #turn
#define GA_ATTN_FP8_SOURCE(arch) "src/cuda/kern/attn8/attn_fp8_" #arch ".cu"
/* fast_math: the kernels name the instructions that matter; the rest is index arithmetic and one division a row. */
#define GA_ATTN_FP8_PARAMS(qk, dtype, d, mask, bm, st, sched, turn) \
  "QK=" #qk ",DTYPE=" #dtype ",D=" #d ",MASK=" #mask ",BM=" #bm ",STAGES=" #st ",SCHED=" #sched ",TURN=" #turn ",fast_math=1"
#define GA_ATTN_FP8_THREADS(bm) (128 + 2 * (bm))
/* Two Q, stages of K and V (with rows of ones), barriers, scales of the stages, four tile records: OFF_* of the kernel. */
#define GA_ATTN_FP8_ONES_under 1024
#define GA_ATTN_FP8_ONES_halves 1024
#define GA_ATTN_FP8_ONES_queue 0
#define GA_ATTN_FP8_ONES_parts 0
#define GA_ATTN_FP8_SMEM(d, bm, st, sched) (2 * (bm) * (d) + (st) * (256 * (d) + GA_ATTN_FP8_ONES_##sched) + 32 + 64 * (st) + 256)
#define GA_ATTN_FP8_SCORE 200

#define GA_ATTN_QUANT_ID(y, dtype, d) "attn_quant_" #y "_" #dtype "_d" #d "_sm90a_128"
#define GA_ATTN_QUANT_SOURCE "src/cuda/kern/attn8/attn_quant_sm90a.cu"
#define GA_ATTN_QUANT_PARAMS(y, dtype, d, blocks) "Y=" #y ",DTYPE=" #dtype ",D=" #d ",BLOCKS=" #blocks
#define GA_ATTN_QUANT_SMEM(d) ((d) * 128 + 32)

#endif
