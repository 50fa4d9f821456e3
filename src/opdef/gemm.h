/* Matrix products as their rows see them. */
#ifndef GA_OPDEF_GEMM_H
#define GA_OPDEF_GEMM_H

#include "core/kernel.h"
#include "opdef/ops.h"

/* ga_kernel.op_flags of rows of gemm. */
typedef enum ga_gemm_row_flags {
  /* Flags of the rounding of a kernel's inputs, which determines the allowed error of its results. */
  GA_GEMM_ROW_Q8_ACT = 1,  /* activations are rounded to 8 bits, with a scale for each block of 32 */
  GA_GEMM_ROW_Q15_ACT = 2, /* activations are rounded to 15 bits, with a scale for each block of 32 */
  GA_GEMM_ROW_BF16 = 4,    /* weights and activations are rounded to bf16 */
  GA_GEMM_ROW_F16 = 8,     /* activations are rounded to f16, each row times a power of two */
  GA_GEMM_ROW_FLUSH = 16,  /* parts of activations below 2^-126 become zero: they lose up to 2^-9 below 2^-117 */
  /* Flags of a description that a kernel supports. */
  GA_GEMM_ROW_FAST_SUM = 32,  /* supports GA_GEMM_FAST_SUM: sums e4m3 products over all of k in the tensor cores */
  GA_GEMM_ROW_INVARIANT = 64, /* supports GA_GEMM_INVARIANT */
  /* with GA_GEMM_INVARIANT: kernels with this flag add up in the same order for one instruction set, type and layout
   * of W. So the size of the call may choose among them */
  GA_GEMM_ROW_ONE_ORDER = 128,
  GA_GEMM_ROW_X_E4M3 = 256 /* supports GA_GEMM_X_E4M3 */
} ga_gemm_row_flags;

/* Returns the ga_gemm_row_flags of a kernel; 0 for a kernel of another op. */
static inline uint32_t ga_gemm_row_flags_of(const ga_kernel *k) { return k->op == GA_OP_gemm ? k->op_flags : 0; }

#endif
