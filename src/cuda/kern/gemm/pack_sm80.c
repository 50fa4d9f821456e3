#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"

#define BLOCKS_PER_SM 8 /* of 256 threads: a full multiprocessor */

const char *cuda_pack_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_pack_desc *d = desc;
  if (d->w_layout != (int32_t)k->layout) return "it makes another layout";
  return cuda_unit_of(d->w_dtype) ? NULL : "there is no packed form of this type";
}

uint64_t cuda_pack_bytes(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_pack_desc *d = desc;
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  return (uint64_t)ga_div_up(d->n, GA_PACKED_ROWS) * (uint64_t)ga_div_up(d->k, u->k) * (uint64_t)u->bytes;
}

ga_status cuda_pack(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_pack_desc *d = desc;
  const ga_pack_io *a = io;
  const cuda_variant *v = k->impl;
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  if (d->n == 0 || d->k == 0) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "src", a->src, cuda_gemm_align(d->w_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "dst", a->dst, 16));
  const ga_kargs_pack args = {.src = a->src,
                              .dst = a->dst,
                              .n = d->n,
                              .k = d->k,
                              .units = ga_div_up(d->k, u->k),
                              .w_dtype = d->w_dtype,
                              .unit_k = u->k,
                              .unit_bytes = u->bytes};
  const int64_t warps = ga_div_up(d->n, GA_PACKED_ROWS) * args.units,
                most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(ga_div_up(warps, v->threads / 32), most), 1, 1},
                         .block = {v->threads, 1, 1}};
  return cuda_enqueue(stream, k, &l, &args);
}
