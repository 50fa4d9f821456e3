/* What follows from a row of attn_bwd.def:
 *   op, dtype, D, mask, arch, rows, stages, sched, order, features
 * and from a step: name, dtype, D (0: any), arch. */
#ifndef GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_ROWS_H
#define GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_ROWS_H

#define GA_ATTN_BWD_ID(op, dtype, d, mask, arch, bm, st, sched) \
#op "_" #dtype "_d" #d "_" #mask "_" #arch "_" #bm "x128x" #st "_" #sched
/* A block takes all keys of a KV head: op, dtype, D, mask, arch, rows, stages, features. */
#define GA_ATTN_BWD_WHOLE_ID(op, dtype, d, mask, arch, bm, st) GA_ATTN_BWD_ID(op, dtype, d, mask, arch, bm, st, whole)
#define GA_ATTN_BWD_WHOLE_SOURCE(arch)                         "src/cuda/kern/attn_bwd/attn_bwd_whole_" #arch ".cu"
#define GA_ATTN_BWD_WHOLE_PARAMS(dtype, d, mask, bm, st, features) \
  "DTYPE=" #dtype ",D=" #d ",MASK=" #mask ",ROWS=" #bm ",STAGES=" #st ",FEATURES=" #features ",fast_math=1"
/* K twice, V; Q and dO rings; three dS; stat; barriers, records: OFF_* of the kernel. */
#define GA_ATTN_BWD_WHOLE_SMEM(d, bm, st) \
  (3 * 256 * (d) + (st)*4 * (bm) * (d) + 3 * 256 * (bm) + (st)*8 * (bm) + (8 * (7 + 4 * (st)) + 15) / 16 * 16 + 2 * 48)
/* Chosen before others where whole heads pay (cuda_attn_bwd_fit). */
#define GA_ATTN_BWD_WHOLE_SCORE(d, features) (100 - (d) / 8 - ((features) ? 10 : 0))
#define GA_ATTN_BWD_WHOLE_FIT                6
#define GA_ATTN_BWD_WHOLE_MISFIT             (-30)

/* attn_bwd and attn_bwdx (with features) are one source. */
#define GA_ATTN_BWD_SOURCE(arch) "src/cuda/kern/attn_bwd/attn_bwd_" #arch ".cu"
/* fast_math: the kernels name the instructions that matter; the rest is index arithmetic. */
#define GA_ATTN_BWD_PARAMS(dtype, d, mask, bm, st, order, features)                                           \
  "DTYPE=" #dtype ",D=" #d ",MASK=" #mask ",ROWS=" #bm ",STAGES=" #st ",ORDER=" #order ",FEATURES=" #features \
  ",fast_math=1"
#define GA_ATTN_BWD_THREADS 384
/* K, V; Q and dO rings; three dS; dQ in f32 (128 rows: ordered alone); stat; barriers, ticket: OFF_* of the kernel. */
#define GA_ATTN_BWD_SMEM(d, bm, st, order)                                                               \
  (2 * 256 * (d) + (st)*4 * (bm) * (d) + 3 * 256 * (bm) + ((bm) == 64 || (order) ? 4 * (bm) * (d) : 0) + \
   (st)*8 * (bm) + (8 * (3 + 4 * (st)) + 15) / 16 * 16 + 48 + 32)
/* The tightest head first; a fixed order and features cost time. */
#define GA_ATTN_BWD_SCORE(d, order, features) (100 - (d) / 8 - ((order) ? 2 : 0) - ((features) ? 10 : 0))

/* Two blocks for heads that one cannot hold: dtype, DK, DV, mask, arch, sched. */
#define GA_ATTN_BWD_DUET_ID(op, dtype, dk, dv, mask, arch, sched) \
#op "_" #dtype "_d" #dk "v" #dv "_" #mask "_" #arch "_64x128x2_" #sched
#define GA_ATTN_BWD_DUET_SOURCE(arch) "src/cuda/kern/attn_bwd/attn_bwd_duet_" #arch ".cu"
#define GA_ATTN_BWD_DUET_PARAMS(dtype, dk, dv, mask, order, features) \
  "DTYPE=" #dtype ",DK=" #dk ",DV=" #dv ",MASK=" #mask ",ORDER=" #order ",FEATURES=" #features ",fast_math=1"
/* Q twice, dO, P or dS twice; V and what is left of K behind two panels, or K; stat; barriers: OFF_* of the kernel. */
#define GA_ATTN_BWD_DUET_SMEM(dk, dv) \
  (2 * 128 * (dk) + 128 * (dv) + 2 * 16384 + 256 * ((dv) + (dk)-128) + 2 * 512 + 8 * 19 + 8 + 48)

#define GA_ATTN_BWD_FEW_KEYS_FIT 4

#define GA_ATTN_BWD_STEP_ID(name, dtype, d, arch) "attn_bwd_" #name "_" #dtype "_d" #d "_step_" #arch "_256"
#define GA_ATTN_BWD_STEP_SOURCE(name, arch)       "src/cuda/kern/attn_bwd/attn_bwd_" #name "_" #arch ".cu"
#define GA_ATTN_BWD_STEP_PARAMS(dtype, d)         "DTYPE=" #dtype ",D=" #d ",fast_math=1"
#define GA_ATTN_BWD_STEP_THREADS                  256

#endif
