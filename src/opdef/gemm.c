/* Parts of the descriptor of matrix products. */
#include "opdef/gemm.h"

const char *opdef_gemm_lacks(const ga_kernel *k, const void *desc) {
  const uint32_t asked = ((const ga_gemm_desc *)desc)->flags;
  if (asked & GA_GEMM_INVARIANT && !(k->op_flags & GA_GEMM_ROW_INVARIANT)) return "it is not batch-invariant";
  return asked & GA_GEMM_X_E4M3 && !(k->op_flags & GA_GEMM_ROW_X_E4M3) ? "it does not round X to e4m3" : NULL;
}

/* With GA_GEMM_INVARIANT rows are compared by 32 rows of X. */
bool opdef_gemm_typical(const void *desc, void *typical) {
  ga_gemm_fused_desc *d = typical;
  if (!(((const ga_gemm_desc *)desc)->flags & GA_GEMM_INVARIANT)) return false;
  *d = *(const ga_gemm_fused_desc *)desc;
  d->plain.m = 32;
  return true;
}

bool opdef_gemm_same_order(const ga_kernel *a, const ga_kernel *b) {
  return a->op_flags & b->op_flags & GA_GEMM_ROW_ONE_ORDER && a->isa == b->isa && a->dtype[0] == b->dtype[0] &&
         a->layout == b->layout;
}
