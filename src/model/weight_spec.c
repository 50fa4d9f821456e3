#include "model/weight_spec.h"

#include <stdio.h>

const weight_spec ga_weight_specs[W_COUNT] = {
#define X(id, name, kind, field, rows, cols, is_norm) \
  [W_##id] = {name, kind, false, offsetof(ga_model, field), rows, cols, is_norm},
    GA_MODEL_WEIGHTS(X)
#undef X
#define X(id, name, kind, field, rows, cols, is_norm) \
  [W_##id] = {name, kind, true, offsetof(ga_layer, field), rows, cols, is_norm},
        GA_LAYER_WEIGHTS(X)
#undef X
};

int64_t ga_weight_dim(const ga_hparams *p, weight_dim dim) {
  const int64_t heads = p->n_heads, kv = p->n_kv_heads, d = p->head_dim, dv = p->v_dim;
  switch (dim) {
  case DIM_ONE: return 1;
  case DIM_WIDTH: return p->width;
  case DIM_FF: return p->ff_width;
  case DIM_FF_TWICE: return 2 * (int64_t)p->ff_width;
  case DIM_Q: return heads * d;
  case DIM_K: return kv * d;
  case DIM_V: return kv * dv;
  case DIM_QKV: return heads * d + kv * d + kv * dv;
  case DIM_O: return heads * dv;
  case DIM_HEAD: return d;
  case DIM_VOCAB: return p->vocab;
  case DIM_CONTEXT: return p->context;
  case DIM_TYPES: return 2;
  }
  return 0;
}

const char *ga_weight_name(weight_id id, int32_t il, char text[GA_WEIGHT_NAME_BYTES]) {
  const weight_spec *s = &ga_weight_specs[id];
  if (s->of_layer)
    (void)snprintf(text, GA_WEIGHT_NAME_BYTES, "blk.%d.%s", il, s->name);
  else
    (void)snprintf(text, GA_WEIGHT_NAME_BYTES, "%s", s->name);
  return text;
}

void *ga_weight_field(ga_model *model, weight_id id, int32_t il) {
  const weight_spec *s = &ga_weight_specs[id];
  char *base = s->of_layer ? (char *)&model->layers[il] : (char *)model;
  return base + s->offset;
}

const void *ga_weight_at(const ga_model *model, weight_id id, int32_t il) {
  const weight_spec *s = &ga_weight_specs[id];
  const char *base = s->of_layer ? (const char *)&model->layers[il] : (const char *)model;
  return base + s->offset;
}
