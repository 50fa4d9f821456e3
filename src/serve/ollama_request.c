/* From bodies of Ollama to those of chats and completions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/duration.h"
#include "serve/ollama.h"
#include "serve/request.h"

static bool sv_oll_copy(const json_t *from, const char *key, json_t *to, const char *as, sv_fail *fail) {
  json_t *v = json_object_get(from, key);
  return !v || json_is_null(v) || !json_object_set(to, as, v) || sv_refuse_nomem(fail);
}

size_t sv_ollama_name_bytes(const char *name) {
  static const char tag[] = ":latest";
  const size_t n = strlen(name);
  return n > sizeof tag - 1 && !strcmp(name + n - (sizeof tag - 1), tag) ? n - (sizeof tag - 1) : n;
}

/* --- keep_alive --- */

bool sv_ollama_keep_alive(const json_t *body, double *seconds, sv_fail *fail) {
  const json_t *v = sv_field(body, "keep_alive");
  *seconds = NAN;
  if (!v) return true;
  if (json_is_number(v)) *seconds = json_number_value(v);
  if (json_is_string(v) && !sv_read_duration(json_string_value(v), seconds)) *seconds = NAN;
  return !isnan(*seconds) ||
         sv_refuse_value(fail, "keep_alive", v, "seconds, or a text such as \"5m\"; below 0 is for ever");
}

/* --- options --- */

/* Options that would change the answer and are not there. */
static bool sv_oll_check_options(const json_t *options, sv_fail *fail) {
  static const struct {
    const char *name;
    double off;
    const char *allowed;
  } absent[] = {{"mirostat", 0, "0: this server has no mirostat"}, {"tfs_z", 1, "1: this server has no such sampler"}};
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
    const json_t *v = sv_field(options, absent[i].name);
    if (v && !(json_is_number(v) && json_number_value(v) == absent[i].off))
      return sv_refuse_value(fail, absent[i].name, v, absent[i].allowed);
  }
  return true;
}

/* Turns penalties off that look back on no tokens. */
static bool sv_oll_drop_penalties(const json_t *options, json_t *to, sv_fail *fail) {
  int64_t last = 1;
  if (!sv_read_int(options, "repeat_last_n", -1, INT32_MAX, &last, fail)) return false;
  return last || (sv_set_new(to, "repetition_penalty", json_integer(1), fail) &&
                  sv_set_new(to, "presence_penalty", json_integer(0), fail) &&
                  sv_set_new(to, "frequency_penalty", json_integer(0), fail));
}

/* Sets the fields of an answer: sampling, length, stops. */
static bool sv_oll_add_options(const json_t *body, json_t *to, sv_fail *fail) {
  static const char *const names[][2] = {{"temperature", "temperature"},
                                         {"top_k", "top_k"},
                                         {"top_p", "top_p"},
                                         {"min_p", "min_p"},
                                         {"typical_p", "typical_p"},
                                         {"seed", "seed"},
                                         {"stop", "stop"},
                                         {"repeat_penalty", "repetition_penalty"},
                                         {"presence_penalty", "presence_penalty"},
                                         {"frequency_penalty", "frequency_penalty"}};
  const json_t *options = sv_field(body, "options");
  int64_t most = SV_NO_LIMIT;
  if (!options) return true;
  if (!json_is_object(options)) return sv_refuse_value(fail, "options", options, "an object");
  if (!sv_oll_check_options(options, fail)) return false;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (!sv_oll_copy(options, names[i][0], to, names[i][1], fail)) return false;
  if (!sv_oll_drop_penalties(options, to, fail)) return false;
  if (!sv_read_int(options, "num_predict", -2, INT32_MAX, &most, fail)) return false;
  if (!sv_field(options, "num_predict")) return true;
  return sv_set_new(to, "max_tokens", json_integer(most < 0 ? SV_NO_LIMIT : most), fail);
}

bool sv_ollama_finish(const json_t *options, const sv_ollama *state, const sv_defaults *defaults, sv_params *p,
                      sv_fail *fail) {
  enum { LAST = 64 }; /* Ollama's default */
  const int32_t usual = defaults->is_given ? defaults->penalty_last : LAST;
  p->logprobs = state->logprobs;
  int64_t last = usual;
  if (!sv_read_int(options, "repeat_last_n", -1, INT32_MAX, &last, fail)) return false;
  p->penalty_last = last ? (int32_t)last : usual;
  if (!p->has_max_tokens) p->max_tokens = SV_NO_LIMIT;
  return true;
}

/* --- fields that both have --- */

static bool sv_oll_add_format(const json_t *body, sv_fail *fail) {
  const json_t *format = sv_field(body, "format");
  if (!format || (json_is_string(format) && !json_string_length(format))) return true;
  return sv_refuse(fail, 422, "unsupported_parameter", "format",
                   "format is not supported: this server cannot constrain what is generated.");
}

static bool sv_oll_check_images(const json_t *object, sv_fail *fail) {
  return !json_array_size(json_object_get(object, "images")) ||
         sv_refuse(fail, 400, "unsupported_content", "images", "images are not supported: this model reads only text.");
}

/* think: true, false, or how much. */
static bool sv_oll_add_think(const json_t *body, json_t *to, sv_fail *fail) {
  const json_t *v = sv_field(body, "think");
  if (!v) return true;
  if (json_is_boolean(v))
    return sv_set_new(to, "chat_template_kwargs", json_pack("{s:b}", "enable_thinking", json_is_true(v)), fail);
  if (!json_is_string(v)) return sv_refuse_value(fail, "think", v, "true, false, \"low\", \"medium\" or \"high\"");
  return sv_set_new(to, "chat_template_kwargs", json_pack("{s:b,s:O}", "enable_thinking", 1, "reasoning_effort", v),
                    fail);
}

static bool sv_oll_read_logprobs(const json_t *body, sv_ollama *state, sv_fail *fail) {
  bool wanted = false;
  int64_t top = 0;
  if (!sv_read_bool(body, "logprobs", &wanted, fail) ||
      !sv_read_int(body, "top_logprobs", 0, GA_MAX_TOP_LOGPROBS, &top, fail))
    return false;
  if (top && !wanted) return sv_refuse(fail, 400, NULL, "top_logprobs", "top_logprobs needs logprobs to be true.");
  state->logprobs = wanted ? top : -1;
  return true;
}

static bool sv_oll_begin(const json_t *body, sv_ollama *state, json_t *to, sv_fail *fail) {
  bool streams = true;
  const char *model = NULL;
  if (!sv_read_string(body, "model", &model, fail) || !sv_read_bool(body, "stream", &streams, fail) ||
      !sv_ollama_keep_alive(body, &state->keep_seconds, fail))
    return false;
  state->unloads = state->keep_seconds == 0;
  if (model && !sv_set_new(to, "model", json_stringn(model, sv_ollama_name_bytes(model)), fail)) return false;
  return sv_set_new(to, "stream", json_boolean(streams), fail) && sv_oll_add_format(body, fail) &&
         sv_oll_check_images(body, fail) && sv_oll_add_options(body, to, fail) && sv_oll_add_think(body, to, fail) &&
         sv_oll_read_logprobs(body, state, fail);
}

/* --- /api/chat --- */

/* Calls have arguments as objects, and ids since 0.13; a template wants a type. */
static json_t *sv_oll_calls(const json_t *given, sv_fail *fail) {
  json_t *calls = json_array();
  bool ok = calls || sv_refuse_nomem(fail);
  if (ok && !json_is_array(given)) ok = sv_refuse_value(fail, "tool_calls", given, "an array");
  for (size_t i = 0; ok && i < json_array_size(given); i++) {
    const json_t *call = json_array_get(given, i);
    json_t *function = json_object_get(call, "function");
    if (!json_is_object(function)) {
      ok = sv_refuse_value(fail, "tool_calls", call, "objects with a function");
      break;
    }
    json_t *made = json_pack("{s:s,s:{s:O*,s:O*}}", "type", "function", "function", "name",
                             json_object_get(function, "name"), "arguments", json_object_get(function, "arguments"));
    ok =
        (made && sv_oll_copy(call, "id", made, "id", fail) && !json_array_append(calls, made)) || sv_refuse_nomem(fail);
    json_decref(made);
  }
  if (ok) return calls;
  json_decref(calls);
  return NULL;
}

static bool sv_oll_add_message(const json_t *given, json_t *messages, sv_fail *fail) {
  static const char *const names[][2] = {{"role", "role"},
                                         {"content", "content"},
                                         {"thinking", "reasoning_content"},
                                         {"tool_name", "name"},
                                         {"tool_call_id", "tool_call_id"}};
  const json_t *calls = sv_field(given, "tool_calls");
  json_t *message = json_object();
  if (!json_is_object(given)) {
    json_decref(message);
    return sv_refuse_value(fail, "messages", given, "an array of objects");
  }
  bool ok = (message || sv_refuse_nomem(fail)) && sv_oll_check_images(given, fail);
  for (size_t i = 0; ok && i < sizeof names / sizeof names[0]; i++)
    ok = sv_oll_copy(given, names[i][0], message, names[i][1], fail);
  if (ok && calls) {
    json_t *made = sv_oll_calls(calls, fail);
    ok = made && sv_set_new(message, "tool_calls", made, fail);
  }
  ok = ok && (!json_array_append(messages, message) || sv_refuse_nomem(fail));
  json_decref(message);
  return ok;
}

static bool sv_oll_chat(const json_t *body, sv_ollama *state, json_t *to, sv_fail *fail) {
  const json_t *given = sv_field(body, "messages");
  json_t *messages = json_array();
  state->is_chat = true;
  if (!sv_set_new(to, "messages", messages, fail) || !sv_oll_begin(body, state, to, fail)) return false;
  if (given && (!json_is_array(given) || json_array_size(given) > SV_MAX_MESSAGES))
    return sv_refuse_value(fail, "messages", given, "an array of at most 65536 messages");
  state->only_loads = !json_array_size(given);
  for (size_t i = 0; i < json_array_size(given); i++)
    if (!sv_oll_add_message(json_array_get(given, i), messages, fail)) return false;
  return sv_continue_last(messages, to, fail) && sv_oll_copy(body, "tools", to, "tools", fail);
}

static bool sv_oll_take(bool ok, json_t *body, json_t *to, json_t **out) {
  json_decref(body);
  if (!ok) json_decref(to);
  *out = ok ? to : NULL;
  return ok;
}

bool sv_ollama_chat(json_t *body, sv_ollama *state, json_t **out, sv_fail *fail) {
  json_t *to = json_object();
  return sv_oll_take((to || sv_refuse_nomem(fail)) && sv_oll_chat(body, state, to, fail), body, to, out);
}

/* --- /api/generate --- */

static bool sv_oll_refuse_generate(const json_t *body, sv_fail *fail) {
  const json_t *template = sv_field(body, "template"), *context = sv_field(body, "context");
  if (template && json_string_length(template))
    return sv_refuse(fail, 400, "unsupported_parameter", "template",
                     "template is not supported: the model's own is used, or none with raw.");
  return !json_array_size(context) ||
         sv_refuse(fail, 400, "unsupported_parameter", "context",
                   "context is not supported: send the conversation's messages to /api/chat.");
}

static bool sv_oll_generate(const json_t *body, bool has_template, sv_ollama *state, bool *is_chat, json_t *to,
                            sv_fail *fail) {
  const char *system = NULL, *prompt = NULL, *suffix = NULL;
  bool raw = false;
  if (!sv_oll_begin(body, state, to, fail) || !sv_oll_refuse_generate(body, fail) ||
      !sv_read_string(body, "system", &system, fail) || !sv_read_string(body, "prompt", &prompt, fail) ||
      !sv_read_string(body, "suffix", &suffix, fail) || !sv_read_bool(body, "raw", &raw, fail))
    return false;
  if (!prompt) prompt = "";
  state->only_loads = !*prompt && !(suffix && *suffix);
  *is_chat = has_template && !raw && !(suffix && *suffix);
  if (*is_chat) {
    json_t *messages = json_array();
    if (!sv_set_new(to, "messages", messages, fail)) return false;
    if (system && *system &&
        json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "system", "content", system)))
      return sv_refuse_nomem(fail);
    return !json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "user", "content", prompt)) ||
           sv_refuse_nomem(fail);
  }
  if (system && *system)
    return sv_refuse(fail, 400, "unsupported_parameter", "system",
                     "system is not possible here: it needs a chat template, and neither raw nor suffix.");
  return sv_set_new(to, "prompt", json_string(prompt), fail) &&
         (!suffix || sv_set_new(to, "suffix", json_string(suffix), fail));
}

bool sv_ollama_generate(json_t *body, bool has_template, sv_ollama *state, bool *is_chat, json_t **out, sv_fail *fail) {
  json_t *to = json_object();
  return sv_oll_take((to || sv_refuse_nomem(fail)) && sv_oll_generate(body, has_template, state, is_chat, to, fail),
                     body, to, out);
}
