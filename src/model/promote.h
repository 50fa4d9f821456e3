/* Types that weights have where the file mixes some that need not be mixed, on devices that gain by that. */
#ifndef GA_MODEL_PROMOTE_H
#define GA_MODEL_PROMOTE_H

#include "base/thread.h"
#include "ga/model_file.h"
#include "model/model.h"

/* The type that a table of rows to look up gets: its own, but q8_0 for types without kernels (iq2, iq3, tq). */
ga_dtype ga_table_dtype(const ga_model_tensor *t);

/* The type that matrix t gets at ctx. e4m3 becomes e4m3_128 where rows of the device join products by that, and its
 * columns are whole blocks; elsewhere bf16. Types without kernels become q8_0. Else its own but where a
 * row of the device takes several matrices of q8_0 by one normed X, for small matrices of q4_0 and q5_0 of a layer, in
 * files whose layers have q8_0, too: those become q8_0, which has every value of the other two. Files that mix four to
 * six bits fall back on these types where rows are no multiple of 256, so that q, k and v differ. Alike they go out in
 * one launch, and a kernel's code is there already when the next product runs it. */
ga_dtype ga_stored_dtype(const ga_model *model, ga_ctx *ctx, const ga_model_tensor *t);

/* t's blocks as q8_0, in host memory that the caller releases with ga_mem_free. t: q4_0, q5_0 or a type without
 * kernels. Values are the same but where a scale is rounded to f16 (iq2, iq3), or where 32 elements have two scales
 * (iq2_xs, iq2_s: each is off by at most 1/254 of the largest). The threads of `pool` share the blocks, NULL: the
 * caller's alone; the bytes are the same. */
GA_NODISCARD ga_status ga_promote_q8_0(ga_pool *pool, const ga_model_file *file, const ga_model_tensor *t, void **out,
                                       uint64_t *bytes);

/* An e4m3 matrix [rows, cols] as `to`: e4m3_128, its codes beside their scales in f32, where cols is a multiple of 128;
 * or bf16, its elements times their scale, rounded once. The scale is the tensor named as t with the suffix "_scale" or
 * "_scale_inv" (both multiply; a file has one of them): one for all, one a row, or one for each block of 128 x 128, of
 * any value. Without such a tensor it is 1, but an error where the file has "ga.fp8_scales". Memory and threads as
 * above. */
GA_NODISCARD ga_status ga_promote_e4m3(ga_pool *pool, const ga_model_file *file, const ga_model_tensor *t, int64_t rows,
                                       int64_t cols, ga_dtype to, void **out, uint64_t *bytes);

#endif
