#include "serve/native_request.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what is not there --- */

static bool sv_refuse_unsupported(sv_fail *fail, int http, const char *name, const json_t *v, const char *allowed) {
  (void)sv_refuse_value(fail, name, v, allowed);
  fail->http = http;
  fail->code = "unsupported_parameter";
  return false;
}

static bool sv_is_empty(const json_t *v) {
  return json_is_false(v) || (json_is_string(v) && !json_string_length(v)) || (json_is_array(v) && !json_array_size(v));
}

/* Numbers that turn a thing off; with any other number the answer would be another one. */
static bool sv_check_numbers(const json_t *body, sv_fail *fail) {
  static const struct {
    const char *name;
    double low, high;
    const char *allowed;
  } off[] = {
      {"mirostat", 0, 0, "0: this server has no mirostat"},
      {"dry_multiplier", 0, 0, "0: this server has no DRY sampler"},
      {"xtc_probability", 0, 0, "0: this server has no XTC sampler"},
      {"dynatemp_range", 0, 0, "0: this server has no dynamic temperature"},
      {"top_n_sigma", -DBL_MAX, 0, "0 or less: this server has no top-n-sigma sampler"},
      {"adaptive_target", -DBL_MAX, -DBL_MIN, "below 0: this server has no adaptive sampler"},
      {"min_keep", 0, 0, "0: samplers keep what they find"},
      {"n_cache_reuse", 0, 0, "0: only whole beginnings of prompts are cached"},
  };
  for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
    const json_t *v = sv_field(body, off[i].name);
    const double value = json_number_value(v);
    if (v && !(json_is_number(v) && value >= off[i].low && value <= off[i].high))
      return sv_refuse_unsupported(fail, 400, off[i].name, v, off[i].allowed);
  }
  return true;
}

/* Switches, lists and texts: false, [] and "" are as good as nothing. */
static bool sv_check_switches(const json_t *body, sv_fail *fail) {
  static const struct {
    const char *name;
    int http;
    const char *allowed;
  } off[] = {
      {"grammar", 422, "\"\": this server cannot constrain what is generated"},
      {"json_schema", 422, "left out: this server cannot constrain what is generated"},
      {"lora", 422, "[]: this server has no adapters"},
      {"image_data", 422, "[]: models read only text"},
      {"samplers", 400, "left out: this server has one order of samplers"},
      {"post_sampling_probs", 400, "false: probabilities are those of the plain softmax"},
      {"return_progress", 400, "false: this server does not tell how far a prompt is read"},
      {"backend_sampling", 400, "false: the server chooses where tokens are drawn"},
      {"echo", 400, "false: it belongs to /v1/completions"},
      {"suffix", 400, "\"\": it belongs to /v1/completions"},
      {"logprobs", 400, "left out: n_probs asks for log-probabilities here"},
      {"top_logprobs", 400, "left out: n_probs asks for log-probabilities here"},
      {"prompt_logprobs", 400, "left out: it belongs to /v1/completions"},
      {"best_of", 400, "left out: this server returns all that it makes"},
  };
  for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
    const json_t *v = sv_field(body, off[i].name);
    if (v && !sv_is_empty(v)) return sv_refuse_unsupported(fail, off[i].http, off[i].name, v, off[i].allowed);
  }
  return true;
}

static bool sv_check_speculation(json_t *body, sv_fail *fail) {
  const char *key;
  json_t *v;
  json_object_foreach(body, key, v) {
    if (strncmp(key, "speculative.", strlen("speculative.")) != 0 || json_is_null(v) || sv_is_empty(v)) continue;
    if (json_is_number(v) && json_number_value(v) == 0) continue;
    if (json_is_string(v) && !strcmp(json_string_value(v), "none")) continue;
    return sv_refuse_unsupported(fail, 422, key, v, "0, or left out: this server does not speculate");
  }
  return true;
}

/* --- the prompt --- */

static const char prompt_kinds[] =
    "a string, token ids of the model, both mixed, an object with a prompt_string, or an array of those";

static bool sv_has(const json_t *array, bool want_string) {
  const json_t *v;
  size_t i;
  json_array_foreach(array, i, v) {
    if (want_string ? json_is_string(v) : json_is_number(v)) return true;
  }
  return false;
}

static bool sv_append_ids(const sv_encoder *e, json_t *ids, const json_t *text, bool is_first, sv_fail *fail) {
  const uint32_t flags = (is_first ? GA_TOK_ADD_SPECIAL : 0u) | GA_TOK_PARSE_SPECIAL;
  int32_t *made = NULL;
  size_t n = 0;
  bool ok = e->encode(e->user, json_string_value(text), json_string_length(text), flags, &made, &n, fail);
  for (size_t i = 0; ok && i < n; i++) ok = !json_array_append_new(ids, json_integer(made[i])) || sv_refuse_nomem(fail);
  free(made);
  return ok;
}

static bool sv_refuse_mixed(const sv_encoder *e, sv_fail *fail) {
  return sv_refuse(fail, 400, "context_length_exceeded", "prompt",
                   "This model's maximum context length is %zu tokens; an array in prompt has more.", e->most);
}

/* Ids and texts by turns are one prompt; a text begins one only in front. What cannot fit is not encoded. */
static json_t *sv_join_mixed(const sv_encoder *e, const json_t *parts, sv_fail *fail) {
  json_t *ids = json_array(), *part;
  size_t i;
  bool ok = ids ? json_array_size(parts) <= e->most || sv_refuse_mixed(e, fail) : sv_refuse_nomem(fail);
  json_array_foreach(parts, i, part) {
    if (ok && json_array_size(ids) > e->most) ok = sv_refuse_mixed(e, fail);
    if (!ok) break;
    if (json_is_string(part))
      ok = sv_append_ids(e, ids, part, i == 0, fail);
    else if (json_is_number(part))
      ok = !json_array_append(ids, part) || sv_refuse_nomem(fail);
    else
      ok = sv_refuse_value(fail, "prompt", part, prompt_kinds);
  }
  if (ok) return ids;
  json_decref(ids);
  return NULL;
}

/* One prompt as a new reference to a text or an array of ids, NULL with *fail set. */
static json_t *sv_one_prompt(const sv_encoder *e, json_t *v, sv_fail *fail) {
  if (sv_is_object(v)) {
    const json_t *media = sv_field(v, "multimodal_data");
    v = json_object_get(v, "prompt_string");
    if (media && !sv_is_empty(media))
      (void)sv_refuse_unsupported(fail, 422, "multimodal_data", media, "[]: models read only text");
    else if (json_is_string(v))
      return json_incref(v);
    else
      (void)sv_refuse(fail, 400, NULL, "prompt", "An object in prompt must have a prompt_string, which is a string.");
    return NULL;
  }
  if (json_is_array(v) && sv_has(v, true)) return sv_join_mixed(e, v, fail);
  if (json_is_array(v) || json_is_string(v)) return json_incref(v);
  (void)sv_refuse_value(fail, "prompt", v, prompt_kinds);
  return NULL;
}

/* An array with a number in it is one prompt; another array is a list of them. */
static bool sv_translate_prompt(const sv_encoder *e, json_t *body, sv_fail *fail) {
  json_t *v = json_object_get(body, "prompt");
  if (!v || json_is_null(v) || (json_is_array(v) && !json_array_size(v))) return true; /* sv_read_prompts refuses it */
  const bool is_list = json_is_array(v) && !sv_has(v, false);
  const size_t n = is_list ? json_array_size(v) : 1;
  if (n > SV_MAX_PROMPTS) return true; /* the same, before work is done */
  json_t *prompts = json_array();
  bool ok = prompts || sv_refuse_nomem(fail);
  for (size_t i = 0; ok && i < n; i++) {
    json_t *one = sv_one_prompt(e, is_list ? json_array_get(v, i) : v, fail);
    ok = one && (!json_array_append_new(prompts, one) || sv_refuse_nomem(fail));
  }
  ok = ok && (!json_object_set(body, "prompt", prompts) || sv_refuse_nomem(fail));
  json_decref(prompts);
  return ok;
}

/* --- logit_bias --- */

static bool sv_set_bias(json_t *bias, int64_t id, json_t *value, sv_fail *fail) {
  char key[24];
  (void)snprintf(key, sizeof key, "%lld", (long long)id);
  if (json_object_size(bias) > SV_MAX_BIAS)
    return sv_refuse(fail, 400, NULL, "logit_bias", "logit_bias has more than %d tokens.", SV_MAX_BIAS);
  return !json_object_set(bias, key, value) || sv_refuse_nomem(fail);
}

/* All tokens of a text get its bias. */
static bool sv_set_text_bias(const sv_encoder *e, json_t *bias, const char *text, size_t bytes, json_t *value,
                             sv_fail *fail) {
  int32_t *ids = NULL;
  size_t n = 0;
  if (bytes > SV_MAX_BIAS_BYTES)
    return sv_refuse(fail, 400, NULL, "logit_bias", "logit_bias has a text of %zu bytes; there may be at most %d.",
                     bytes, SV_MAX_BIAS_BYTES);
  bool ok = e->encode(e->user, text, bytes, 0, &ids, &n, fail);
  for (size_t i = 0; ok && i < n; i++) ok = sv_set_bias(bias, ids[i], value, fail);
  free(ids);
  return ok;
}

static bool sv_add_bias_pair(const sv_encoder *e, json_t *bias, const json_t *pair, sv_fail *fail) {
  const json_t *token = json_array_get(pair, 0);
  json_t *value = json_array_get(pair, 1);
  int64_t id;
  if (json_array_size(pair) == 2 && sv_as_int(token, INT64_MIN, INT64_MAX, &id))
    return sv_set_bias(bias, id, value, fail);
  if (json_array_size(pair) == 2 && json_is_string(token))
    return sv_set_text_bias(e, bias, json_string_value(token), json_string_length(token), value, fail);
  return sv_refuse_value(fail, "logit_bias", pair, "pairs of a token id or a text and a number or false");
}

static bool sv_add_bias_member(const sv_encoder *e, json_t *bias, const char *key, size_t bytes, json_t *value,
                               sv_fail *fail) {
  char *end;
  errno = 0;
  const long id = strtol(key, &end, 10);
  if (*key >= '0' && *key <= '9' && end == key + bytes && !errno) return sv_set_bias(bias, id, value, fail);
  return sv_set_text_bias(e, bias, key, bytes, value, fail);
}

static bool sv_translate_bias(const sv_encoder *e, json_t *body, sv_fail *fail) {
  json_t *v = json_object_get(body, "logit_bias"), *one;
  const char *key;
  size_t i, n;
  if (!v || json_is_null(v)) return true;
  if ((!json_is_array(v) && !sv_is_object(v)) || json_array_size(v) + json_object_size(v) > SV_MAX_BIAS)
    return sv_refuse_value(fail, "logit_bias", v, "an array of up to 4096 pairs, or an object");
  json_t *bias = json_object();
  bool ok = bias || sv_refuse_nomem(fail);
  json_array_foreach(v, i, one) ok = ok && sv_add_bias_pair(e, bias, one, fail);
  json_object_keylen_foreach(v, key, n, one) ok = ok && sv_add_bias_member(e, bias, key, n, one, fail);
  ok = ok && (!json_object_set(body, "logit_bias", bias) || sv_refuse_nomem(fail));
  json_decref(bias);
  return ok;
}

/* --- the other fields --- */

/* The first of the names that is there. */
static bool sv_translate_count(json_t *body, const char *const *names, int64_t min, int64_t max, sv_fail *fail) {
  const char *name = names[0];
  bool found = false;
  int64_t n = -1;
  for (size_t i = 0; names[i]; i++) {
    if (!sv_field(body, names[i])) continue;
    name = names[i];
    found = true;
    break;
  }
  if (!sv_read_int(body, name, min, max, &n, fail)) return false;
  for (size_t i = 0; names[i]; i++) (void)json_object_del(body, names[i]);
  return !found || !json_object_set_new(body, names[1], json_integer(n)) || sv_refuse_nomem(fail);
}

static bool sv_translate_counts(json_t *body, sv_fail *fail) {
  static const char *const tokens[] = {"n_predict", "max_tokens", "max_completion_tokens", NULL};
  static const char *const choices[] = {"n_cmpl", "n", NULL};
  return sv_translate_count(body, tokens, -1, INT32_MAX, fail) && sv_translate_count(body, choices, 1, SV_MAX_N, fail);
}

void sv_native_defaults(ga_sample_desc *sample) {
  sample->temperature = 0.8f;
  sample->top_k = 40;
  sample->top_p = 0.95f;
  sample->min_p = 0.05f;
}

static bool sv_read_native_sampling(const json_t *body, sv_params *p, sv_fail *fail) {
  ga_sample_desc *s = &p->sample, usual = GA_SAMPLE_DESC_INIT;
  int64_t last = SV_PENALTY_LAST;
  double penalty = (double)s->repetition_penalty;
  sv_native_defaults(&usual);
  if (!sv_field(body, "temperature")) s->temperature = usual.temperature;
  if (!sv_field(body, "top_k")) s->top_k = usual.top_k;
  if (!sv_field(body, "top_p")) s->top_p = usual.top_p;
  if (!sv_field(body, "min_p")) s->min_p = usual.min_p;
  if (!sv_read_number(body, "repeat_penalty", 1e-3, 100, &penalty, fail) ||
      !sv_read_int(body, "repeat_last_n", -1, INT32_MAX, &last, fail))
    return false;
  s->repetition_penalty = last ? (float)penalty : 1.0f;
  if (!last) s->presence_penalty = s->frequency_penalty = 0.0f;
  p->penalty_last = last ? (int32_t)last : SV_PENALTY_LAST;
  return true;
}

static bool sv_check_response_fields(const json_t *body, sv_fail *fail) {
  const json_t *fields = sv_field(body, "response_fields"), *one;
  size_t i;
  bool ok = !fields || json_is_array(fields);
  json_array_foreach(fields, i, one) ok =
      ok && json_is_string(one) && strlen(json_string_value(one)) == json_string_length(one);
  return ok || sv_refuse_value(fail, "response_fields", fields, "an array of names without NUL; a/b is b within a");
}

/* Places and times that do not change an answer are read and passed over. */
static bool sv_check_hints(const json_t *body, sv_fail *fail) {
  int64_t any = 0;
  double ms = 0;
  return sv_read_number(body, "t_max_prompt_ms", -DBL_MAX, DBL_MAX, &ms, fail) &&
         sv_read_int(body, "id_slot", -1, INT32_MAX, &any, fail) &&
         sv_read_int(body, "n_keep", -1, INT32_MAX, &any, fail);
}

static bool sv_read_native_answer(const json_t *body, sv_params *p, sv_fail *fail) {
  int64_t probs = 0;
  double ms = 0;
  bool cache = true;
  if (!sv_read_int(body, "n_probs", 0, GA_MAX_TOP_LOGPROBS, &probs, fail) ||
      !sv_read_bool(body, "return_tokens", &p->return_ids, fail) ||
      !sv_read_bool(body, "timings_per_token", &p->timings_per_token, fail) ||
      !sv_read_bool(body, "cache_prompt", &cache, fail) ||
      !sv_read_int(body, "n_indent", 0, SV_MAX_INDENT, &p->n_indent, fail) ||
      !sv_read_number(body, "t_max_predict_ms", -DBL_MAX, DBL_MAX, &ms, fail) || !sv_check_response_fields(body, fail))
    return false;
  if (p->stream && p->n_indent)
    return sv_refuse(fail, 400, "unsupported_parameter", "n_indent", "n_indent and stream cannot be given together.");
  if (p->stream) p->return_ids = true; /* as llama-server does */
  p->no_cache = !cache;
  p->predict_seconds = ms / 1e3;
  if (probs > 0) p->logprobs = probs;
  return true;
}

bool sv_request_native(const sv_encoder *encoder, json_t *body, int64_t vocab, sv_request *out, sv_fail *fail) {
  *out = (sv_request){.body = body, .clips_length = true};
  return sv_check_numbers(body, fail) && sv_check_switches(body, fail) && sv_check_speculation(body, fail) &&
         sv_check_hints(body, fail) && sv_translate_counts(body, fail) && sv_translate_prompt(encoder, body, fail) &&
         sv_translate_bias(encoder, body, fail) && sv_read_string(body, "model", &out->model, fail) &&
         sv_params_read(body, vocab, &out->p, fail) && sv_read_native_sampling(body, &out->p, fail) &&
         sv_read_native_answer(body, &out->p, fail) &&
         sv_read_prompts(body, "prompt", vocab, SV_MAX_PROMPTS, &out->prompts, &out->n_prompts, fail) &&
         sv_read_bool(body, "parse_special", &out->p.parse_special, fail) && sv_check_min_tokens(&out->p, fail) &&
         sv_check_choices(out, fail);
}
