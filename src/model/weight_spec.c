#include "model/weight_spec.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/status.h"

const weight_spec ga_weight_specs[W_COUNT] = {
#define X(id, name, kind, rows, cols, is_norm) [W_##id] = {name, kind, false, rows, cols, is_norm},
    GA_MODEL_WEIGHTS(X)
#undef X
#define X(id, name, kind, rows, cols, is_norm) [W_##id] = {name, kind, true, rows, cols, is_norm},
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

ga_status ga_weights_create(int32_t n_layers, ga_weight **out) {
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(((size_t)n_layers + 1) * W_COUNT, sizeof **out, "model", &p));
  *out = p;
  return GA_OK;
}

/* The first W_COUNT slots are for tensors of the whole model; those of each layer follow. */
static size_t weight_slot(weight_id id, int32_t il) {
  return (ga_weight_specs[id].of_layer ? ((size_t)il + 1) * W_COUNT : 0) + (size_t)id;
}

ga_weight *ga_weight_slot(ga_model *model, weight_id id, int32_t il) { return &model->weights[weight_slot(id, il)]; }
const ga_weight *ga_weight_at(const ga_model *model, weight_ref w) {
  const ga_weight *weight = &model->weights[weight_slot(w.id, w.layer)];
  if (w.part == PART_WEIGHT) return weight;
  return w.part == PART_A ? &weight->attachment->a : &weight->attachment->b;
}
