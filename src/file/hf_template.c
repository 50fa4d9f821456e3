#include "file/hf_template.h"

#include <string.h>

#include "base/json.h"
#include "base/status.h"

static const json_t *pick_template(const json_t *list) {
  const json_t *first = NULL;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *one = json_array_get(list, i), *text = json_object_get(one, "template");
    const char *name = json_string_value(json_object_get(one, "name"));
    if (text && name && !strcmp(name, "default")) return text;
    if (!first) first = text;
  }
  return first;
}

ga_status ga_hf_template(const json_t *config, const json_t **out) {
  const json_t *value = ga_json_at(config, "chat_template");
  if (json_is_array(value)) value = pick_template(value);
  GA_REQUIRE(!value || json_is_string(value), GA_ERR_FORMAT,
             "tokenizer_config.json: chat_template is %s; must be a text, or a list of templates",
             ga_json_type_name(value));
  *out = value;
  return GA_OK;
}
