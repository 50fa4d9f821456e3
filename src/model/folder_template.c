#include "model/folder_template.h"

#include <string.h>

#include "base/filemap.h"
#include "base/json.h"
#include "base/status.h"

static ga_status compile_file(const char *path, ga_template **out) {
  ga_filemap map;
  GA_TRY(ga_filemap_open(path, &map));
  const ga_status status = ga_template_compile((const char *)map.data, map.bytes, out);
  ga_filemap_close(&map);
  return status;
}

/* NULL when there is none. */
static const json_t *template_in_config(const json_t *config) {
  const json_t *value = ga_json_at(config, "chat_template"), *first = NULL;
  if (!json_is_array(value)) return value;
  for (size_t i = 0; i < json_array_size(value); i++) {
    const json_t *one = json_array_get(value, i);
    const char *name = json_string_value(json_object_get(one, "name"));
    if (!first || (name && !strcmp(name, "default"))) first = json_object_get(one, "template");
  }
  return first;
}

static ga_status compile_config(const char *path, ga_template **out) {
  json_t *config;
  GA_TRY(ga_json_read_file(path, &config));
  const json_t *value = template_in_config(config);
  ga_status status = GA_OK;
  if (json_is_string(value))
    status = ga_template_compile(json_string_value(value), json_string_length(value), out);
  else if (value)
    status =
        ga_fail(GA_ERR_FORMAT, "tokenizer_config.json: chat_template is %s; must be a text, or a list of templates",
                ga_json_type_name(value));
  json_decref(config);
  return status;
}

ga_status ga_folder_template(const ga_model_file *file, ga_template **out) {
  const char *jinja = ga_model_file_side_path(file, "chat_template.jinja"),
             *config = ga_model_file_side_path(file, "tokenizer_config.json");
  *out = NULL;
  if (jinja) return compile_file(jinja, out);
  return config ? compile_config(config, out) : GA_OK;
}
