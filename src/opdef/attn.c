/* Parts of the descriptors of attention and of its gradients. */
#include "opdef/attn.h"

#include "core/kernel.h"
#include "opdef/ops.h"
#include "opdef/shape.h"

double ga_attn_pairs(int64_t max_q, int64_t max_kv, bool causal, int64_t window) {
  const double q = (double)max_q, keys = (double)max_kv;
  double seen = keys;
  if (causal || window) seen = keys > q ? keys - q / 2 : keys / 2;
  if (window && (double)window < seen) seen = (double)window;
  return q * seen;
}

ga_work opdef_attn_work(const void *desc) {
  const ga_attn_desc *d = desc;
  const double heads = (double)d->batch * d->q_heads, dims = d->head_dim + d->v_dim;
  return (ga_work){.flops = 2 * heads * dims * ga_attn_pairs(d->max_q, d->max_kv, d->flags & GA_ATTN_CAUSAL, d->window),
                   .bytes = (double)d->batch * (double)d->max_kv * d->kv_heads * dims * opdef_elem_bytes(d->kv_dtype)};
}

const char *opdef_attn_lacks(const ga_kernel *k, const void *desc) {
  const bool asked = ((const ga_attn_desc *)desc)->flags & GA_ATTN_INVARIANT;
  return asked && !(k->op_flags & GA_ATTN_ROW_INVARIANT) ? "it is not batch-invariant" : NULL;
}

/* With GA_ATTN_INVARIANT rows are compared by a token over 4096 keys. */
bool opdef_attn_typical(const void *desc, void *typical) {
  ga_attn_desc *d = typical;
  if (!(((const ga_attn_desc *)desc)->flags & GA_ATTN_INVARIANT)) return false;
  *d = *(const ga_attn_desc *)desc;
  d->batch = d->max_q = 1;
  d->max_kv = 4096;
  return true;
}

ga_work opdef_attn_bwd_work(const void *desc) {
  const ga_attn_bwd_desc *d = desc;
  const double heads = (double)d->batch * d->q_heads, dims = 3.0 * d->head_dim + 2.0 * d->v_dim;
  return (ga_work){.flops =
                       2 * heads * dims * ga_attn_pairs(d->max_q, d->max_kv, d->flags & GA_ATTN_CAUSAL, d->window)};
}
