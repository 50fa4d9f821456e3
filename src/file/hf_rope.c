#include "file/hf_rope.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/json.h"
#include "base/status.h"
#include "text/json_io.h"

static const ga_part rope_rows[] = {
    {"rope_type", GA_PART_READ, "default, linear, yarn, llama3 or longrope; of gemma4 proportional", NULL},
    {"type", GA_PART_READ, "the older name of rope_type", NULL},
    {"factor", GA_PART_READ, "without a type: linear", NULL},
    {"rope_theta", GA_PART_READ, NULL, NULL},
    {"partial_rotary_factor", GA_PART_READ, "of architectures that rotate a part of each head; else 1", NULL},
    {"original_max_position_embeddings", GA_PART_READ, "a context of yarn or linear is at least this times the factor",
     NULL},
    {"attention_factor", GA_PART_READ, "of yarn and longrope; other types have none in transformers either", NULL},
    {"beta_fast", GA_PART_READ, NULL, NULL},
    {"beta_slow", GA_PART_READ, NULL, NULL},
    {"low_freq_factor", GA_PART_READ, NULL, NULL},
    {"high_freq_factor", GA_PART_READ, NULL, NULL},
    {"short_factor", GA_PART_READ, NULL, NULL},
    {"long_factor", GA_PART_READ, NULL, NULL},
    {"mscale", GA_PART_READ, "of deepseek_v2 and its kin; of ministral3: 1; else refused", NULL},
    {"mscale_all_dim", GA_PART_READ, "of deepseek_v2 and its kin; of ministral3: 1; else refused", NULL},
    {"llama_4_scaling_beta", GA_PART_READ, "of ministral3 and mistral4", NULL},
    {"max_position_embeddings", GA_PART_IGNORED, "a copy of the model's own", NULL},
    {"finetuned", GA_PART_IGNORED, "a note about the training", NULL},
    {"truncate", GA_PART_READ, "of yarn: false does not round the bounds of its ramp to whole pairs", NULL},
    {"alpha", GA_PART_READ, "of hunyuan_v1_moe with the type dynamic, whose base it raises; else refused", NULL},
    {"attn_factor", GA_PART_REFUSED, "attention_factor is the field of transformers", "[1]"},
    {"extrapolation_factor", GA_PART_REFUSED, "yarn extrapolates in full", "[1]"},
    {0}};
const ga_part_table ga_hf_rope_parts = {"config.json", "rope_scaling and rope_parameters", rope_rows, NULL};

/* Anything else in their place would be read as if nothing stood there, and give wrong angles. */
static ga_status check_rope_objects(const char *label, const json_t *config) {
  static const char *const fields[] = {"rope_scaling", "rope_parameters", "rope_parameters.full_attention",
                                       "rope_parameters.sliding_attention"};
  for (size_t i = 0; i < GA_COUNT_OF(fields); i++) {
    const json_t *value = ga_json_at(config, fields[i]);
    GA_REQUIRE(!value || (json_is_object(value) && !ga_json_wide(value)), GA_ERR_FORMAT,
               "%s: '%s': is %s; must be an object", label, fields[i], ga_json_type_name(value));
  }
  return GA_OK;
}

/* Adds the fields of `from` that `to` lacks; null counts as absent. */
static ga_status add_fields(json_t *to, const json_t *from) {
  json_t *object = (json_t *)(uintptr_t)from, *value; /* jansson's loop, which only reads, does not take const */
  const char *name;
  json_object_foreach(object, name, value) {
    if (json_is_null(value) || json_object_get(to, name)) continue;
    GA_REQUIRE(!json_object_set(to, name, value), GA_ERR_NOMEM, "config.json: out of memory");
  }
  return GA_OK;
}

static ga_status set_rope_type(json_t *rope) {
  json_t *type = json_object_get(rope, "rope_type");
  if (!type) type = json_object_get(rope, "type");
  if (!type && !json_object_get(rope, "factor")) return GA_OK;
  const int failed =
      type ? json_object_set(rope, "rope_type", type) : json_object_set_new(rope, "rope_type", json_string("linear"));
  GA_REQUIRE(!failed, GA_ERR_NOMEM, "config.json: out of memory");
  return GA_OK;
}

/* Layers with a window rotate by plain frequencies. */
static ga_status check_sliding(const char *label, const json_t *sliding) {
  const json_t *type = ga_json_at(sliding, "rope_type"), *factor = ga_json_at(sliding, "factor");
  const char *name = json_string_value(type);
  GA_REQUIRE(!type || (name && !strcmp(name, "default")), GA_ERR_UNSUPPORTED,
             "%s: 'rope_parameters.sliding_attention.rope_type': is %s; must be default", label,
             name ? ga_quote(name, strlen(name)).text : ga_json_type_name(type));
  GA_REQUIRE(!factor, GA_ERR_UNSUPPORTED,
             "%s: 'rope_parameters.sliding_attention.factor' is %s; layers with a window have none", label,
             ga_json_type_name(factor));
  return sliding ? ga_parts_check(&ga_hf_rope_parts, "rope_parameters.sliding_attention", sliding) : GA_OK;
}

/* Finds the parameters of all layers, or of layers without a window, and the name of their field. */
static const json_t *rope_parameters(const json_t *config, const char **name) {
  const json_t *nested = ga_json_at(config, "rope_parameters.full_attention"),
               *other = ga_json_at(config, "rope_parameters.sliding_attention");
  *name = nested ? "rope_parameters.full_attention" : "rope_parameters";
  return nested || other ? nested : ga_json_at(config, "rope_parameters");
}

static ga_status gather_rope(const char *label, const json_t *config, json_t *rope) {
  const char *name;
  const json_t *scaling = ga_json_at(config, "rope_scaling"), *parameters = rope_parameters(config, &name);
  GA_TRY(check_sliding(label, ga_json_at(config, "rope_parameters.sliding_attention")));
  if (scaling) GA_TRY(ga_parts_check(&ga_hf_rope_parts, "rope_scaling", scaling));
  if (parameters) GA_TRY(ga_parts_check(&ga_hf_rope_parts, name, parameters));
  GA_TRY(add_fields(rope, scaling));
  if (scaling) GA_TRY(set_rope_type(rope)); /* before the other object's type is added */
  GA_TRY(add_fields(rope, parameters));
  return set_rope_type(rope);
}

ga_status ga_hf_rope_view(const char *label, const json_t *config, json_t **out) {
  *out = NULL;
  GA_TRY(check_rope_objects(label, config));
  json_t *rope = json_object(), *view = rope ? json_object() : NULL;
  if (!view || json_object_set_new(view, "rope", rope)) {
    if (!view) json_decref(rope);
    json_decref(view);
    return ga_fail(GA_ERR_NOMEM, "%s: out of memory", label);
  }
  const ga_status status = gather_rope(label, config, rope);
  if (status == GA_OK)
    *out = view;
  else
    json_decref(view);
  return status;
}

const char *ga_hf_rope_field(const json_t *config, const char *path, char out[GA_HF_FIELD_BYTES]) {
  static const char *const objects[] = {"rope_scaling", "rope_parameters.full_attention", "rope_parameters"};
  if (strncmp(path, "rope.", 5) != 0) return path;
  const char *names[2] = {path + 5, strcmp(path, "rope.rope_type") ? NULL : "type"};
  for (size_t i = 0; i < GA_COUNT_OF(objects); i++)
    for (int k = 0; k < 2 && names[k]; k++)
      if (ga_json_at(ga_json_at(config, objects[i]), names[k])) {
        (void)snprintf(out, GA_HF_FIELD_BYTES, "%s.%s", objects[i], names[k]);
        return out;
      }
  return path;
}
