#include "model/weight_spec.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/gemm.h"
#include "model/graph.h"
#include "model/kv_split.h"
#include "model/promote.h"

const weight_spec ga_weight_specs[W_COUNT] = {
#define X(id, name, kind, rows, cols, is_norm) [W_##id] = {name, kind, false, rows, cols, is_norm},
    GA_MODEL_WEIGHTS(X)
#undef X
#define X(id, name, kind, rows, cols, is_norm) [W_##id] = {name, kind, true, rows, cols, is_norm},
        GA_LAYER_WEIGHTS(X)
#undef X
};

/* Width of the layer's feed-forward. */
static int64_t ff_width_of(const ga_hparams *p, int32_t il) {
  const int32_t own = il >= 0 && il < p->n_layers ? p->layer_ff_width[il] : 0;
  return own ? own : p->ff_width;
}

int64_t ga_weight_dim(const ga_hparams *p, weight_dim dim, int32_t il) {
  const ga_heads h = ga_heads_of(p, il);
  const int64_t heads = p->n_heads, kv = h.n_kv, d = h.dim, dv = h.v_dim;
  switch (dim) {
  case DIM_ONE: return 1;
  case DIM_WIDTH: return p->width;
  case DIM_FF: return ff_width_of(p, il);
  case DIM_FF_TWICE: return 2 * ff_width_of(p, il);
  case DIM_Q: return heads * d;
  case DIM_K: return kv * d;
  case DIM_V: return kv * dv;
  case DIM_QKV: return heads * d + kv * d + kv * dv;
  case DIM_O: return heads * dv;
  case DIM_HEAD: return d;
  case DIM_HEADS: return heads;
  case DIM_VOCAB: return p->vocab;
  case DIM_CONTEXT: return p->context;
  case DIM_TYPES: return 2;
  case DIM_EXPERTS: return p->n_experts;
  case DIM_EXPERT_FF: return p->expert_ff_width;
  case DIM_SHARED_FF: return p->shared_ff_width;
  case DIM_LATENT: return p->kv_latent;
  case DIM_LATENT_ROW: return p->kv_latent + p->rot_dim;
  case DIM_Q_LATENT: return p->q_latent;
  case DIM_NOPE: return d - p->rot_dim;
  case DIM_V_HEAD: return dv;
  case DIM_LAYER_EMBD: return p->layer_embed_width;
  case DIM_LAYER_EMBDS: return (int64_t)p->n_layers * p->layer_embed_width;
  }
  return 0;
}

int32_t ga_weight_dims(const ga_hparams *p, weight_id id, int32_t il, int64_t dims[GA_WEIGHT_DIMS]) {
  const weight_spec *s = &ga_weight_specs[id];
  int32_t n = 0;
  if (s->kind == KIND_STACK) dims[n++] = ga_weight_dim(p, DIM_EXPERTS, il);
  if (s->kind == KIND_HEADS) dims[n++] = ga_weight_dim(p, DIM_HEADS, il);
  if (s->kind != KIND_VECTOR) dims[n++] = ga_weight_dim(p, s->rows, il);
  const bool is_row_each = s->kind == KIND_VECTOR && s->rows == DIM_EXPERTS;
  dims[n++] = ga_weight_dim(p, s->cols, il) * (is_row_each ? ga_weight_dim(p, DIM_EXPERTS, il) : 1);
  return n;
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

/* --- as devices have them --- */

ga_weight ga_weight_of(const ga_hparams *p, weight_id id, int32_t il, ga_dtype dtype) {
  ga_weight w = {.dtype = dtype, .layout = GA_LAYOUT_NATIVE};
  w.n_dims = ga_weight_dims(p, id, il, w.dims);
  if (ga_weight_specs[id].rows == DIM_TYPES) w.dims[0] = p->n_types > 1 ? p->n_types : 1;
  return w;
}

ga_dtype ga_weight_dtype(const ga_model *model, ga_ctx *ctx, weight_kind kind, const ga_model_tensor *t) {
  switch (kind) {
  case KIND_MATRIX: return ga_stored_dtype(model, ctx, t);
  case KIND_TABLE:
  case KIND_STACK:
  case KIND_HEADS: return ga_table_dtype(t);
  case KIND_VECTOR: break;
  }
  return GA_F32;
}

int64_t ga_weight_pack_rows(const ga_weight *w) {
  const int64_t rows = ga_weight_rows(w);
  if (w->n_dims < 3) return rows;
  enum { GROUP_ROWS = 16 }; /* ga_expert_gemm_desc.w_layout */
  return rows % GROUP_ROWS ? 0 : w->dims[0] * rows;
}

ga_status ga_weight_describe(const ga_model *model, ga_ctx *ctx, weight_ref ref, ga_weight *out) {
  const weight_kind kind = ga_weight_specs[ref.id].kind;
  char name[GA_WEIGHT_NAME_BYTES];
  const ga_model_tensor *t = ga_model_file_find(model->file, ga_weight_name(ref.id, ref.layer, name));
  uint64_t bytes;
  ga_model_tensor split;
  *out = (ga_weight){.n_dims = 0};
  if (!t && kind == KIND_HEADS && kv_split_describe(model, ref.id, ref.layer, &split)) t = &split;
  if (!t) return GA_OK;
  *out = ga_weight_of(&model->hparams, ref.id, ref.layer, ga_weight_dtype(model, ctx, kind, t));
  if (kind != KIND_MATRIX && (!weight_is_stack(kind) || !graph_packs_stacks(model->graph))) return GA_OK;
  if (!ga_weight_pack_rows(out)) return GA_OK;
  return ga_pack_choose(ctx, out->dtype, ga_weight_pack_rows(out), ga_weight_cols(out), &out->layout, &bytes);
}
