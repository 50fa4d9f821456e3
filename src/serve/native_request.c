/* The body of llama.cpp's /completion as one of /v1/completions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/native.h"
#include "serve/prompts.h"

/* --- the prompt --- */

static bool sv_append_ids(const sv_server *s, json_t *ids, const json_t *text, bool is_first, sv_fail *fail) {
  const uint32_t flags = (is_first ? GA_TOK_ADD_SPECIAL : 0u) | GA_TOK_PARSE_SPECIAL;
  sv_ids made = {0};
  bool ok = sv_encode_text(s, json_string_value(text), json_string_length(text), flags, &made, fail);
  for (size_t i = 0; ok && i < made.n; i++)
    ok = !json_array_append_new(ids, json_integer(made.p[i])) || sv_refuse_nomem(fail);
  free(made.p);
  return ok;
}

/* Ids and texts by turns are one prompt. */
static json_t *sv_join_mixed(const sv_server *s, const json_t *parts, sv_fail *fail) {
  json_t *ids = json_array();
  const json_t *part;
  size_t i;
  bool ok = ids || sv_refuse_nomem(fail);
  json_array_foreach(parts, i, part) {
    if (!ok) break;
    if (json_is_string(part))
      ok = sv_append_ids(s, ids, part, i == 0, fail);
    else if (json_is_integer(part))
      ok = !json_array_append(ids, (json_t *)(uintptr_t)part) || sv_refuse_nomem(fail);
    else
      ok = sv_refuse_value(fail, "prompt", part, "a text or a token id, as the others of its array");
  }
  if (ok) return ids;
  json_decref(ids);
  return NULL;
}

static bool sv_has(const json_t *array, json_type type) {
  const json_t *v;
  size_t i;
  json_array_foreach(array, i, v) {
    if (json_typeof(v) == type) return true;
  }
  return false;
}

/* A text, ids, both mixed, or {"prompt_string"}: a new reference to a text or an array of ids. */
static json_t *sv_one_prompt(const sv_server *s, json_t *v, sv_fail *fail) {
  if (json_is_object(v)) {
    if (json_array_size(sv_field(v, "multimodal_data")) || json_is_string(sv_field(v, "multimodal_data"))) {
      (void)sv_refuse(fail, 400, "unsupported_parameter", "prompt", "multimodal_data: models read only text.");
      return NULL;
    }
    v = json_object_get(v, "prompt_string");
    if (json_is_string(v)) return json_incref(v);
    (void)sv_refuse(fail, 400, NULL, "prompt", "An object in prompt must have a prompt_string, which is a string.");
    return NULL;
  }
  if (json_is_array(v) && sv_has(v, JSON_STRING)) return sv_join_mixed(s, v, fail);
  return json_incref(v);
}

static bool sv_translate_prompt(const sv_server *s, json_t *body, sv_fail *fail) {
  json_t *v = json_object_get(body, "prompt");
  if (!v) return true; /* the reader of completions says that it is missing */
  const bool is_list = json_is_array(v) && json_array_size(v) && !sv_has(v, JSON_INTEGER);
  json_t *prompts = json_array();
  bool ok = prompts || sv_refuse_nomem(fail);
  for (size_t i = 0; ok && i < (is_list ? json_array_size(v) : 1); i++) {
    json_t *one = sv_one_prompt(s, is_list ? json_array_get(v, i) : v, fail);
    ok = one && (!json_array_append_new(prompts, one) || sv_refuse_nomem(fail));
  }
  ok = ok && (!json_object_set(body, "prompt", prompts) || sv_refuse_nomem(fail));
  json_decref(prompts);
  return ok;
}

/* --- logit_bias --- */

static bool sv_set_bias(json_t *bias, int64_t id, const json_t *value, sv_fail *fail) {
  char key[24];
  (void)snprintf(key, sizeof key, "%lld", (long long)id);
  /* false: never */
  json_t *number = json_is_false(value) ? json_integer(-100) : json_incref((json_t *)(uintptr_t)value);
  return !json_object_set_new(bias, key, number) || sv_refuse_nomem(fail);
}

/* All tokens of a text get its bias. */
static bool sv_set_text_bias(const sv_server *s, json_t *bias, const char *text, size_t bytes, const json_t *value,
                             sv_fail *fail) {
  sv_ids ids = {0};
  bool ok = sv_encode_text(s, text, bytes, 0, &ids, fail);
  for (size_t i = 0; ok && i < ids.n; i++) ok = sv_set_bias(bias, ids.p[i], value, fail);
  free(ids.p);
  return ok;
}

static bool sv_add_bias_pair(const sv_server *s, json_t *bias, const json_t *pair, sv_fail *fail) {
  const json_t *token = json_array_get(pair, 0), *value = json_array_get(pair, 1);
  if (json_array_size(pair) == 2 && json_is_integer(token)) return sv_set_bias(bias, json_integer_value(token), value, fail);
  if (json_array_size(pair) == 2 && json_is_string(token))
    return sv_set_text_bias(s, bias, json_string_value(token), json_string_length(token), value, fail);
  return sv_refuse_value(fail, "logit_bias", pair, "pairs of a token id or a text and a number or false");
}

static bool sv_add_bias_member(const sv_server *s, json_t *bias, const char *key, const json_t *value, sv_fail *fail) {
  char *end;
  errno = 0;
  const long id = strtol(key, &end, 10);
  if (end != key && !*end && !errno && *key >= '0' && *key <= '9') return sv_set_bias(bias, id, value, fail);
  return sv_set_text_bias(s, bias, key, strlen(key), value, fail);
}

static bool sv_translate_bias(const sv_server *s, json_t *body, sv_fail *fail) {
  json_t *v = json_object_get(body, "logit_bias"), *one;
  const char *key;
  size_t i;
  if (!v || json_is_null(v)) return true;
  if (!json_is_array(v) && !json_is_object(v))
    return sv_refuse_value(fail, "logit_bias", v, "an array of pairs, or an object");
  json_t *bias = json_object();
  bool ok = bias || sv_refuse_nomem(fail);
  json_array_foreach(v, i, one) ok = ok && sv_add_bias_pair(s, bias, one, fail);
  json_object_foreach(v, key, one) ok = ok && sv_add_bias_member(s, bias, key, one, fail);
  ok = ok && (!json_object_set(body, "logit_bias", bias) || sv_refuse_nomem(fail));
  json_decref(bias);
  return ok;
}

/* --- the other fields --- */

/* What would change the answer and is not there. */
static bool sv_check_native(const json_t *body, sv_fail *fail) {
  static const char *const constrained[] = {"grammar", "json_schema"};
  static const char *const samplers[] = {"post_sampling_probs", "mirostat", "dry_multiplier", "xtc_probability"};
  for (size_t i = 0; i < sizeof constrained / sizeof constrained[0]; i++) {
    const json_t *v = sv_field(body, constrained[i]);
    if (v && (!json_is_string(v) || json_string_length(v)))
      return sv_refuse(fail, 422, "unsupported_parameter", constrained[i],
                       "%s is not supported: this server cannot constrain what is generated.", constrained[i]);
  }
  for (size_t i = 0; i < sizeof samplers / sizeof samplers[0]; i++) {
    const json_t *v = sv_field(body, samplers[i]);
    if (json_is_true(v) || json_number_value(v) != 0.0)
      return sv_refuse(fail, 400, "unsupported_parameter", samplers[i], "%s is not supported.", samplers[i]);
  }
  return true;
}

static bool sv_rename(json_t *body, const char *from, const char *to, sv_fail *fail) {
  json_t *v = json_object_get(body, from);
  if (!v || json_object_get(body, to)) return true;
  return !json_object_set(body, to, v) || sv_refuse_nomem(fail);
}

static bool sv_translate_limit(json_t *body, sv_fail *fail) {
  int64_t n = -1;
  if (!sv_rename(body, "max_tokens", "n_predict", fail) || !sv_read_int(body, "n_predict", -1, INT32_MAX, &n, fail))
    return false;
  if (n < 0) return json_object_del(body, "max_tokens") || true;
  return !json_object_set_new(body, "max_tokens", json_integer(n)) || sv_refuse_nomem(fail);
}

bool sv_native_translate(const sv_server *s, json_t *body, json_t **out, sv_fail *fail) {
  *out = body;
  (void)json_object_del(body, "logprobs");
  if (sv_check_native(body, fail) && sv_translate_prompt(s, body, fail) && sv_translate_bias(s, body, fail) &&
      sv_translate_limit(body, fail) && sv_rename(body, "repeat_penalty", "repetition_penalty", fail))
    return true;
  json_decref(body);
  *out = NULL;
  return false;
}

bool sv_native_params(sv_request *r, sv_fail *fail) {
  int64_t probs = 0;
  r->is_native = true;
  r->p.return_ids = r->p.stream;
  if (!sv_field(r->body, "max_tokens")) r->p.max_tokens = SV_NO_LIMIT;
  if (!sv_read_int(r->body, "n_probs", 0, GA_MAX_TOP_LOGPROBS, &probs, fail)) return false;
  if (!r->p.stream && !sv_read_bool(r->body, "return_tokens", &r->p.return_ids, fail)) return false;
  if (probs > 0) r->p.logprobs = probs;
  const json_t *fields = sv_field(r->body, "response_fields");
  if (fields && (!json_is_array(fields) || (json_array_size(fields) && !sv_has(fields, JSON_STRING))))
    return sv_refuse_value(fail, "response_fields", fields, "an array of names, a/b for b within a");
  return sv_check_min_tokens(&r->p, fail);
}
