#include "cuda/cuda_gemm.h"

#include "base/mem.h"
#include "base/status.h"
#include "core/kargs_gemm.h"
#include "cuda/cuda.h"

#define BLOCKS_PER_SM 8 /* of 256 threads: a full multiprocessor */

static size_t bytes_of(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t->is_quant ? 1 : (size_t)t->block_bytes;
}

static ga_status check_io(ga_stream *stream, const ga_kernel *k, const ga_gemm_desc *d, const ga_gemm_io *a, size_t w_align) {
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, bytes_of(d->x_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "w", a->w, w_align));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, bytes_of(d->y_dtype)));
  if (d->flags & GA_GEMM_BIAS) GA_TRY(cuda_check_pointer(stream, k, "bias", a->bias, sizeof(float)));
  if (d->flags & GA_GEMM_GLU) GA_TRY(cuda_check_pointer(stream, k, "gate", a->gate, bytes_of(d->y_dtype)));
  if (d->flags & GA_GEMM_RESIDUAL) GA_TRY(cuda_check_pointer(stream, k, "residual", a->residual, bytes_of(d->y_dtype)));
  return GA_OK;
}

static ga_kargs_gemm kargs_of(const ga_gemm_desc *d, const ga_gemm_io *a) {
  return (ga_kargs_gemm){.x = a->x,
                         .w = a->w,
                         .y = a->y,
                         .bias = d->flags & GA_GEMM_BIAS ? a->bias : NULL,
                         .gate = d->flags & GA_GEMM_GLU ? a->gate : NULL,
                         .residual = d->flags & GA_GEMM_RESIDUAL ? a->residual : NULL,
                         .m = d->m,
                         .n = d->n,
                         .k = d->k,
                         .x_stride = d->x_stride,
                         .y_stride = d->y_stride,
                         .w_dtype = d->w_dtype,
                         .x_dtype = d->x_dtype,
                         .y_dtype = d->y_dtype,
                         .act = d->act,
                         .scale = d->scale,
                         .splits = 1};
}

/* --- weights as in the file --- */

const char *cuda_gemm_native_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  return ((const ga_gemm_desc *)desc)->w_layout == GA_LAYOUT_NATIVE ? NULL : "the weights are packed";
}

ga_status cuda_gemm_native(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(check_io(stream, k, d, io, bytes_of(d->w_dtype)));
  const ga_kargs_gemm args = kargs_of(d, io);
  const int64_t units = ga_div_up(d->n, v->threads / 32) * ga_div_up(d->m, 8);
  const int64_t most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(units, most), 1, 1}, .block = {v->threads, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
