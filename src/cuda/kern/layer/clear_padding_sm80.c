#include "cuda/kern/layer/clear_padding.h"
#include "cuda/kern/layer/clear_padding_args.h"
#include "ga/attn.h"

#define MOST_TILES ((int64_t)1 << 30)

const char *cuda_clear_padding_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

static ga_kargs_padded padded_tensor(void *x, const ga_attn_strides *s, int32_t heads, int32_t dim, int32_t element) {
  const int32_t wide = CUDA_LAYER_WIDE_BYTES;
  const uint64_t sizes = (uint64_t)(s->token * element) | (uint64_t)(dim * element) |
                         (heads > 1 ? (uint64_t)(s->head * element) : 0) | (uint64_t)(uintptr_t)x;
  const int32_t unit = sizes % (uint64_t)wide == 0 ? wide : element;
  return (ga_kargs_padded){.x = x,
                           .token = s->token * element / unit,
                           .head = s->head * element / unit,
                           .units = dim * element / unit,
                           .unit = unit};
}

static int64_t padding_tiles(const ga_kernel *k, const void *first, const void *second, int64_t tokens) {
  const cuda_variant *v = k->impl;
  return first || second ? ga_div_up(tokens, (int64_t)v->threads) : 0;
}

static ga_status check_pointers(const ga_kernel *k, const ga_clear_padding_io *a, size_t element, ga_stream *stream) {
  const struct {
    const char *name;
    const void *p;
    size_t align;
  } all[] = {{"q", a->q, element},
             {"k", a->k, element},
             {"v", a->v, element},
             {"lse", a->lse, sizeof(float)},
             {"q_start", a->q_start, sizeof(int32_t)},
             {"kv_start", a->kv_start, sizeof(int32_t)},
             {"q_len", a->q_len, sizeof(int32_t)},
             {"kv_len", a->kv_len, sizeof(int32_t)}};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++)
    GA_TRY(cuda_check_pointer(stream, k, all[i].name, all[i].p, all[i].align));
  return GA_OK;
}

ga_status cuda_clear_padding(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_clear_padding_desc *d = desc;
  const ga_clear_padding_io *a = io;
  const int32_t element = ga_dtype_info((ga_dtype)d->dtype)->block_bytes;
  const int64_t q = padding_tiles(k, a->q, d->lse_stride ? a->lse : NULL, a->q_tokens),
                kv = padding_tiles(k, a->k, a->v, a->kv_tokens), ends = a->lse && !d->lse_stride ? d->batch : 0;
  GA_REQUIRE(q <= MOST_TILES && kv <= MOST_TILES, GA_ERR_SHAPE, "%s: q_tokens %lld, kv_tokens %lld; at most 2^38",
             k->id, (long long)a->q_tokens, (long long)a->kv_tokens);
  if (q + kv + ends == 0) return GA_OK;
  GA_TRY(check_pointers(k, a, (size_t)element, stream));
  const ga_kargs_clear_padding args = {.q = {.x = {padded_tensor(a->q, &a->q_stride, d->q_heads, d->q_dim, element)},
                                             .start = a->q_start,
                                             .len = a->q_len,
                                             .tokens = a->q_tokens,
                                             .heads = d->q_heads,
                                             .tiles = (int32_t)q},
                                       .kv = {.x = {padded_tensor(a->k, &a->k_stride, d->kv_heads, d->k_dim, element),
                                                    padded_tensor(a->v, &a->v_stride, d->kv_heads, d->v_dim, element)},
                                              .start = a->kv_start,
                                              .len = a->kv_len,
                                              .tokens = a->kv_tokens,
                                              .heads = d->kv_heads,
                                              .tiles = (int32_t)kv},
                                       .lse = a->lse,
                                       .batch = d->batch,
                                       .max_q = d->max_q,
                                       .lse_stride = d->lse_stride};
  return cuda_layer_enqueue(k, stream, q + kv + ends, &args);
}
