/* What follows from a row of attn8.def: type of q and k, dtype of o, D, mask, arch, BM, BN, stages, sched, turn */
#ifndef GA_CUDA_KERN_ATTN_FP8_ATTN8_ROWS_H
#define GA_CUDA_KERN_ATTN_FP8_ATTN8_ROWS_H

#define GA_ATTN_FP8_ID(qk, dtype, d, mask, arch, bm, bn, st, sched, turn) \
  "attn_" #qk "_" #dtype "_d" #d "_" #mask "_" #arch "_" #bm "x" #bn "x" #st "_" #sched #turn
#define GA_ATTN_FP8_SOURCE(arch) "src/cuda/kern/attn_fp8/attn_fp8_" #arch ".cu"
/* fast_math: the kernels name the instructions that matter; the rest is index arithmetic and one division a row. */
#define GA_ATTN_FP8_PARAMS(qk, dtype, d, mask, bm, bn, st, sched, turn)                                    \
  "QK=" #qk ",DTYPE=" #dtype ",D=" #d ",MASK=" #mask ",BM=" #bm ",BN=" #bn ",STAGES=" #st ",SCHED=" #sched \
  ",TURN=" #turn ",fast_math=1"
#define GA_ATTN_FP8_THREADS(bm) (128 + 2 * (bm))
/* Two Q, stages of K and V (with rows of ones), barriers, scales of the stages, four tile records: OFF_* of the kernel.
 * flow: three numbers of every 64 keys, in whole 16 bytes, and the means of V of four tiles. */
#define GA_ATTN_FP8_ONES_under      1024
#define GA_ATTN_FP8_ONES_halves     1024
#define GA_ATTN_FP8_ONES_queue      0
#define GA_ATTN_FP8_ONES_parts      0
#define GA_ATTN_FP8_ONES_flow       0
#define GA_ATTN_FP8_SLOT_under(bn)  16
#define GA_ATTN_FP8_SLOT_halves(bn) 16
#define GA_ATTN_FP8_SLOT_queue(bn)  16
#define GA_ATTN_FP8_SLOT_parts(bn)  16
#define GA_ATTN_FP8_SLOT_flow(bn)   (((bn) / 64 * 3 + 3) / 4 * 16)
#define GA_ATTN_FP8_MEANS_under(d)  0
#define GA_ATTN_FP8_MEANS_halves(d) 0
#define GA_ATTN_FP8_MEANS_queue(d)  0
#define GA_ATTN_FP8_MEANS_parts(d)  0
#define GA_ATTN_FP8_MEANS_flow(d)   (16 * (d))
#define GA_ATTN_FP8_FLAGS_under     0
#define GA_ATTN_FP8_FLAGS_halves    0
#define GA_ATTN_FP8_FLAGS_queue     0
#define GA_ATTN_FP8_FLAGS_parts     0
#define GA_ATTN_FP8_FLAGS_flow      GA_KERNEL_FAST_SUM
#define GA_ATTN_FP8_SMEM(d, bm, bn, st, sched)                                            \
  (2 * (bm) * (d) + (st) * (2 * (bn) * (d) + GA_ATTN_FP8_ONES_##sched) + 32 + 32 * (st) + \
   2 * (st)*GA_ATTN_FP8_SLOT_##sched(bn) + 256 + GA_ATTN_FP8_MEANS_##sched(d))
#define GA_ATTN_FP8_SCORE(sched) (GA_ATTN_FP8_FLAGS_##sched ? 210 : 200)

#define GA_ATTN_QUANT_ID(y, dtype, d)     "attn_quant_" #y "_" #dtype "_d" #d "_sm90a_128"
#define GA_ATTN_QUANT_SOURCE              "src/cuda/kern/attn_fp8/attn_quant_sm90a.cu"
#define GA_ATTN_QUANT_PARAMS(y, dtype, d) "Y=" #y ",DTYPE=" #dtype ",D=" #d
#define GA_ATTN_VALUES_ID(dtype, d)       "attn_quant_values_" #dtype "_d" #d "_sm90a_128"
#define GA_ATTN_VALUES_SOURCE             "src/cuda/kern/attn_fp8/attn_quant_values_sm90a.cu"
#define GA_ATTN_VALUES_PARAMS(dtype, d)   "DTYPE=" #dtype ",D=" #d
/* Both: 2048 values of 128 tokens a warp, 16 warps a multiprocessor; two stages of 128 tokens, two maxima of each warp.
 * */
#define GA_ATTN_QUANT_THREADS(d)    (2 * (d))
#define GA_ATTN_QUANT_BLOCKS(d)     (256 / (d))
#define GA_ATTN_QUANT_SMEM(d)       (2 * 128 * 2 * (d) + (d) / 2)
#define GA_ATTN_MEANS_ID(dtype)     "attn_quant_means_" #dtype "_step_sm90a_256"
#define GA_ATTN_MEANS_SOURCE        "src/cuda/kern/attn_fp8/attn_quant_means_sm90a.cu"
#define GA_ATTN_MEANS_PARAMS(dtype) "DTYPE=" #dtype
#define GA_ATTN_MEANS_SMEM          (4 * 256 * 16 + 8 * 64 * 4)

#endif
