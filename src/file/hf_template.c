#include "file/hf_template.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "text/json_io.h"

static ga_status add_template(ga_model_file *file, const char *key, const char *text, size_t bytes) {
  return bytes ? ga_meta_list_add_text(&file->arena, file->meta, key, text, bytes) : GA_OK;
}

static ga_status add_template_file(ga_model_file *file, const char *key, const char *path) {
  ga_filemap map;
  GA_TRY(ga_filemap_open(path, &map));
  const ga_status status = add_template(file, key, (const char *)map.data, map.bytes);
  ga_filemap_close(&map);
  return status;
}

/* The template of a name in a list or an object; NULL: there is none. name NULL: the first. */
static const json_t *named_template(const json_t *all, const char *name) {
  json_t *object = (json_t *)(uintptr_t)all; /* iterators want it writable */
  if (json_is_object(all)) return name ? json_object_get(all, name) : json_object_iter_value(json_object_iter(object));
  for (size_t i = 0; i < json_array_size(all); i++) {
    const json_t *one = json_array_get(all, i), *text = json_object_get(one, "template");
    const char *own = json_string_value(json_object_get(one, "name"));
    if (text && (!name || (own && !strcmp(own, name)))) return text;
  }
  return NULL;
}

static ga_status add_json_template(ga_model_file *file, const char *key, const char *label, const json_t *value) {
  GA_REQUIRE(!value || json_is_string(value), GA_ERR_FORMAT,
             "%s: chat_template is %s; must be a text, or a list of templates", label, ga_json_type_name(value));
  return value ? add_template(file, key, json_string_value(value), json_string_length(value)) : GA_OK;
}

static ga_status add_of_config(ga_model_file *file, const char *label, const json_t *config) {
  const json_t *value = ga_json_at(config, "chat_template"), *tools = NULL;
  if (json_is_array(value) || (json_is_object(value) && !ga_json_wide(value))) {
    const json_t *chosen = named_template(value, "default");
    tools = named_template(value, "tool_use");
    value = chosen ? chosen : named_template(value, NULL);
  }
  GA_TRY(add_json_template(file, GA_CHAT_TEMPLATE, label, value));
  return add_json_template(file, GA_TOOL_TEMPLATE, label, tools);
}

static ga_status add_templates(ga_model_file *file) {
  static const char *const configs[] = {"tokenizer_config.json", "chat_template.json"};
  const char *jinja = ga_model_file_side_path(file, "chat_template.jinja"),
             *tools = ga_model_file_side_path(file, "additional_chat_templates/tool_use.jinja");
  if (jinja) GA_TRY(add_template_file(file, GA_CHAT_TEMPLATE, jinja));
  if (tools) return add_template_file(file, GA_TOOL_TEMPLATE, tools);
  for (size_t i = 0; i < GA_COUNT_OF(configs) && !jinja; i++) {
    const char *path = ga_model_file_side_path(file, configs[i]);
    json_t *config;
    if (!path || ga_meta_list_find(file->meta, GA_CHAT_TEMPLATE)) continue;
    GA_TRY(ga_json_read_file(path, &config));
    const ga_status status = add_of_config(file, configs[i], config);
    json_decref(config);
    GA_TRY(status);
  }
  return GA_OK;
}

ga_status ga_hf_templates(ga_model_file *file) {
  char why[256];
  const ga_status status = add_templates(file);
  if (status == GA_OK || status == GA_ERR_NOMEM) return status;
  (void)snprintf(why, sizeof why, "%s", ga_error_text());
  return ga_meta_list_add_text(&file->arena, file->meta, GA_CHAT_TEMPLATE_ERROR, why, strlen(why));
}
