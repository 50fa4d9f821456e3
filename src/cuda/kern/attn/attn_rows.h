/* What follows from a row of attn.def:
 *   op, dtype, D, DV, mask, arch, BM, BN, stages, sched, turn, qreg, store, resident, blocks, features, keys_from,
 *   keys_to, crowd */
#ifndef GA_CUDA_KERN_ATTN_ATTN_ROWS_H
#define GA_CUDA_KERN_ATTN_ATTN_ROWS_H

#define GA_ATTN_ID(op, dtype, d, dv, mask, arch, bm, bn, st, sched) \
#op "_" #dtype "_d" #d "v" #dv "_" #mask "_" #arch "_" #bm "x" #bn "x" #st "_" #sched
/* Two sources: sched short, tile and ahead, and all others; attn_fwd and attn_fwdx (with features) are one. */
#define GA_ATTN_SHORT(sched)        GA_ATTN_SHORT_##sched
#define GA_ATTN_SHORT_flat          0
#define GA_ATTN_SHORT_qsm           0
#define GA_ATTN_SHORT_res           0
#define GA_ATTN_SHORT_short         1
#define GA_ATTN_SHORT_tile          1
#define GA_ATTN_SHORT_ahead         1
#define GA_ATTN_SOURCE(sched, arch) "src/cuda/kern/attn/attn_" GA_ATTN_STEM_##sched "_" #arch ".cu"
#define GA_ATTN_STEM_flat           "fwd"
#define GA_ATTN_STEM_qsm            "fwd"
#define GA_ATTN_STEM_res            "fwd"
#define GA_ATTN_STEM_short          "short"
#define GA_ATTN_STEM_tile           "short"
#define GA_ATTN_STEM_ahead          "short"
/* fast_math: the kernels name the instructions that matter; the rest is index arithmetic and one division a row. */
#define GA_ATTN_PARAMS(dtype, d, dv, mask, bm, bn, st, turn, qreg, store, resident, blocks, features)    \
  "DTYPE=" #dtype ",D=" #d ",DV=" #dv ",MASK=" #mask ",BM=" #bm ",BN=" #bn ",STAGES=" #st ",TURN=" #turn \
  ",QREG=" #qreg ",STORE=" #store ",RESIDENT=" #resident ",BLOCKS=" #blocks ",FEATURES=" #features ",fast_math=1"

#define GA_ATTN_PANELS(d) (((d) + 63) / 64)
#define GA_ATTN_THREADS(is_short, bm)                                            \
  ((is_short) ? 2 * (bm) : 128 + 2 * (bm)) /* consumer warpgroups and a producer \
                                            */
/* Q, stages of K and V, staging of O, barriers, four tile records: OFF_* of the kernel. */
#define GA_ATTN_SMEM(is_short, d, dv, bm, bn, st, store, resident)             \
  ((is_short) ? GA_ATTN_SMEM_SHORT(d, dv, bm, bn, st, (resident) == 1 ? 2 : 1) \
              : GA_ATTN_SMEM_RING(d, dv, bm, bn, st, store))
/* K, V, one or two Q; their barriers. */
#define GA_ATTN_SMEM_SHORT(d, dv, bm, bn, st, q)                                                                  \
  ((st) * (GA_ATTN_PANELS(d) + GA_ATTN_PANELS(dv)) * (bn)*128 + (q) * ((bm)*GA_ATTN_PANELS(d) * 128 + (bm) / 8) + \
   16 * (st) + 8)
#define GA_ATTN_SMEM_RING(d, dv, bm, bn, st, store)                                                    \
  ((bm) / 64 * GA_ATTN_PANELS(d) * 8192 + (st) * (GA_ATTN_PANELS(d) + GA_ATTN_PANELS(dv)) * (bn)*128 + \
   ((store) ? 0 : (bm) / 64 * GA_ATTN_PANELS(dv) * 8192) + (8 * (2 * ((bm) / 64) + 4 * (st)) + 15) / 16 * 16 + 192)
/* The tightest head first, then rows with few features, which cost registers and columns, then rows for few tiles;
 * among rows of one head the fit decides (cuda_attn.c). */
#define GA_ATTN_SCORE(d, dv, crowd, features) \
  (200 - ((d) + (dv)) / 8 + ((crowd) ? 1 : 0) - ((features) ? 20 + (features) % 8 / 2 : 0))

#endif
