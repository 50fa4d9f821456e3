/* Descriptors of the ops of a layer beside products and attention, and of sampling: all move their rows. */
#include <stdio.h>

#include "opdef/ops.h"
#include "opdef/shape.h"

#define DEFINE(op, desc_type)        \
  const ga_op_info ga_opdef_##op = { \
      .name = #op, .desc_bytes = sizeof(desc_type), .work = op##_work, .shape = op##_shape}

/* An op whose descriptions d have rows x width elements, of the types from and to. */
#define DEFINE_MATRIX(op, from, to)                                       \
  static ga_work op##_work(const void *desc) {                            \
    const ga_##op##_desc *d = desc;                                       \
    return opdef_moved((double)d->rows * (double)d->width);               \
  }                                                                       \
  static void op##_shape(const void *desc, char *text, size_t capacity) { \
    const ga_##op##_desc *d = desc;                                       \
    opdef_put_matrix(text, capacity, d->rows, d->width, from, to);        \
  }                                                                       \
  DEFINE(op, ga_##op##_desc)

DEFINE_MATRIX(norm, d->x_dtype, d->y_dtype);
DEFINE_MATRIX(act, d->dtype, d->dtype);
DEFINE_MATRIX(add, d->dtype, d->dtype);
DEFINE_MATRIX(softmax, GA_F32, GA_F32);
DEFINE_MATRIX(convert, d->x_dtype, d->y_dtype);

static ga_work rope_work(const void *desc) {
  const ga_rope_desc *d = desc;
  return opdef_moved((double)d->tokens * d->heads * d->rot_dim);
}
static void rope_shape(const void *desc, char *text, size_t capacity) {
  const ga_rope_desc *d = desc;
  opdef_put_heads(text, capacity, d->tokens, d->heads, d->head_dim, d->x_dtype, d->x_dtype);
}
DEFINE(rope, ga_rope_desc);

static ga_work embed_work(const void *desc) {
  const ga_embed_desc *d = desc;
  return opdef_moved((double)d->tokens * (double)d->width);
}
static void embed_shape(const void *desc, char *text, size_t capacity) {
  const ga_embed_desc *d = desc;
  (void)snprintf(text, capacity, "%lld tokens of %s", (long long)d->tokens, ga_dtype_name((ga_dtype)d->w_dtype));
}
DEFINE(embed, ga_embed_desc);

static ga_work kv_store_work(const void *desc) {
  const ga_kv_store_desc *d = desc;
  return opdef_moved((double)d->tokens * d->heads * (d->head_dim + d->v_dim));
}
static void kv_store_shape(const void *desc, char *text, size_t capacity) {
  const ga_kv_store_desc *d = desc;
  opdef_put_heads(text, capacity, d->tokens, d->heads, d->head_dim, d->x_dtype, d->kv_dtype);
}
DEFINE(kv_store, ga_kv_store_fused_desc);

static ga_work sample_work(const void *desc) {
  const ga_sample_fused_desc *d = desc;
  return opdef_moved((double)d->plain.vocab * (d->rows ? d->rows : 1));
}
static void sample_shape(const void *desc, char *text, size_t capacity) {
  (void)snprintf(text, capacity, "%lld logits", (long long)((const ga_sample_desc *)desc)->vocab);
}
DEFINE(sample, ga_sample_fused_desc);
