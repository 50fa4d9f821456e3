#include "serve/params.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sv_params_free(sv_params *p) {
  free(p->stop_ids);
  free(p->bias);
  p->stop_ids = NULL;
  p->bias = NULL;
}

/* The sampler's ranges are open at 0. Below this share only the likeliest token is kept. */
#define SV_LEAST_P 1e-6f

/* A float field of ga_sample_desc. */
static bool sv_read_float(const json_t *body, const char *key, double min, double max, float *out, sv_fail *fail) {
  double v = (double)*out;
  if (!sv_read_number(body, key, min, max, &v, fail)) return false;
  *out = (float)v;
  return true;
}

static bool sv_read_sampling(const json_t *body, sv_params *p, sv_fail *fail) {
  ga_sample_desc *s = &p->sample;
  int64_t top_k = 0;
  s->temperature = 1.0f;
  if (!sv_read_float(body, "temperature", 0, 100, &s->temperature, fail) ||
      !sv_read_float(body, "top_p", 0, 1, &s->top_p, fail) || !sv_read_float(body, "min_p", 0, 1, &s->min_p, fail) ||
      !sv_read_float(body, "typical_p", 0, 1, &s->typical_p, fail) ||
      !sv_read_float(body, "repetition_penalty", 1e-3, 100, &s->repetition_penalty, fail) ||
      !sv_read_float(body, "presence_penalty", -2, 2, &s->presence_penalty, fail) ||
      !sv_read_float(body, "frequency_penalty", -2, 2, &s->frequency_penalty, fail) ||
      !sv_read_int(body, "top_k", -1, INT32_MAX, &top_k, fail))
    return false;
  s->top_k = top_k > 0 ? (int32_t)top_k : 0;
  if (s->top_p < SV_LEAST_P) s->top_p = SV_LEAST_P;
  if (s->typical_p < SV_LEAST_P) s->typical_p = SV_LEAST_P;
  if (!(s->min_p < 1.0f)) s->min_p = nextafterf(1.0f, 0.0f); /* the sampler's range is open there */
  return sv_read_int(body, "seed", INT64_MIN, INT64_MAX, &p->seed, fail);
}

static bool sv_lacks(const json_t *body, const char *key) { return !sv_field(body, key); }

/* Sets penalties that the body does not have. Penalties that look back on no tokens (repeat_last_n) stay off. */
static void sv_apply_penalties(const json_t *body, const sv_defaults *defaults, sv_params *p) {
  ga_sample_desc *s = &p->sample;
  const json_t *last = sv_field(body, "repeat_last_n");
  if (json_is_integer(last) && !json_integer_value(last)) return;
  const bool is_own = !sv_lacks(body, "presence_penalty") || !sv_lacks(body, "frequency_penalty"),
             takes_repeat =
                 sv_lacks(body, "repetition_penalty") && sv_lacks(body, "repeat_penalty") && s->temperature != 0.0f;
  if (sv_lacks(body, "presence_penalty")) s->presence_penalty = defaults->presence_penalty;
  if (sv_lacks(body, "frequency_penalty")) s->frequency_penalty = defaults->frequency_penalty;
  if (takes_repeat) s->repetition_penalty = defaults->repetition_penalty;
  const bool has_penalty = takes_repeat || s->presence_penalty != 0.0f || s->frequency_penalty != 0.0f;
  if (has_penalty && !is_own && p->penalty_last < 0) p->penalty_last = defaults->penalty_last;
}

void sv_apply_defaults(const json_t *body, const sv_defaults *defaults, sv_params *p) {
  ga_sample_desc *s = &p->sample;
  if (!defaults->is_given) return;
  if (p->seed == -1) p->seed = defaults->seed;
  if (sv_lacks(body, "temperature")) s->temperature = defaults->temperature;
  if (sv_lacks(body, "top_p")) s->top_p = defaults->top_p;
  if (sv_lacks(body, "min_p")) s->min_p = defaults->min_p;
  if (sv_lacks(body, "top_k")) s->top_k = defaults->top_k;
  sv_apply_penalties(body, defaults, p);
}

static bool sv_read_counts(const json_t *body, sv_params *p, sv_fail *fail) {
  int64_t modern = SV_NO_LIMIT;
  if (!sv_read_int(body, "n", 1, SV_MAX_N, &p->n, fail) ||
      !sv_read_int(body, "max_tokens", SV_NO_LIMIT, INT32_MAX, &p->max_tokens, fail) ||
      !sv_read_int(body, "max_completion_tokens", SV_NO_LIMIT, INT32_MAX, &modern, fail) ||
      !sv_read_int(body, "min_tokens", 0, INT32_MAX, &p->min_tokens, fail) ||
      !sv_read_int(body, "priority", 0, INT32_MAX, &p->priority, fail) ||
      !sv_read_int(body, "prompt_logprobs", 0, GA_MAX_TOP_LOGPROBS, &p->prompt_logprobs, fail))
    return false;
  if (sv_field(body, "max_completion_tokens")) p->max_tokens = modern;
  p->has_max_tokens = sv_field(body, "max_tokens") || sv_field(body, "max_completion_tokens");
  return true;
}

static bool sv_add_stop(const json_t *v, sv_params *p, sv_fail *fail) {
  const size_t n = json_string_length(v);
  if (!json_is_string(v) || n > SV_MAX_STOP_BYTES)
    return sv_refuse_value(fail, "stop", v, "a string of up to 1024 bytes, or an array of up to 16 such strings");
  if (!n) return true; /* the empty text ends nothing */
  p->stop[p->n_stop++] = (ga_text){json_string_value(v), n};
  return true;
}

static bool sv_read_stops(const json_t *body, sv_params *p, sv_fail *fail) {
  const json_t *v = sv_field(body, "stop"), *one;
  size_t i;
  if (!v) return true;
  if (!json_is_array(v)) return sv_add_stop(v, p, fail);
  if (json_array_size(v) > SV_MAX_STOPS) return sv_refuse_value(fail, "stop", v, "a string or up to 16 strings");
  json_array_foreach(v, i, one) {
    if (!sv_add_stop(one, p, fail)) return false;
  }
  return true;
}

static bool sv_read_stop_ids(const json_t *body, int64_t vocab, sv_params *p, sv_fail *fail) {
  const json_t *v = sv_field(body, "stop_token_ids"), *one;
  size_t i;
  if (!v) return true;
  if (!json_is_array(v) || json_array_size(v) > SV_MAX_STOP_IDS)
    return sv_refuse_value(fail, "stop_token_ids", v, "an array of up to 256 token ids");
  p->stop_ids = malloc((json_array_size(v) + 1) * sizeof *p->stop_ids);
  if (!p->stop_ids) return sv_refuse_nomem(fail);
  json_array_foreach(v, i, one) {
    int64_t id;
    if (!sv_as_int(one, 0, vocab - 1, &id))
      return sv_refuse_value(fail, "stop_token_ids", one, "a token id of the model");
    p->stop_ids[p->n_stop_ids++] = (int32_t)id;
  }
  return true;
}

static bool sv_read_bias_entry(const char *key, const json_t *value, int64_t vocab, sv_params *p, sv_fail *fail) {
  char *end;
  errno = 0;
  const long id = strtol(key, &end, 10);
  if (end == key || *end || errno || *key < '0' || *key > '9' || id >= vocab)
    return sv_refuse(fail, 400, NULL, "logit_bias",
                     "logit_bias has the key \"%.40s\"; keys must be token ids from 0 to %lld.", key,
                     (long long)vocab - 1);
  const double bias = json_is_number(value) ? json_number_value(value) : json_is_false(value) ? -INFINITY : NAN;
  if (!(bias <= 100) || (bias < -100 && !json_is_false(value)))
    return sv_refuse_value(fail, "logit_bias", value, "numbers from -100 to 100, or false: never");
  p->bias[p->n_bias++] = (ga_logit_bias){(int32_t)id, (float)bias};
  return true;
}

static bool sv_read_bias(const json_t *body, int64_t vocab, sv_params *p, sv_fail *fail) {
  json_t *v = json_object_get(body, "logit_bias");
  const char *key;
  json_t *value;
  size_t n;
  if (!v || json_is_null(v)) return true;
  if (!sv_is_object(v) || json_object_size(v) > SV_MAX_BIAS)
    return sv_refuse_value(fail, "logit_bias", v, "an object of up to 4096 token ids and their biases");
  p->bias = malloc((json_object_size(v) + 1) * sizeof *p->bias);
  if (!p->bias) return sv_refuse_nomem(fail);
  json_object_keylen_foreach(v, key, n, value) {
    if (strlen(key) != n) return sv_refuse(fail, 400, NULL, "logit_bias", "logit_bias has a key with a NUL character.");
    if (!sv_read_bias_entry(key, value, vocab, p, fail)) return false;
  }
  return true;
}

static bool sv_read_stream(const json_t *body, sv_params *p, sv_fail *fail) {
  const json_t *options = sv_field(body, "stream_options");
  if (!sv_read_bool(body, "stream", &p->stream, fail)) return false;
  if (!options) return true;
  if (!sv_is_object(options)) return sv_refuse_value(fail, "stream_options", options, "an object");
  if (!p->stream)
    return sv_refuse(fail, 400, NULL, "stream_options", "stream_options is only allowed when stream is true.");
  return sv_read_bool(options, "include_usage", &p->include_usage, fail);
}

/* What would change the answer and is not there must not be passed over. */
static bool sv_check_unsupported(const json_t *body, sv_fail *fail) {
  static const char *const constrained[] = {"structured_outputs", "guided_json", "guided_regex", "guided_choice",
                                            "guided_grammar"};
  const json_t *format = sv_field(body, "response_format");
  const json_t *type = sv_is_object(format) ? json_object_get(format, "type") : NULL;
  if (format && !json_is_string(type))
    return sv_refuse_value(fail, "response_format", format, "an object with a type, which is a string");
  if (type && strcmp(json_string_value(type), "text") != 0)
    return sv_refuse(fail, 422, "unsupported_parameter", "response_format",
                     "response_format of type \"%.40s\" is not supported: this server cannot constrain what is "
                     "generated. The only type is \"text\".",
                     json_string_value(type));
  for (size_t i = 0; i < sizeof constrained / sizeof constrained[0]; i++)
    if (sv_field(body, constrained[i]))
      return sv_refuse(fail, 422, "unsupported_parameter", constrained[i],
                       "%s is not supported: this server cannot constrain what is generated.", constrained[i]);
  if (json_is_true(sv_field(body, "use_beam_search")))
    return sv_refuse(fail, 422, "unsupported_parameter", "use_beam_search", "use_beam_search is not supported.");
  return true;
}

bool sv_check_min_tokens(const sv_params *p, sv_fail *fail) {
  return p->max_tokens == SV_NO_LIMIT || p->min_tokens <= p->max_tokens ||
         sv_refuse(fail, 400, NULL, "min_tokens", "min_tokens is %lld; it must be at most max_tokens, which is %lld.",
                   (long long)p->min_tokens, (long long)p->max_tokens);
}

bool sv_params_read(const json_t *body, int64_t vocab, sv_params *out, sv_fail *fail) {
  const char *user = NULL;
  *out = (sv_params){.sample = GA_SAMPLE_DESC_INIT, .seed = -1, .n = 1, .max_tokens = SV_NO_LIMIT, .logprobs = -1};
  out->cache_ttl = -1;
  out->prompt_logprobs = -1;
  out->penalty_last = -1;
  out->skip_special = out->add_special = out->parse_special = true;
  if (!sv_read_sampling(body, out, fail) || !sv_read_counts(body, out, fail) || !sv_read_stops(body, out, fail) ||
      !sv_read_stop_ids(body, vocab, out, fail) || !sv_read_bias(body, vocab, out, fail) ||
      !sv_read_stream(body, out, fail) || !sv_check_unsupported(body, fail) ||
      !sv_read_bool(body, "ignore_eos", &out->ignore_eos, fail) ||
      !sv_read_bool(body, "skip_special_tokens", &out->skip_special, fail) ||
      !sv_read_bool(body, "include_stop_str_in_output", &out->include_stop, fail) ||
      !sv_read_number(body, "cache_ttl", 0, SV_MAX_TTL, &out->cache_ttl, fail) ||
      !sv_read_string(body, "cache_salt", &out->cache_salt, fail) || !sv_read_string(body, "user", &user, fail))
    return false;
  if (out->stream && out->prompt_logprobs >= 0)
    return sv_refuse(fail, 400, NULL, "prompt_logprobs", "prompt_logprobs is not available when stream is true.");
  return true;
}
