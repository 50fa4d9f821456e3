#include "token/tok_json_util.h"

#include "base/json.h"
#include "base/status.h"

#define MAX_ID ((1 << 22) - 1)

const char *tok_json_text(const json_t *object, const char *path) {
  const char *s = json_string_value(ga_json_at(object, path));
  return s ? s : "";
}

bool tok_json_is(const json_t *step, const char *type) { return !strcmp(tok_json_text(step, "type"), type); }

ga_status tok_json_id(const char *what, const json_t *value, size_t *id) {
  json_int_t n = json_integer_value(value);
  *id = 0;
  GA_REQUIRE(json_is_integer(value) && n >= 0 && n <= MAX_ID, GA_ERR_FORMAT,
             "tokenizer: id of '%s' is %s %lld; must be an integer from 0 to %d", ga_quote(what, strlen(what)).text,
             ga_json_type_name(value), (long long)n, MAX_ID);
  *id = (size_t)n;
  return GA_OK;
}

ga_status tok_json_decoder_id(const char *key, size_t *id) {
  size_t n = 0;
  *id = 0;
  const char *digit = key;
  for (; *digit >= '0' && *digit <= '9' && n <= MAX_ID; digit++) n = 10 * n + (size_t)(*digit - '0');
  GA_REQUIRE(*key && !*digit && n <= MAX_ID, GA_ERR_FORMAT,
             "tokenizer_config.json: added_tokens_decoder has the id '%s'; must be an integer from 0 to %d",
             ga_quote(key, strlen(key)).text, MAX_ID);
  *id = n;
  return GA_OK;
}

json_t *tok_json_added_decoder(const json_src *src) { return json_object_get(src->config, "added_tokens_decoder"); }

static int32_t find_added(const json_src *src, const char *text) {
  size_t i, id;
  const json_t *added;
  const char *key;
  json_t *entry, *decoder = tok_json_added_decoder(src);
  json_object_foreach(decoder, key, entry) if (!strcmp(tok_json_text(entry, "content"), text) &&
                                               tok_json_decoder_id(key, &id) == GA_OK) return (int32_t)id;
  json_array_foreach(src->added, i, added) {
    const char *content = json_string_value(ga_json_at(added, "content"));
    if (content && !strcmp(content, text) && tok_json_id(text, ga_json_at(added, "id"), &id) == GA_OK)
      return (int32_t)id;
  }
  return GA_TOK_NONE;
}

int32_t tok_json_find(const json_src *src, const char *text) {
  size_t id;
  if (!text) return GA_TOK_NONE;
  const int32_t added = find_added(src, text);
  if (added >= 0) return added;
  for (size_t i = json_array_size(src->pieces); i-- > 0;) {
    const char *piece = json_string_value(json_array_get(json_array_get(src->pieces, i), 0));
    if (piece && !strcmp(piece, text)) return (int32_t)i;
  }
  const json_t *value = json_object_get(src->vocab, text);
  return value && tok_json_id(text, value, &id) == GA_OK ? (int32_t)id : GA_TOK_NONE;
}
