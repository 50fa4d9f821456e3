#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"

#define FEW_ROWS 8 /* of X */

const char *cuda_gemm_f32_few_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_gemm_desc *d = desc;
  const char *refusal = cuda_gemm_native_ok(k, desc, caps);
  if (refusal) return refusal;
  if (d->w_dtype != GA_F32 || d->x_dtype != GA_F32 || d->y_dtype != GA_F32) return "x, w and y must be f32";
  if (d->flags & (GA_GEMM_XT | GA_GEMM_WT) || d->scales) return "operands are transposed, or have scales";
  if (d->m > FEW_ROWS) return "m is above 8";
  return d->n > INT32_MAX ? "n is too large" : NULL;
}

/* Clocks of 1.98 GHz of an H200: a launch, and bytes of W. */
double cuda_gemm_f32_few_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  enum { LAUNCH = 5000, BYTES = 1500 /* a clock */ };
  (void)k;
  const ga_gemm_desc *d = desc;
  return cuda_clocks_us(caps, LAUNCH + d->n * d->k * (int64_t)sizeof(float) / BYTES);
}

ga_status cuda_gemm_f32_few(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, io, sizeof(float)));
  const ga_kargs_gemm_plain args = cuda_gemm_plain_kargs(d, io);
  const cuda_launch l = {.grid = {(uint32_t)d->n, 1, 1}, .block = {v->threads, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
