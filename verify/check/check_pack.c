/* Packing. The order of packed bytes is private to a device's rows, so there is no oracle: that they hold the right
 * values is checked by the GEMM rows that read them (check_gemm.c). Here: nothing unwritten, nothing else touched. */
#include "verify/check/check.h"

static void draw(check_case *c) {
  static const ga_dtype weights[] = {GA_F32,    GA_F16,    GA_BF16,  GA_E4M3,  GA_Q4_0,    GA_Q4_1, GA_Q5_0,
                                     GA_Q5_1,   GA_Q8_0,   GA_Q2_K,  GA_Q3_K,  GA_Q4_K,    GA_Q5_K, GA_Q6_K,
                                     GA_IQ4_NL, GA_IQ4_XS, GA_MXFP4, GA_NVFP4, GA_E4M3_128};
  ga_pack_desc *d = c->desc;
  *d = (ga_pack_desc)GA_PACK_DESC_INIT;
  d->w_dtype = check_dtype_of(c, 0, weights, (int)GA_COUNT_OF(weights));
  d->n = check_extent(c, 0, 100);
  d->k = check_dim_step(c, 0, 1024, ga_dtype_info((ga_dtype)d->w_dtype)->block_elems);
  d->w_layout = (int32_t)c->kernel->layout;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_pack_desc *d = desc;
  check_in(a, "src", offsetof(ga_pack_io, src), d->w_dtype, d->n, d->k, d->k);
  uint64_t bytes = c->kernel->out_bytes(c->kernel, c->desc, &c->ctx->device->caps);
  check_arg *dst = check_out(a, "dst", offsetof(ga_pack_io, dst), GA_U8, 1, (int64_t)bytes, (int64_t)bytes);
  dst->align = 256; /* a device buffer */
}

const check_op check_pack = {.modes = CHECK_NORMAL, .no_oracle = true, .draw = draw, .args = args};
