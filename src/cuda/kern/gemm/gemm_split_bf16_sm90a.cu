/* KERNEL    gemm_split_bf16, sm90a: one row of X (ROWS 1), or 2 to 8 (ROWS 8), by packed weights of 16 bits or of e4m3
 *           with scales (GA_LAYOUT_MMA_PACKED)
 * COMPUTES  as gemm_split_int8_sm90a.cu. X is the sum of two bf16 (17 bits), two columns of bf16 products into f32;
 *           weights of f16 are also the sum of two bf16, exactly. e4m3 is exact in bf16, and sums of 128 products are
 *           multiplied by the scale of their block
 * CONTRACT  as gemm_split_int8_sm90a.cu
 * NORM      as gemm_split_int8_sm90a.cu; likewise ADD_NORM, DATA and WORK, but X has no scales
 * BARRIERS  as gemm_split_int8_sm90a.cu
 * BUDGET    as gemm_split_int8_sm90a.cu
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: BF16, F16 or E4M3_128"
#endif
#ifndef GA_P_SPLITS_X
#error "GA_P_SPLITS_X: bf16 that an element of X is the sum of: 2"
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

static_assert(PACKED_PLAIN(T) || PACKED_ONE_RUN(T), "weights whose codes are bf16, or two");

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_split_int8 args) { split_ring(&args); }
