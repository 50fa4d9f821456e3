#include "base/status.h"
#include "model/memory_kind.h"

/* Bytes of one unit in a layer. */
static ga_status layer_unit_bytes(const ga_hparams *p, ga_dtype dtype, const memory_kind_type *type, int32_t layer,
                                  uint64_t *bytes) {
  memory_layout layout;
  GA_TRY(type->layout(p, dtype, layer, 1, &layout));
  *bytes = 0;
  for (int32_t t = 0; t < layout.n_tensors; t++) *bytes += layout.tensors[t].bytes;
  return GA_OK;
}

/* The layer's kind of that form; NULL: it has none. */
static const memory_kind_type *layer_type(const ga_hparams *p, int32_t layer, memory_form form) {
  for (const memory_kind_type *const *type = memory_kind_types; *type; type++)
    if (memory_form_of((*type)->unit_tokens) == form && (*type)->has_layer(p, layer)) return *type;
  return NULL;
}

bool memory_layer_has(const ga_hparams *p, int32_t layer, memory_form form) {
  return layer_type(p, layer, form) != NULL;
}

ga_status memory_need_of(const ga_hparams *p, ga_dtype dtype, int32_t layer, memory_need *out) {
  const memory_kind_type *pages = layer_type(p, layer, MEMORY_PAGES), *state = layer_type(p, layer, MEMORY_STATE);
  uint64_t bytes;
  *out = (memory_need){0};
  if (pages) {
    GA_TRY(layer_unit_bytes(p, dtype, pages, layer, &bytes));
    out->token = bytes / (uint64_t)pages->unit_tokens;
  }
  return state ? layer_unit_bytes(p, dtype, state, layer, &out->sequence) : GA_OK;
}

ga_status memory_bytes_of_layers(const ga_hparams *p, ga_dtype dtype, const memory_kinds *kinds, int32_t first,
                                 int32_t end, uint64_t bytes[MEMORY_KINDS_MAX]) {
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) bytes[kind] = 0;
  for (int32_t il = first; il < end; il++)
    for (int form = 0; form < MEMORY_FORMS; form++) {
      const int32_t kind = kinds->of_layer[il][form];
      uint64_t layer;
      if (kind == MEMORY_NONE) continue;
      GA_TRY(layer_unit_bytes(p, dtype, kinds->type[kind], il, &layer));
      bytes[kind] += layer;
    }
  return GA_OK;
}

/* Lists the type, unless no layer has it. */
static ga_status add_type(const ga_hparams *p, ga_dtype dtype, const memory_kind_type *type, memory_kinds *list) {
  const memory_form form = memory_form_of(type->unit_tokens);
  memory_kind kind = {.name = type->name,
                      .unit_tokens = type->unit_tokens,
                      .window = type->window ? type->window(p) : 0,
                      .is_shared = type->is_shared,
                      .exact_rewind = type->exact_rewind};
  int32_t n_layers = 0;
  for (int32_t il = 0; il < p->n_layers; il++) {
    uint64_t bytes;
    if (!type->has_layer(p, il)) continue;
    GA_REQUIRE(list->of_layer[il][form] == MEMORY_NONE, GA_ERR_INTERNAL, "layer memory: layer %d is %s and %s", il,
               list->kind[list->of_layer[il][form]].name, type->name);
    GA_REQUIRE(list->n < MEMORY_KINDS_MAX, GA_ERR_UNSUPPORTED, "layer memory: layer %d has a kind more than %d", il,
               MEMORY_KINDS_MAX);
    GA_TRY(layer_unit_bytes(p, dtype, type, il, &bytes));
    list->of_layer[il][form] = (int8_t)list->n;
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
  for (int32_t il = 0; il < p->n_layers; il++)
    for (int form = 0; form < MEMORY_FORMS; form++) out->of_layer[il][form] = MEMORY_NONE;
  for (const memory_kind_type *const *type = memory_kind_types; *type; type++) GA_TRY(add_type(p, dtype, *type, out));
  return GA_OK;
}
