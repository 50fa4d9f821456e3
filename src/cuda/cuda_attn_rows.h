/* What the fields of a row of kern/attn/attn.def mean, for the host's table and for the build's list.
 *   op, dtype, shape name (d128, d192v128), D, DV, mask, arch, BM, BN, stages, schedule, turn, qreg, store, resident, blocks,
 *   features, note (strict, or allow_spills=why: see tools/cuda_build.py), score */
#ifndef GA_CUDA_CUDA_ATTN_ROWS_H
#define GA_CUDA_CUDA_ATTN_ROWS_H

#define GA_ATTN_ID(op, dt, shape, mask, arch, bm, bn, st, sched) \
  #op "_" #dt "_" #shape "_" #mask "_" #arch "_" #bm "x" #bn "x" #st "_" #sched
#define GA_ATTN_SOURCE(op, arch) "src/cuda/kern/attn/" #op "_" #arch ".cu"
#define GA_ATTN_PARAMS(dt, d, dv, mask, bm, bn, st, turn, qreg, store, resident, blocks, features, note)                \
  "DTYPE=" #dt ",D=" #d ",DV=" #dv ",MASK=" #mask ",BM=" #bm ",BN=" #bn ",STAGES=" #st ",TURN=" #turn ",QREG=" #qreg    \
  ",STORE=" #store ",RESIDENT=" #resident ",BLOCKS=" #blocks ",FEATURES=" #features "," #note

#define GA_ATTN_PANELS(d) (((d) + 63) / 64)
#define GA_ATTN_THREADS(bm) ((bm) == 64 ? 160 : 128 + 2 * (bm)) /* consumer warpgroups and a producer */
/* Q, the K and V rings, O on its way out, barriers, tile records: OFF_* of the kernel. */
#define GA_ATTN_SHARED(d, dv, bm, bn, st, store)                                                                        \
  ((bm) / 64 * GA_ATTN_PANELS(d) * 8192 + (st) * (GA_ATTN_PANELS(d) + GA_ATTN_PANELS(dv)) * (bn) * 128 +                \
   ((store) ? 0 : (bm) / 64 * 4 * GA_ATTN_PANELS(dv) * 2048) + (8 * (2 * ((bm) / 64) + 4 * (st)) + 15) / 16 * 16 + 4 * 48)

#endif
