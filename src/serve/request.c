#include "serve/request.h"

#include <stdlib.h>
#include <string.h>

#include "serve/names.h"

void sv_prompts_free(sv_prompt *prompts, size_t n) {
  for (size_t i = 0; prompts && i < n; i++) free(prompts[i].ids);
  free(prompts);
}

void sv_request_free(sv_request *r) {
  sv_params_free(&r->p);
  sv_prompts_free(r->prompts, r->n_prompts);
  json_decref(r->context);
  json_decref(r->body);
  *r = (sv_request){0};
}

static bool sv_read_ids(const json_t *array, const char *key, int64_t vocab, sv_prompt *out, sv_fail *fail) {
  const json_t *v;
  size_t i;
  out->n_ids = json_array_size(array);
  out->ids = malloc((out->n_ids + 1) * sizeof *out->ids);
  if (!out->ids) return sv_refuse_nomem(fail);
  json_array_foreach(array, i, v) {
    int64_t id;
    if (!sv_as_int(v, 0, vocab - 1, &id))
      return sv_refuse_value(fail, key, v, "a string, strings, token ids of the model, or arrays of those");
    out->ids[i] = (int32_t)id;
  }
  return true;
}

static bool sv_read_prompt(const json_t *v, const char *key, int64_t vocab, sv_prompt *out, sv_fail *fail) {
  if (json_is_array(v)) return sv_read_ids(v, key, vocab, out, fail);
  if (!json_is_string(v)) return sv_refuse_value(fail, key, v, "a string or an array of token ids");
  out->text = json_string_value(v);
  out->bytes = json_string_length(v);
  return true;
}

bool sv_read_prompts(const json_t *body, const char *key, int64_t vocab, size_t most, sv_prompt **out, size_t *n,
                     sv_fail *fail) {
  const json_t *v = sv_field(body, key);
  *n = 0;
  *out = NULL;
  if (!v) return sv_refuse(fail, 400, "missing_required_parameter", key, "%s is missing.", key);
  const bool is_list = json_is_array(v) && !json_is_number(json_array_get(v, 0));
  const size_t count = is_list ? json_array_size(v) : 1;
  if (!count || count > most)
    return sv_refuse(fail, 400, NULL, key, "%s has %zu entries; it must have from 1 to %zu.", key, count, most);
  *out = calloc(count, sizeof **out);
  if (!*out) return sv_refuse_nomem(fail);
  *n = count;
  for (size_t i = 0; i < count; i++)
    if (!sv_read_prompt(is_list ? json_array_get(v, i) : v, key, vocab, &(*out)[i], fail)) return false;
  return true;
}

bool sv_check_choices(const sv_request *r, sv_fail *fail) {
  const size_t prompts = r->is_chat ? 1 : r->n_prompts, choices = prompts * (size_t)r->p.n;
  return choices <= SV_MAX_CHOICES ||
         sv_refuse(fail, 400, NULL, "n", "%zu prompts with n = %lld are %zu choices; there may be at most %d.", prompts,
                   (long long)r->p.n, choices, SV_MAX_CHOICES);
}

static bool sv_read_suffix(const json_t *body, sv_request *r, sv_fail *fail) {
  const json_t *v = sv_field(body, "suffix");
  if (!v) return true;
  if (!json_is_string(v)) return sv_refuse_value(fail, "suffix", v, "a string");
  r->suffix = (ga_text){json_string_value(v), json_string_length(v)};
  r->has_gap = r->suffix.bytes > 0;
  return !r->has_gap || !r->echo ||
         sv_refuse(fail, 400, "unsupported_parameter", "echo", "echo and suffix cannot be given together.");
}

bool sv_request_completion(json_t *body, int64_t vocab, sv_request *out, sv_fail *fail) {
  int64_t best_of = -1;
  *out = (sv_request){.body = body};
  if (!sv_read_string(body, "model", &out->model, fail) || !sv_params_read(body, vocab, &out->p, fail) ||
      !sv_read_prompts(body, "prompt", vocab, SV_MAX_PROMPTS, &out->prompts, &out->n_prompts, fail) ||
      !sv_read_bool(body, "echo", &out->echo, fail) ||
      !sv_read_bool(body, "add_special_tokens", &out->p.add_special, fail) ||
      !sv_read_bool(body, "parse_special", &out->p.parse_special, fail) ||
      !sv_read_int(body, "logprobs", 0, 5, &out->p.logprobs, fail) ||
      !sv_read_int(body, "best_of", 1, SV_MAX_N, &best_of, fail))
    return false;
  if (best_of != -1 && best_of != out->p.n)
    return sv_refuse(fail, 400, "unsupported_parameter", "best_of",
                     "best_of is %lld; it must be n, which is %lld: this server returns all that it makes.",
                     (long long)best_of, (long long)out->p.n);
  if (!sv_read_suffix(body, out, fail)) return false;
  if (!out->p.has_max_tokens) out->p.max_tokens = 16;
  return sv_check_min_tokens(&out->p, fail) && sv_check_choices(out, fail);
}

static bool sv_read_chat_logprobs(const json_t *body, sv_params *p, sv_fail *fail) {
  bool logprobs = false;
  int64_t top = -1;
  if (!sv_read_bool(body, "logprobs", &logprobs, fail) ||
      !sv_read_int(body, "top_logprobs", 0, GA_MAX_TOP_LOGPROBS, &top, fail))
    return false;
  if (top > 0 && !logprobs)
    return sv_refuse(fail, 400, NULL, "top_logprobs", "top_logprobs needs logprobs to be true.");
  p->logprobs = !logprobs ? -1 : top > 0 ? top : 0;
  return true;
}

static bool sv_has_tool(const json_t *tools, const json_t *name) {
  const json_t *tool;
  size_t i;
  json_array_foreach(tools, i, tool) {
    if (json_equal(json_object_get(json_object_get(tool, "function"), "name"), name)) return true;
  }
  return false;
}

static bool sv_read_tool_choice(const json_t *body, sv_request *r, sv_fail *fail) {
  static const char *const words[] = {"auto", "none", "required"};
  const json_t *v = sv_field(body, "tool_choice");
  const json_t *name = json_object_get(json_object_get(v, "function"), "name");
  if (name && !sv_check_function("tool_choice.function.name", name, fail)) return false;
  if (json_is_string(name)) r->tool_choice = "function";
  for (size_t i = 0; json_is_string(v) && i < sizeof words / sizeof words[0]; i++)
    if (!strcmp(json_string_value(v), words[i])) r->tool_choice = words[i];
  if (v && !r->tool_choice)
    return sv_refuse_value(fail, "tool_choice", v,
                           "\"auto\", \"none\", \"required\" or an object that names a function");
  if (r->tool_choice && strcmp(r->tool_choice, "none") != 0 && !json_array_size(sv_field(body, "tools")))
    return *r->tool_choice == 'a' ||
           sv_refuse(fail, 400, NULL, "tool_choice", "tool_choice is only allowed when tools are given.");
  return !json_is_string(name) || sv_has_tool(sv_field(body, "tools"), name) ||
         sv_refuse(fail, 400, NULL, "tool_choice",
                   "tool_choice names the function \"%.128s\", which tools do not have.", json_string_value(name));
}

bool sv_request_chat(json_t *body, int64_t vocab, sv_request *out, sv_fail *fail) {
  *out = (sv_request){.body = body, .is_chat = true};
  if (!sv_read_string(body, "model", &out->model, fail) || !sv_params_read(body, vocab, &out->p, fail) ||
      !sv_read_chat_logprobs(body, &out->p, fail) || !sv_read_tool_choice(body, out, fail) ||
      !sv_chat_context(body, &out->context, &out->continue_final, fail))
    return false;
  if (out->tool_choice && !strcmp(out->tool_choice, "none")) (void)json_object_del(out->context, "tools");
  return sv_check_min_tokens(&out->p, fail) && sv_check_choices(out, fail);
}
