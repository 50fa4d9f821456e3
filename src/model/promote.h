/* The types in which weights are stored on devices. A file may mix types. On some devices products are faster if a few
 * tensors are converted. */
#ifndef GA_MODEL_PROMOTE_H
#define GA_MODEL_PROMOTE_H

#include "base/thread.h"
#include "ga/model_file.h"
#include "model/model.h"

/* Returns the type in which a table whose rows are looked up (an embedding) is stored. It is the file's type, but q8_0
 * for types without kernels (iq2, iq3, tq). */
ga_dtype ga_table_dtype(const ga_model_tensor *t);

/* Returns the type in which ctx stores the matrix t.
 *
 *   e4m3                            e4m3_128 if the device has kernels for it and columns are whole blocks; else bf16
 *   types without kernels           q8_0
 *   q4_0, q5_0, in a layer          q8_0 if the matrix (for k and v: the matrix of q) has at most 6 MiB as q8_0, layers
 *                                   of the file also have q8_0, and a kernel of the device takes several q8_0 matrices
 *                                   with one normed X
 *   all others                      their own type
 *
 * q8_0 has every value of q4_0 and q5_0. Files that mix four to six bits use these types where rows are no multiple of
 * 256, so that q, k and v differ. With one type they are one launch, and the kernel's code is already loaded when the
 * next product runs it. */
ga_dtype ga_stored_dtype(const ga_model *model, ga_ctx *ctx, const ga_model_tensor *t);

/* Converts the blocks of t to q8_0, in host memory that the caller releases with ga_mem_free. t is q4_0, q5_0 or of a
 * type without kernels. The values stay exactly the same, with two exceptions. For iq2 and iq3 a scale is rounded to
 * f16. For iq2_xs and iq2_s 32 elements have two scales, so each value is off by at most 1/254 of the largest. The
 * threads of `pool` share the work; NULL: the caller's thread does all. The result does not depend on the number of
 * threads. */
GA_NODISCARD ga_status ga_promote_q8_0(ga_pool *pool, const ga_model_file *file, const ga_model_tensor *t, void **out,
                                       uint64_t *bytes);

/* Converts an e4m3 matrix [rows, cols] to the type `to`. e4m3_128: codes with their scales in f32, where cols is a
 * multiple of 128. bf16: elements times their scale, rounded once. Scales are the tensor named as t with the suffix
 * "_scale" or "_scale_inv" (both multiply; a file has one of them). The tensor has one scale for the matrix, one for
 * each row, or one for each block of 128 x 128. Without such a tensor the scale is 1, but if the file has
 * "ga.fp8_scales" this is an error. The caller releases *out with ga_mem_free. The threads of `pool` share the work;
 * NULL: the caller's thread does all. */
GA_NODISCARD ga_status ga_promote_e4m3(ga_pool *pool, const ga_model_file *file, const ga_model_tensor *t, int64_t rows,
                                       int64_t cols, ga_dtype to, void **out, uint64_t *bytes);

#endif
