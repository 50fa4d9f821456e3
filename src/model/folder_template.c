#include "model/folder_template.h"

#include "base/filemap.h"
#include "base/json.h"
#include "base/status.h"
#include "file/hf_template.h"

static ga_status compile_file(const char *path, ga_template **out) {
  ga_filemap map;
  GA_TRY(ga_filemap_open(path, &map));
  const ga_status status = ga_template_compile((const char *)map.data, map.bytes, out);
  ga_filemap_close(&map);
  return status;
}

static ga_status compile_config(const char *path, ga_template **out) {
  const json_t *text;
  json_t *config;
  GA_TRY(ga_json_read_file(path, &config));
  ga_status status = ga_hf_template(config, &text);
  if (status == GA_OK && text) status = ga_template_compile(json_string_value(text), json_string_length(text), out);
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
