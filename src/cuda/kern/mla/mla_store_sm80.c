#include "cuda/kern/mla/mla_store_args.h"

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/mla/mla.h"

#define BLOCKS_AN_SM 8

const char *cuda_mla_store_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

static ga_status check_mla_store_io(ga_stream *stream, const ga_kernel *k, const ga_mla_store_desc *d,
                                    const ga_mla_store_io *a) {
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, (size_t)ga_dtype_info((ga_dtype)d->x_dtype)->block_bytes));
  GA_TRY(cuda_check_pointer(stream, k, "norm", a->norm, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "slot", a->slot, sizeof(int32_t)));
  GA_TRY(cuda_check_pointer(stream, k, "cache", a->cache, cuda_mla_cache_align(d->kv_dtype)));
  if (!d->rot_dim) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "positions", a->positions, sizeof(int32_t)));
  return cuda_check_pointer(stream, k, "inv_freq", a->inv_freq, sizeof(float));
}

ga_status cuda_mla_store(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_mla_store_desc *d = desc;
  const ga_mla_store_io *a = io;
  const cuda_variant *v = k->impl;
  const int64_t most = (int64_t)stream->device->caps.sms * BLOCKS_AN_SM;
  if (d->tokens == 0) return GA_OK;
  GA_TRY(check_mla_store_io(stream, k, d, a));
  const ga_kargs_mla_store args = {.x = a->x,
                                   .norm = a->norm,
                                   .slot = a->slot,
                                   .positions = a->positions,
                                   .inv_freq = a->inv_freq,
                                   .cache = a->cache,
                                   .tokens = d->tokens,
                                   .slots = d->slots,
                                   .x_stride = d->x_stride,
                                   .v_dim = d->v_dim,
                                   .rot_dim = d->rot_dim,
                                   .pairs = d->pairs,
                                   .x_dtype = d->x_dtype,
                                   .kv_dtype = d->kv_dtype,
                                   .norm_eps = d->norm_eps,
                                   .magnitude = d->magnitude};
  const cuda_launch l = {
      .grid = {(uint32_t)ga_min_i64(d->tokens, most), 1, 1}, .block = {v->threads, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
