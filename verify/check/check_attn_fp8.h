/* What check_attn.c does otherwise when Q, K and V are 8-bit with scales. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_FP8_H
#define GA_VERIFY_CHECK_CHECK_ATTN_FP8_H

#include "verify/check/check.h"

void check_attn_fp8_draw(check_case *c, ga_attn_desc *d);
/* How q or k is filled. */
void check_attn_fp8_key(const check_case *c, check_arg *arg);
/* V and the scales. */
void check_attn_fp8_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io);
void check_attn_fp8_fill(check_case *c, const check_arg *arg, double *values, int64_t n);
/* As tensor cores would have it without a flow of blocks: sums of 32 products with 13 fraction bits, weights in e4m3
 * below the row's true maximum, sums over 128 keys added up in f32; a kernel that sums fast: weights with V's scale,
 * sums over all keys. Q K^T of i8 is exact. */
ga_status check_attn_fp8_plain(const ga_kernel *kernel, const ga_attn_desc *d, const ga_attn_io *a);
/* bad[sequence][kv head][v_dim]: V has a NaN there. */
void check_attn_fp8_mark(const ga_attn_desc *d, const ga_attn_io *a, bool *bad);

#endif
