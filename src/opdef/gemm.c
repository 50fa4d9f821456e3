/* Descriptors of matrix products and of packing. */
#include "opdef/gemm.h"

#include <stdio.h>

#include "opdef/shape.h"

static ga_work gemm_work(const void *desc) {
  const ga_gemm_desc *d = desc;
  const double m = (double)d->m, n = (double)d->n, k = (double)d->k;
  return (ga_work){.flops = 2 * m * n * k,
                   .bytes = n * k * opdef_elem_bytes(d->w_dtype) + m * k * opdef_elem_bytes(d->x_dtype) +
                            m * n * opdef_elem_bytes(d->y_dtype)};
}

static void gemm_shape(const void *desc, char *text, size_t capacity) {
  const ga_gemm_desc *d = desc;
  (void)snprintf(text, capacity, "%lld x %lld x %lld %s", (long long)d->m, (long long)d->n, (long long)d->k,
                 ga_dtype_name((ga_dtype)d->w_dtype));
}

static const char *gemm_lacks(const ga_kernel *k, const void *desc) {
  const uint32_t asked = ((const ga_gemm_desc *)desc)->flags;
  if (asked & GA_GEMM_INVARIANT && !(k->op_flags & GA_GEMM_ROW_INVARIANT)) return "it is not batch-invariant";
  return asked & GA_GEMM_X_E4M3 && !(k->op_flags & GA_GEMM_ROW_X_E4M3) ? "it does not round X to e4m3" : NULL;
}

/* With GA_GEMM_INVARIANT rows are compared by 32 rows of X. */
static bool gemm_typical(const void *desc, void *typical) {
  ga_gemm_fused_desc *d = typical;
  if (!(((const ga_gemm_desc *)desc)->flags & GA_GEMM_INVARIANT)) return false;
  *d = *(const ga_gemm_fused_desc *)desc;
  d->plain.m = 32;
  return true;
}

static bool gemm_same_order(const ga_kernel *a, const ga_kernel *b) {
  return a->op_flags & b->op_flags & GA_GEMM_ROW_ONE_ORDER && a->isa == b->isa && a->dtype[0] == b->dtype[0] &&
         a->layout == b->layout;
}

const ga_op_info ga_opdef_gemm = {.name = "gemm",
                                  .desc_bytes = sizeof(ga_gemm_fused_desc),
                                  .work = gemm_work,
                                  .shape = gemm_shape,
                                  .lacks = gemm_lacks,
                                  .typical = gemm_typical,
                                  .same_order = gemm_same_order};

static ga_work pack_work(const void *desc) {
  const ga_pack_desc *d = desc;
  return opdef_moved((double)d->n * (double)d->k);
}

static void pack_shape(const void *desc, char *text, size_t capacity) {
  const ga_pack_desc *d = desc;
  opdef_put_matrix(text, capacity, d->n, d->k, d->w_dtype, d->w_dtype);
}

const ga_op_info ga_opdef_pack = {
    .name = "pack", .desc_bytes = sizeof(ga_pack_desc), .work = pack_work, .shape = pack_shape};
