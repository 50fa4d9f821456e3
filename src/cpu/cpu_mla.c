/* Multi-head latent attention on the CPU: attention whose only KV head has the latent cache for keys and, in their
 * first elements, for values. */
#include "base/status.h"
#include "cpu/cpu_attn.h"

const char *ga_cpu_mla_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_mla_desc *d = desc;
  return d->q_dtype != GA_F32 || d->o_dtype != GA_F32 ? "q or o is not f32" : NULL;
}

static ga_attn_desc attn_desc_of(const ga_mla_desc *d) {
  ga_attn_desc as = GA_ATTN_DESC_INIT;
  as.batch = d->batch, as.max_q = d->max_q, as.max_kv = d->max_kv;
  as.q_heads = d->q_heads, as.kv_heads = 1;
  as.head_dim = d->head_dim, as.v_dim = d->v_dim;
  as.kv_dtype = d->kv_dtype;
  as.page_size = d->page_size;
  as.scale = d->scale;
  as.lse_stride = d->lse_stride;
  as.flags = GA_ATTN_CAUSAL | GA_ATTN_VARLEN | GA_ATTN_PAGED | GA_ATTN_KEEP_PADDING;
  if (d->flags & GA_MLA_LSE) as.flags |= GA_ATTN_LSE;
  if (d->flags & GA_MLA_INVARIANT) as.flags |= GA_ATTN_INVARIANT;
  return as;
}

uint64_t ga_cpu_mla_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  const ga_attn_desc as = attn_desc_of(desc);
  return ga_cpu_attn_workspace(kernel, &as, caps);
}

static ga_status check_sequences(const ga_kernel *kernel, const ga_mla_desc *d, const ga_mla_io *a) {
  for (int64_t b = 0; b < d->batch && d->max_q; b++) {
    const int64_t first = a->q_start[b], n_q = (int64_t)a->q_start[b + 1] - first, n_kv = a->kv_len[b];
    GA_REQUIRE(n_q >= 0 && n_q <= d->max_q && n_kv >= 0 && n_kv <= d->max_kv, GA_ERR_ARG,
               "mla %s: sequence %lld has %lld queries, %lld cached tokens; must be 0 to %lld, 0 to %lld", kernel->id,
               (long long)b, (long long)n_q, (long long)n_kv, (long long)d->max_q, (long long)d->max_kv);
    GA_REQUIRE(first >= 0 && (!d->lse_stride || first <= d->lse_stride - n_q), GA_ERR_ARG,
               "mla %s: sequence %lld has queries %lld to %lld; must begin at 0 or later and, with LSE, end by "
               "lse_stride, %lld",
               kernel->id, (long long)b, (long long)first, (long long)(first + n_q), (long long)d->lse_stride);
  }
  return GA_OK;
}

ga_status cpu_mla_as_attn(const ga_kernel *kernel, const ga_mla_desc *d, const ga_mla_io *a, ga_attn_desc *as_desc,
                          ga_attn_io *as_io) {
  GA_TRY(check_sequences(kernel, d, a));
  *as_desc = attn_desc_of(d);
  *as_io = (ga_attn_io){.q = a->q,
                        .k = a->cache,
                        .v = a->cache,
                        .o = a->o,
                        .lse = a->lse,
                        .q_start = a->q_start,
                        .kv_len = a->kv_len,
                        .page_table = a->page_table,
                        .page_table_stride = a->page_table_stride,
                        .q_tokens = a->q_tokens};
  as_io->q_stride = (ga_attn_strides){.token = d->q_stride, .head = d->head_dim};
  as_io->o_stride = (ga_attn_strides){.token = d->o_stride, .head = d->v_dim};
  as_io->k_stride =
      (ga_attn_strides){.batch = (int64_t)d->page_size * d->head_dim, .token = d->head_dim, .head = d->head_dim};
  as_io->v_stride = as_io->k_stride;
  return GA_OK;
}
