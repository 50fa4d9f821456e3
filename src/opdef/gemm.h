/* Flags of the kernels of matrix products. */
#ifndef GA_OPDEF_GEMM_H
#define GA_OPDEF_GEMM_H

#include "core/kernel.h"
#include "opdef/ops.h"

/* Flags of the kernels of matrix products, for ga_kernel.op_flags. */
typedef enum ga_gemm_row_flags {
  /* Flags of the rounding of a kernel's inputs, which determines the allowed error of its results. */
  GA_GEMM_ROW_Q8_ACT = 1,  /* activations are rounded to 8 bits, with a scale for each block of 32 */
  GA_GEMM_ROW_Q15_ACT = 2, /* activations are rounded to 15 bits, with a scale for each block of 32 */
  GA_GEMM_ROW_BF16 = 4,    /* weights and activations are rounded to bf16 */
  GA_GEMM_ROW_F16 = 8,     /* activations are rounded to f16, after each row is multiplied by a power of two */
  /* an activation is the sum of two bf16 parts, and parts below 2^-126 become zero. So an activation below 2^-117 has a
   * relative error of up to 2^-9 */
  GA_GEMM_ROW_FLUSH = 16,
  /* Flags of ga_gemm_desc that a kernel supports. */
  GA_GEMM_ROW_FAST_SUM = 32,  /* supports GA_GEMM_FAST_SUM: sums e4m3 products over all of k in the tensor cores */
  GA_GEMM_ROW_INVARIANT = 64, /* supports GA_GEMM_INVARIANT */
  /* with GA_GEMM_INVARIANT: kernels with this flag add products in the same order, for one instruction set, type and
   * layout of W. So the planner may choose among them by the size of the call */
  GA_GEMM_ROW_ONE_ORDER = 128,
  GA_GEMM_ROW_X_E4M3 = 256 /* supports GA_GEMM_X_E4M3 */
} ga_gemm_row_flags;

/* Flags of the kernels of products by experts, with the values and meaning that products of one matrix give them. */
enum { GA_EXPERT_GEMM_ROW_Q15_ACT = GA_GEMM_ROW_Q15_ACT, GA_EXPERT_GEMM_ROW_BF16 = GA_GEMM_ROW_BF16 };

/* Returns the ga_gemm_row_flags of a kernel; 0 for a kernel of another op. */
static inline uint32_t ga_gemm_row_flags_of(const ga_kernel *k) {
  return k->op == GA_OP_gemm || k->op == GA_OP_expert_gemm ? k->op_flags : 0;
}

#endif
