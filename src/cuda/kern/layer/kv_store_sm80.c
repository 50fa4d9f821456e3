#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"

#define MANY_TOKENS 32
#define MAX_SCALED  256 /* elements of a head in e4m3: a warp has them all at once */

static const char *cache_ok(const ga_kv_store_desc *d) {
  const bool known = d->kv_dtype == GA_F32 || d->kv_dtype == GA_F16 || d->kv_dtype == GA_BF16 ||
                     d->kv_dtype == GA_E4M3 || d->kv_dtype == GA_Q8_0 || d->kv_dtype == GA_Q4_0;
  if (!known) return "kv_dtype must be f32, f16, bf16, e4m3, q8_0 or q4_0";
  return d->kv_dtype == GA_E4M3 && (d->head_dim > MAX_SCALED || d->v_dim > MAX_SCALED)
             ? "head_dim or v_dim is above 256, in e4m3"
             : NULL;
}

const char *cuda_kv_store_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_kv_store_fused_desc *d = desc;
  if (d->head_norm) return "it does not norm heads";
  return d->plain.kv_dtype == GA_E4M3 ? "a row of its own writes e4m3" : cache_ok(&d->plain);
}

const char *cuda_kv_store_scaled_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_kv_store_fused_desc *d = desc;
  if (d->head_norm) return "it does not norm heads";
  return d->plain.kv_dtype != GA_E4M3 ? "it writes e4m3" : cache_ok(&d->plain);
}

static int32_t threads_of(const ga_kernel *k) { return (int32_t)((const cuda_variant *)k->impl)->threads; }

/* Lanes that an element each of a head of Q, K or V take: whole warps. */
static int32_t lanes_of_head(const ga_kv_store_desc *d) {
  return (int32_t)ga_round_up((size_t)(d->v_dim > d->head_dim ? d->v_dim : d->head_dim), 32);
}

const char *cuda_kv_store_normed_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_kv_store_fused_desc *fused = desc;
  const ga_kv_store_desc *d = &fused->plain;
  if (!fused->head_norm) return "it is for heads that are normed";
  if (d->kv_dtype == GA_E4M3) return "it does not write e4m3 caches";
  return lanes_of_head(d) <= threads_of(k) ? cache_ok(d) : "a block is smaller than head_dim or v_dim";
}

static ga_status check_rotation(ga_stream *stream, const ga_kernel *k, const ga_kv_store_fused_desc *d,
                                const ga_kv_store_fused_io *a) {
  if (!d->rot_dim) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "q", a->q, cuda_layer_align(d->plain.x_dtype)));
  LAYER_CHECK(positions, GA_I32);
  LAYER_CHECK(inv_freq, GA_F32);
  if (!d->head_norm) return GA_OK;
  LAYER_CHECK(q_norm, GA_F32);
  LAYER_CHECK(k_norm, GA_F32);
  return GA_OK;
}

ga_status cuda_kv_store(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_kv_store_fused_desc *fused = desc;
  const ga_kv_store_fused_io *fused_io = io;
  const ga_kv_store_desc *d = &fused->plain;
  const ga_kv_store_io *a = &fused_io->plain;
  const int64_t k_width = (int64_t)d->heads * d->head_dim, v_width = (int64_t)d->heads * d->v_dim;
  const int32_t chunk = d->tokens >= MANY_TOKENS ? 8 : 1; /* few tokens: all warps there are */
  const bool scaled = d->kv_dtype == GA_E4M3;
  if (d->tokens == 0 || k_width + v_width == 0) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "k", a->k, cuda_layer_align(d->x_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "v", a->v, cuda_layer_align(d->x_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "k_cache", a->k_cache, cuda_layer_align(d->kv_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "v_cache", a->v_cache, cuda_layer_align(d->kv_dtype)));
  LAYER_CHECK(slot, GA_I32);
  if (scaled) {
    LAYER_CHECK(k_scale, GA_F32);
    LAYER_CHECK(v_scale, GA_F32);
  }
  GA_TRY(check_rotation(stream, k, fused, fused_io));
  const ga_kargs_kv_store args = {.k = a->k,
                                  .v = a->v,
                                  .slot = a->slot,
                                  .k_cache = a->k_cache,
                                  .v_cache = a->v_cache,
                                  .tokens = d->tokens,
                                  .slots = d->slots,
                                  .k_stride = d->k_stride,
                                  .v_stride = d->v_stride,
                                  .k_width = (int32_t)k_width,
                                  .v_width = (int32_t)v_width,
                                  .x_dtype = d->x_dtype,
                                  .kv_dtype = d->kv_dtype,
                                  .q = fused_io->q,
                                  .positions = fused_io->positions,
                                  .inv_freq = fused_io->inv_freq,
                                  .q_stride = fused->q_stride,
                                  .q_heads = fused->q_heads,
                                  .head_dim = d->head_dim,
                                  .rot_dim = fused->rot_dim,
                                  .pairs = fused->pairs,
                                  .magnitude = fused->magnitude,
                                  .chunk = chunk,
                                  .k_scale = a->k_scale,
                                  .v_scale = a->v_scale,
                                  .q_norm = fused_io->q_norm,
                                  .k_norm = fused_io->k_norm,
                                  .norm_eps = fused->norm_eps,
                                  .lanes = lanes_of_head(d)};
  if (fused->head_norm) /* a block takes as many heads as it has lanes for, `chunk` times */
    return cuda_layer_enqueue(
        k, stream, d->tokens * ga_div_up(fused->q_heads + 2 * (int64_t)d->heads, threads_of(k) / args.lanes * chunk),
        &args);
  /* A warp takes 32 elements of K or V (in e4m3 a head of them), or 32 pairs of Q, in `chunk` heads. */
  const int64_t kv = scaled ? 2 * d->heads : ga_div_up(k_width, 32) + ga_div_up(v_width, 32);
  const int64_t warps = ga_div_up(kv + ga_div_up(fused->rot_dim / 2, 32) * fused->q_heads, chunk);
  return cuda_layer_enqueue_rows(k, stream, 1, d->tokens * warps * 32, &args);
}
