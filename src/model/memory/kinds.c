#include "base/status.h"
#include "model/memory/types.h"

#define LIST_TYPE(type) &type,
static const memory_kind_type *const types[] = {MEMORY_TYPES(LIST_TYPE)};

/* Bytes of one unit in a layer. */
static ga_status layer_unit_bytes(const ga_hparams *p, ga_dtype dtype, const memory_kind_type *type, int32_t layer,
                                  uint64_t *bytes) {
  memory_layout layout;
  GA_TRY(type->layout(p, dtype, layer, 1, &layout));
  *bytes = 0;
  for (int32_t t = 0; t < layout.n_tensors; t++) *bytes += layout.tensors[t].bytes;
  return GA_OK;
}

ga_status memory_need_of(const ga_hparams *p, ga_dtype dtype, int32_t layer, memory_need *out) {
  *out = (memory_need){0};
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    uint64_t bytes;
    if (!types[i]->has_layer(p, layer)) continue;
    GA_TRY(layer_unit_bytes(p, dtype, types[i], layer, &bytes));
    if (types[i]->unit_tokens)
      out->token = bytes / (uint64_t)types[i]->unit_tokens;
    else
      out->sequence = bytes;
    return GA_OK;
  }
  return GA_OK;
}

ga_status memory_bytes_of_layers(const ga_hparams *p, ga_dtype dtype, const memory_kinds *kinds, int32_t first,
                                 int32_t end, uint64_t bytes[MEMORY_KINDS_MAX]) {
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) bytes[kind] = 0;
  for (int32_t il = first; il < end; il++) {
    const int32_t kind = kinds->of_layer[il];
    uint64_t layer;
    if (kind == MEMORY_NONE) continue;
    GA_TRY(layer_unit_bytes(p, dtype, kinds->type[kind], il, &layer));
    bytes[kind] += layer;
  }
  return GA_OK;
}

/* Gives the type the layers that it accepts and no earlier type has. A type without layers is not listed. */
static ga_status add_type(const ga_hparams *p, ga_dtype dtype, const memory_kind_type *type, memory_kinds *list) {
  memory_kind kind = {.name = type->name,
                      .unit_tokens = type->unit_tokens,
                      .window = type->window ? type->window(p) : 0,
                      .is_shared = type->is_shared,
                      .exact_rewind = type->exact_rewind};
  int32_t n_layers = 0;
  for (int32_t il = 0; il < p->n_layers; il++) {
    uint64_t bytes;
    if (list->of_layer[il] != MEMORY_NONE || !type->has_layer(p, il)) continue;
    GA_REQUIRE(list->n < MEMORY_KINDS_MAX, GA_ERR_UNSUPPORTED, "layer memory: layer %d has a kind more than %d", il,
               MEMORY_KINDS_MAX);
    GA_TRY(layer_unit_bytes(p, dtype, type, il, &bytes));
    list->of_layer[il] = (int8_t)list->n;
    kind.unit_bytes += bytes;
    n_layers++;
  }
  if (!n_layers) return GA_OK;
  list->kind[list->n] = kind;
  list->type[list->n++] = type;
  return GA_OK;
}

ga_status memory_kinds_of(const ga_hparams *p, ga_dtype dtype, memory_kinds *out) {
  *out = (memory_kinds){.n = 0};
  for (int32_t il = 0; il < p->n_layers; il++) out->of_layer[il] = MEMORY_NONE;
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) GA_TRY(add_type(p, dtype, types[i], out));
  return GA_OK;
}
