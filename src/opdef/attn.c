/* Descriptors of attention: forward, merging of parts, backward, 8-bit inputs. */
#include "opdef/attn.h"

#include <stdio.h>

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

static void put_calls(char *text, size_t capacity, int64_t queries, int64_t keys, int32_t dtype, int32_t heads,
                      int32_t dim, int32_t kv_heads) {
  (void)snprintf(text, capacity, "%lld queries, up to %lld keys of %s, %d heads of %d, %d for keys", (long long)queries,
                 (long long)keys, ga_dtype_name((ga_dtype)dtype), heads, dim, kv_heads);
}

/* --- forward --- */

static ga_work attn_work(const void *desc) {
  const ga_attn_desc *d = desc;
  const double heads = (double)d->batch * d->q_heads, dims = d->head_dim + d->v_dim;
  return (ga_work){.flops = 2 * heads * dims * ga_attn_pairs(d->max_q, d->max_kv, d->flags & GA_ATTN_CAUSAL, d->window),
                   .bytes = (double)d->batch * (double)d->max_kv * d->kv_heads * dims * opdef_elem_bytes(d->kv_dtype)};
}

static void attn_shape(const void *desc, char *text, size_t capacity) {
  const ga_attn_desc *d = desc;
  put_calls(text, capacity, d->max_q, d->max_kv, d->kv_dtype, d->q_heads, d->head_dim, d->kv_heads);
}

static const char *attn_lacks(const ga_kernel *k, const void *desc) {
  const bool asked = ((const ga_attn_desc *)desc)->flags & GA_ATTN_INVARIANT;
  return asked && !(k->op_flags & GA_ATTN_ROW_INVARIANT) ? "it is not batch-invariant" : NULL;
}

/* With GA_ATTN_INVARIANT rows are compared by a token over 4096 keys. */
static bool attn_typical(const void *desc, void *typical) {
  ga_attn_desc *d = typical;
  if (!(((const ga_attn_desc *)desc)->flags & GA_ATTN_INVARIANT)) return false;
  *d = *(const ga_attn_desc *)desc;
  d->batch = d->max_q = 1;
  d->max_kv = 4096;
  return true;
}

const ga_op_info ga_opdef_attn = {.name = "attn",
                                  .desc_bytes = sizeof(ga_attn_desc),
                                  .work = attn_work,
                                  .shape = attn_shape,
                                  .lacks = attn_lacks,
                                  .typical = attn_typical};

/* --- merging of parts --- */

static ga_work merge_work(const void *desc) {
  (void)desc;
  return opdef_moved(0);
}

static void merge_shape(const void *desc, char *text, size_t capacity) {
  const ga_attn_merge_desc *d = desc;
  opdef_put_heads(text, capacity, d->rows, d->heads, d->dim, GA_F32, GA_F32);
}

const ga_op_info ga_opdef_attn_merge = {
    .name = "attn_merge", .desc_bytes = sizeof(ga_attn_merge_desc), .work = merge_work, .shape = merge_shape};

/* --- backward --- */

static ga_work bwd_work(const void *desc) {
  const ga_attn_bwd_desc *d = desc;
  const double heads = (double)d->batch * d->q_heads, dims = 3.0 * d->head_dim + 2.0 * d->v_dim;
  return (ga_work){.flops =
                       2 * heads * dims * ga_attn_pairs(d->max_q, d->max_kv, d->flags & GA_ATTN_CAUSAL, d->window)};
}

static void bwd_shape(const void *desc, char *text, size_t capacity) {
  const ga_attn_bwd_desc *d = desc;
  put_calls(text, capacity, d->max_q, d->max_kv, d->dtype, d->q_heads, d->head_dim, d->kv_heads);
}

const ga_op_info ga_opdef_attn_bwd = {
    .name = "attn_bwd", .desc_bytes = sizeof(ga_attn_bwd_desc), .work = bwd_work, .shape = bwd_shape};

/* --- 8-bit inputs --- */

static ga_work quant_work(const void *desc) {
  const ga_attn_quant_desc *d = desc;
  return opdef_moved((double)d->batch * (double)d->tokens * d->heads * d->dim);
}

static void quant_shape(const void *desc, char *text, size_t capacity) {
  const ga_attn_quant_desc *d = desc;
  opdef_put_heads(text, capacity, d->tokens, d->heads, d->dim, d->x_dtype, d->y_dtype);
}

const ga_op_info ga_opdef_attn_quant = {
    .name = "attn_quant", .desc_bytes = sizeof(ga_attn_quant_desc), .work = quant_work, .shape = quant_shape};
