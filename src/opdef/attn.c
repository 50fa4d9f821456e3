/* Parts of the descriptors of attention, of its gradients and of latent attention. */
#include "opdef/attn.h"

#include <string.h>

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

const char *opdef_mla_lacks(const ga_kernel *k, const void *desc) {
  const bool asked = ((const ga_mla_desc *)desc)->flags & GA_MLA_INVARIANT;
  return asked && !(k->op_flags & GA_MLA_ROW_INVARIANT) ? "it is not batch-invariant" : NULL;
}

/* With GA_MLA_INVARIANT rows are compared by a token over 4096 cached ones. */
bool opdef_mla_typical(const void *desc, void *typical) {
  ga_mla_desc *d = typical;
  if (!(((const ga_mla_desc *)desc)->flags & GA_MLA_INVARIANT)) return false;
  *d = *(const ga_mla_desc *)desc;
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

/* Rows that no sequence has are part of the results of packed calls, but for calls that add to what is there. */
static bool clears_padding(uint32_t flags) { return flags & GA_ATTN_VARLEN && !(flags & GA_ATTN_KEEP_PADDING); }

bool opdef_attn_after(const void *desc, ga_op *op, void *after) {
  const ga_attn_desc *d = desc;
  if (!clears_padding(d->flags) || d->flags & GA_ATTN_STATE_OUT) return false;
  ga_clear_padding_desc c = GA_CLEAR_PADDING_DESC_INIT;
  c.batch = d->batch, c.max_q = d->max_q, c.lse_stride = d->lse_stride;
  c.q_heads = d->q_heads, c.kv_heads = d->kv_heads;
  c.q_dim = c.v_dim = d->v_dim, c.k_dim = d->head_dim;
  c.dtype = d->o_dtype;
  *op = GA_OP_clear_padding;
  memcpy(after, &c, sizeof c);
  return true;
}

bool opdef_attn_bwd_after(const void *desc, ga_op *op, void *after) {
  const ga_attn_bwd_desc *d = desc;
  const uint32_t adds = GA_ATTN_BWD_ADD_DQ | GA_ATTN_BWD_ADD_DKV;
  if (!clears_padding(d->flags) || (d->flags & adds) == adds) return false;
  ga_clear_padding_desc c = GA_CLEAR_PADDING_DESC_INIT;
  c.batch = d->batch, c.max_q = d->max_q;
  c.q_heads = d->q_heads, c.kv_heads = d->kv_heads;
  c.q_dim = c.k_dim = d->head_dim, c.v_dim = d->v_dim;
  c.dtype = d->grad_dtype;
  *op = GA_OP_clear_padding;
  memcpy(after, &c, sizeof c);
  return true;
}
