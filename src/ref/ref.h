/* The oracles: one for each op, scalar, in double precision, for all element types. They are simple, so that readers
 * can check them, and slow. */
#ifndef GA_REF_REF_H
#define GA_REF_REF_H

#include "core/device.h"
#include "ga/gemm.h"
#include "opdef/ops.h"

extern const ga_backend ga_ref_backend;

/* Returns the kernel-table rows of all oracles, and their number in *n. The table is generated from ref.toml. */
const ga_kernel *ga_ref_rows(size_t *n);
const char *ga_ref_always(const ga_kernel *kernel, const void *desc, const ga_caps *caps);

#define GA_DECLARE_REF(op) \
  ga_status ga_ref_##op(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream)
#define X(op) GA_DECLARE_REF(op);
GA_OPS_WITH_ORACLE(X)
#undef X

/* Writes to out the matrix X [m, k] rounded to e4m3 as GA_GEMM_X_E4M3 says: each code times its scale. */
void ga_ref_gemm_round_x(const ga_gemm_desc *d, const void *x, double *out);

/* Returns element i of a contiguous array of any type. For block-quantised types, too, i counts elements, not
 * blocks. */
double ga_ref_load(ga_dtype dtype, const void *data, int64_t i);
/* Loads n elements: out[i] is element at + i * step. The type is looked up only once. */
void ga_ref_load_row(ga_dtype dtype, const void *data, int64_t at, int64_t step, int64_t n, double *out);
/* Returns element e of one block of a block-quantised type. */
double ga_ref_load_block(ga_dtype dtype, const void *block, int e);
/* Returns element e of one block of iq2, iq3 or tq. */
double ga_ref_load_grid(ga_dtype dtype, const void *block, int e);
/* Stores x as element i, rounded to nearest even. dtype must not be block-quantised. */
void ga_ref_store(ga_dtype dtype, void *data, int64_t i, double x);

#endif
