/* KERNEL    gemm_split_int8, sm90a: one row of X (ROWS 1), or 2 to 8 (ROWS 8), by packed quantised weights
 *           (GA_LAYOUT_MMA_PACKED)
 * COMPUTES  Y = epilogue(X W^T), of up to three W in turn, or with a second W for the gate. Codes of W are 8-bit
 *           integers. X becomes, for each unit of k, a power of two times integers of 22 bits, cut into three signed
 *           digits of 8 bits: three columns of 8-bit products, whose sums are exact. An infinity or a NaN in a row of X
 *           turns its whole row of Y into NaN.
 * CONTRACT  x and y f32, k contiguous in x, at least 1; w packed (GA_LAYOUT_MMA_PACKED), at multiples of 16 bytes; n
 *           and k up to 2^28. ADD_NORM: one row, k a multiple of 4 up to 4096. Where parts of k are added in gmem:
 *           no norm, no further matrices, counter is left zeroed
 * NORM      X is multiplied by the norm's weights and then split into digits; the row's factor multiplies the final
 *           sums, so that products do not wait for it
 * ADD_NORM  X is add + norm(x), of one row; every block computes it
 * DATA      W: the copy engine brings items, of a unit or two, into a ring of shared memory, one ring a warp: an
 *           elected lane issues the copy, the warp waits. `early` stages are copied before the previous kernel has
 *           ended (dependent launch), the others after the loads of X, which would otherwise queue. X: digits, scales
 *           and sums in shared memory once a block
 * BARRIERS  name           arrivals  waiter    orders
 *           full[warp][s]  1+tx      its warp  copy of an item to stage s of the warp's ring -> ld.shared; the stage is
 *                                              free once the warp has read it (warp_sync)
 *           block          all       all       X in shared memory -> products; the parts of all warps -> their sum
 *           met            1+tx      block     st.async of other blocks' sums and squares of X (split_int8_reduce.h) ->
 *                                              ld.shared
 *           cluster        all       all       `met` is initialised (arrival before the products) -> st.async to it
 * WORK      a block has a run of tiles of 16 rows and a part of k. Its items, tile after tile, are divided evenly among
 *           the warps, and each warp sums its items of a tile. These sums are added in shared memory, always in one
 *           order. With several rows of X the parts of k are blocks of a cluster (split_int8_reduce.h); where X is too
 *           long for that, parts are added in gmem
 * BUDGET    what     how much
 *           threads  THREADS
 *           blocks   1 per multiprocessor
 *           smem     chosen at the launch, 226 KiB at most: control, a ring of up to 8 stages per warp, X, parts
 * SPEED     docs/log/cuda-decode.md. H200, 4096 x 14336, chained, one row and eight: q4_k 9.3 and 14.4 us, q8_0 15.7
 *           and 19.9, q6_k 13.0 and 18.5
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, MXFP4, ..."
#endif
#ifndef GA_P_SPLITS_X
#error "GA_P_SPLITS_X: digits of 8 bits of an element of X: 3"
#endif
#ifndef GA_P_ROWS
#error "GA_P_ROWS: of X, 1; or 8: 2 to 8 of them"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#include "cuda/kern/gemm/split_ring.h"

static_assert(GA_P_SMEM <= 231424, "what a launch takes at most: 227 KiB less 1 KiB kept free");

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_split_int8 args) { split_ring(&args); }
