/* The parts of the check of attention (check_attn.c) that differ for 8-bit Q, K and V with scales. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_FP8_H
#define GA_VERIFY_CHECK_CHECK_ATTN_FP8_H

#include "verify/check/check.h"

void check_attn_fp8_draw(check_case *c, ga_attn_desc *d);
/* Chooses the values with which the argument q or k is filled. */
void check_attn_fp8_key(const check_case *c, check_arg *arg);
/* Adds the arguments V and scales to the check's arguments. */
void check_attn_fp8_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io);
void check_attn_fp8_fill(check_case *c, const check_arg *arg, double *values, int64_t n);
/* Evaluates attention plainly with the arithmetic of tensor cores, for all keys of a query at once. Sums are of 32
 * products with 13 fraction bits. Softmax weights are e4m3 numbers, relative to the row's true maximum. Sums over 128
 * keys are added in f32. For kernels with fast sums, weights include V's scale, and sums go over all keys. Q K^T of
 * int8 is exact. */
ga_status check_attn_fp8_plain(const ga_kernel *kernel, const ga_attn_desc *d, const ga_attn_io *a);
/* Sets bad[sequence][kv head][v_dim] to true where V has a NaN. */
void check_attn_fp8_mark(const ga_attn_desc *d, const ga_attn_io *a, bool *bad);

#endif
