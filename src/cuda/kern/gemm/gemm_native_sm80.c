#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"

#define BLOCKS_PER_SM 8 /* of 256 threads: a full multiprocessor */

const char *cuda_gemm_native_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_gemm_desc *d = desc;
  return d->w_layout == GA_LAYOUT_NATIVE ? ga_gemm_one_product(desc) : "the weights are packed";
}

ga_status cuda_gemm_native(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, io, cuda_gemm_align(d->w_dtype)));
  const ga_kargs_gemm_plain args = cuda_gemm_plain_kargs(d, io);
  const int64_t units = ga_div_up(d->n, v->threads / 32) * ga_div_up(d->m, 8);
  const int64_t most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_launch l = {
      .grid = {(uint32_t)ga_min_i64(units, most), 1, 1}, .block = {v->threads, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
