#include "file/hf_layers.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "file/byte_reader.h"
#include "file/limits.h"
#include "text/json_io.h"

enum { HF_LAYERS = 512 }; /* as many as a model may have */

/* The layers of a config.json. */
typedef struct layer_config {
  ga_arena *arena;
  const char *label;
  const json_t *config;
  const ga_hf_arch *arch;
  ga_meta_list *list;
  int64_t n;
} layer_config;

/* Reads an integer field of an object; null counts as absent. */
static ga_status read_layer_int(const layer_config *c, const json_t *object, const char *name, int64_t fallback,
                                int64_t least, int64_t *out) {
  const json_t *value = ga_json_at(object, name);
  *out = fallback;
  if (!value) return GA_OK;
  GA_REQUIRE(json_is_integer(value), GA_ERR_FORMAT, "%s: '%s': is %s; must be an integer", c->label, name,
             ga_json_type_name(value));
  *out = json_integer_value(value);
  GA_REQUIRE(*out >= least && *out <= INT32_MAX, GA_ERR_FORMAT, "%s: '%s' is %lld; must be %lld to %d", c->label, name,
             (long long)*out, (long long)least, INT32_MAX);
  return GA_OK;
}

static ga_status read_layer_bool(const layer_config *c, const char *name, bool *out) {
  const json_t *value = ga_json_at(c->config, name);
  GA_REQUIRE(!value || json_is_boolean(value), GA_ERR_FORMAT, "%s: '%s': is %s; must be true or false", c->label, name,
             ga_json_type_name(value));
  *out = json_is_true(value);
  return GA_OK;
}

static ga_status put_layer_key(const layer_config *c, const char *name, const int64_t *each, int64_t n) {
  char *key;
  void *le;
  GA_TRY(ga_arena_printf(c->arena, &key, "%s.%s", c->arch->arch, name));
  if (ga_meta_list_find(c->list, key)) return GA_OK;
  if (n == 0) return ga_meta_list_add_int(c->arena, c->list, key, each[0]);
  GA_TRY(ga_arena_alloc(c->arena, (size_t)n * 8, &le));
  for (int64_t i = 0; i < n; i++) ga_store_le((uint8_t *)le + 8 * i, 8, (uint64_t)each[i]);
  return ga_meta_list_add_array(c->arena, c->list, key, GA_META_I64, n, le);
}

/* A number for all layers where each has the same, else an array. */
static ga_status put_layer_ints(const layer_config *c, const char *name, const int64_t *each) {
  bool same = true;
  for (int64_t i = 1; i < c->n; i++) same = same && each[i] == each[0];
  return put_layer_key(c, name, each, same ? 0 : c->n);
}

/* Without layer_types every sixth layer is global. The table of fields checks their texts. */
static bool is_global(const layer_config *c, int64_t il) {
  const json_t *types = ga_json_at(c->config, "layer_types");
  const char *type = json_string_value(json_array_get(types, (size_t)il));
  return types ? type && !strcmp(type, "full_attention") : (il + 1) % 6 == 0;
}

static ga_status put_default_types(const layer_config *c) {
  char *key;
  uint8_t local[HF_LAYERS];
  if (ga_json_at(c->config, "layer_types")) return GA_OK;
  for (int64_t il = 0; il < c->n; il++) local[il] = !is_global(c, il);
  GA_TRY(ga_arena_printf(c->arena, &key, "%s.attention.sliding_window_pattern", c->arch->arch));
  return ga_meta_list_add_array(c->arena, c->list, key, GA_META_BOOL, c->n, local);
}

/* The fields of the layer in per_layer_config; NULL: it has none. Other fields than these two are refused. */
static ga_status own_fields(const layer_config *c, int64_t il, const json_t **out) {
  char name[24];
  json_t *all = (json_t *)(uintptr_t)ga_json_at(c->config, "per_layer_config"); /* jansson's loops take no const */
  json_t *own, *value;
  const char *field;
  (void)snprintf(name, sizeof name, "%lld", (long long)il);
  GA_REQUIRE(!all || json_is_object(all), GA_ERR_FORMAT, "%s: 'per_layer_config': is %s; must be an object", c->label,
             ga_json_type_name(all));
  *out = own = json_object_get(all, name);
  GA_REQUIRE(!own || json_is_object(own), GA_ERR_FORMAT, "%s: 'per_layer_config.%s': is %s; must be an object",
             c->label, name, ga_json_type_name(own));
  json_object_foreach(own, field, value)
      GA_REQUIRE(!strcmp(field, "head_dim") || !strcmp(field, "num_key_value_heads"), GA_ERR_UNSUPPORTED,
                 "%s: 'per_layer_config.%s.%s' is not known; GA has head_dim and num_key_value_heads there", c->label,
                 name, ga_quote(field, strlen(field)).text);
  return GA_OK;
}

/* Heads of keys and values, and the length of heads, of a layer. transformers states those of global layers by layer,
 * checkpoints in fields of their own, of which the number of heads counts with values that are keys. */
static ga_status layer_heads(const layer_config *c, int64_t il, int64_t *kv_heads, int64_t *dim) {
  const json_t *own = NULL;
  bool is_key = false;
  const bool global = is_global(c, il), has_list = ga_json_at(c->config, "per_layer_config") != NULL;
  GA_TRY(own_fields(c, il, &own));
  GA_TRY(read_layer_bool(c, "attention_k_eq_v", &is_key));
  GA_TRY(read_layer_int(c, c->config, "num_key_value_heads", 4, 1, kv_heads));
  GA_TRY(read_layer_int(c, c->config, "head_dim", 256, 1, dim));
  if (!has_list && global) GA_TRY(read_layer_int(c, c->config, "global_head_dim", 512, 1, dim));
  if (!has_list && global && is_key)
    GA_TRY(read_layer_int(c, c->config, "num_global_key_value_heads", *kv_heads, 1, kv_heads));
  GA_TRY(read_layer_int(c, own, "num_key_value_heads", *kv_heads, 1, kv_heads));
  return read_layer_int(c, own, "head_dim", *dim, 1, dim);
}

static ga_status put_heads_of_layers(const layer_config *c) {
  int64_t kv_heads[HF_LAYERS], of_kind[2] = {0, 0};
  for (int64_t il = 0; il < c->n; il++) {
    int64_t dim, *kind = &of_kind[is_global(c, il)];
    GA_TRY(layer_heads(c, il, &kv_heads[il], &dim));
    GA_REQUIRE(!*kind || *kind == dim, GA_ERR_UNSUPPORTED,
               "%s: 'head_dim' is %lld and %lld; must be one number for all layers of a kind", c->label,
               (long long)*kind, (long long)dim);
    *kind = dim;
  }
  GA_TRY(put_layer_ints(c, "attention.head_count_kv", kv_heads));
  const int64_t local = of_kind[0] ? of_kind[0] : of_kind[1], global = of_kind[1] ? of_kind[1] : of_kind[0];
  GA_TRY(put_layer_key(c, "attention.key_length", &global, 0));
  GA_TRY(put_layer_key(c, "attention.value_length", &global, 0));
  GA_TRY(put_layer_key(c, "attention.key_length_swa", &local, 0));
  GA_TRY(put_layer_key(c, "attention.value_length_swa", &local, 0));
  return put_layer_key(c, "rope.dimension_count_swa", &local, 0);
}

/* Feed-forwards of layers without keys and values may be twice as wide. */
static ga_status put_widths_of_layers(const layer_config *c) {
  int64_t width, shared, each[HF_LAYERS];
  bool is_double = false;
  GA_TRY(read_layer_int(c, c->config, "intermediate_size", 9216, 1, &width));
  GA_TRY(read_layer_int(c, c->config, "num_kv_shared_layers", 0, 0, &shared));
  GA_TRY(read_layer_bool(c, "use_double_wide_mlp", &is_double));
  for (int64_t il = 0; il < c->n; il++) each[il] = is_double && il >= c->n - shared ? 2 * width : width;
  return put_layer_ints(c, "feed_forward_length", each);
}

/* Numbers of experts count where enable_moe_block is true alone. */
static ga_status check_experts_of_layers(const layer_config *c) {
  static const int64_t none = 0;
  bool enabled = false;
  GA_TRY(read_layer_bool(c, "enable_moe_block", &enabled));
  return enabled ? GA_OK : put_layer_key(c, "expert_count", &none, 0);
}

static ga_status check_layer_vocab(const layer_config *c) {
  int64_t width, vocab, own;
  GA_TRY(read_layer_int(c, c->config, "hidden_size_per_layer_input", 256, 0, &width));
  GA_TRY(read_layer_int(c, c->config, "vocab_size", 262144, 1, &vocab));
  GA_TRY(read_layer_int(c, c->config, "vocab_size_per_layer_input", 262144, 1, &own));
  GA_REQUIRE(!width || own == vocab, GA_ERR_UNSUPPORTED,
             "%s: 'vocab_size_per_layer_input' is %lld; GA has only models where it is 'vocab_size', %lld", c->label,
             (long long)own, (long long)vocab);
  return GA_OK;
}

ga_status ga_hf_put_layers(ga_arena *arena, const char *label, const json_t *config, const ga_hf_arch *arch,
                           ga_meta_list *list) {
  layer_config c = {.arena = arena, .label = label, .config = config, .arch = arch, .list = list};
  if (!(arch->layout & GA_HF_BY_LAYER)) return GA_OK;
  GA_TRY(read_layer_int(&c, config, "num_hidden_layers", 30, 1, &c.n));
  GA_REQUIRE(c.n <= HF_LAYERS, GA_ERR_FORMAT, "%s: 'num_hidden_layers' is %lld; must be 1 to %d", label, (long long)c.n,
             HF_LAYERS);
  GA_TRY(put_default_types(&c));
  GA_TRY(put_heads_of_layers(&c));
  GA_TRY(put_widths_of_layers(&c));
  GA_TRY(check_layer_vocab(&c));
  return check_experts_of_layers(&c);
}
