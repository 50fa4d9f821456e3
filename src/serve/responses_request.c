/* From the body of POST /v1/responses to that of a chat. */
#include <stdlib.h>
#include <string.h>

#include "serve/request.h"
#include "serve/responses.h"
#include "text/json_io.h"

void sv_response_free(void *response) {
  sv_response *r = response;
  if (!r) return;
  json_decref(r->input);
  if (r->turns) sv_turn_release(r->turns, r->previous);
  free(r->fields);
  sv_text_free(&r->items);
  sv_text_free(&r->text);
  sv_text_free(&r->logprobs);
  sv_text_free(&r->reasoning);
  free(r);
}

/* --- what is not there --- */

static bool sv_rsp_check_absent(const json_t *body, sv_fail *fail) {
  static const struct {
    const char *name, *allowed;
  } off[] = {{"conversation", "left out: use previous_response_id"},
             {"prompt", "left out: this server keeps no prompts"},
             {"context_management", "left out: no context is shortened"}};
  for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
    if (sv_field(body, off[i].name))
      return sv_refuse_value(fail, off[i].name, sv_field(body, off[i].name), off[i].allowed);
  const json_t *background = sv_field(body, "background"), *truncation = sv_field(body, "truncation");
  if (background && !json_is_false(background))
    return sv_refuse_value(fail, "background", background, "false: answers are made while the client waits");
  const char *word = json_string_value(truncation);
  if (truncation && (!word || strcmp(word, "disabled") != 0))
    return sv_refuse_value(fail, "truncation", truncation, "\"disabled\": no item is left out");
  const json_t *format = sv_field(sv_field(body, "text"), "format");
  const char *type = json_string_value(json_object_get(format, "type"));
  if (sv_field(body, "text") && !json_is_object(sv_field(body, "text")))
    return sv_refuse_value(fail, "text", sv_field(body, "text"), "an object");
  if (!format || (type && !strcmp(type, "text"))) return true;
  return sv_refuse(
      fail, 422, "unsupported_parameter", "text.format",
      "text.format of type \"%.40s\" is not supported: this server cannot constrain what is generated. The "
      "only type is \"text\".",
      type ? type : "");
}

/* --- messages --- */

/* Adds the items of the turns before. The first turn comes first. */
static bool sv_rsp_add_turns(const sv_turn *last, json_t *messages, sv_fail *fail) {
  size_t n = 0;
  for (const sv_turn *turn = last; turn; turn = turn->previous) n++;
  if (n > SV_MAX_MESSAGES) return sv_refuse(fail, 400, NULL, "previous_response_id", "The conversation is too long.");
  const sv_turn **turns = malloc((n + 1) * sizeof *turns);
  if (!turns) return sv_refuse_nomem(fail);
  bool ok = true;
  for (const sv_turn *turn = last; turn; turn = turn->previous) turns[--n] = turn;
  for (const sv_turn *end = last; ok && end; n++) {
    const char *const texts[] = {turns[n]->input, turns[n]->output};
    for (size_t i = 0; ok && i < 2; i++) {
      json_t *items = ga_json_load(texts[i], strlen(texts[i]), GA_JSON_PYTHON, NULL);
      ok = items ? sv_response_add_items(items, messages, fail) : sv_refuse_nomem(fail);
      json_decref(items);
    }
    if (turns[n] == last) end = NULL;
  }
  free(turns);
  return ok;
}

static bool sv_rsp_find_previous(const json_t *body, sv_response *r, sv_fail *fail) {
  const char *id = NULL;
  if (!sv_read_string(body, "previous_response_id", &id, fail)) return false;
  if (!id) return true;
  r->previous = r->turns ? sv_turns_find(r->turns, id, r->tenant) : NULL;
  return r->previous || sv_refuse(fail, 400, "previous_response_not_found", "previous_response_id",
                                  "Previous response with id '%.60s' not found.", id);
}

/* Makes an array of items of the request's own; a string is one message. */
static bool sv_rsp_read_input(const json_t *body, sv_response *r, sv_fail *fail) {
  const json_t *input = sv_field(body, "input");
  if (!input) return sv_refuse(fail, 400, "missing_required_parameter", "input", "input is missing.");
  if (json_is_string(input))
    r->input = json_pack("[{s:s,s:s,s:[{s:s,s:O}]}]", "type", "message", "role", "user", "content", "type",
                         "input_text", "text", input);
  else if (!json_is_array(input) || json_array_size(input) > SV_MAX_MESSAGES)
    return sv_refuse_value(fail, "input", input, "a string or an array of at most 65536 items");
  else
    r->input = ga_json_copy(input);
  return r->input || sv_refuse_nomem(fail);
}

static bool sv_rsp_add_messages(const json_t *body, sv_response *r, json_t *to, sv_fail *fail) {
  json_t *messages = json_array();
  const char *instructions = NULL;
  if (!sv_set_new(to, "messages", messages, fail) || !sv_rsp_find_previous(body, r, fail) ||
      !sv_rsp_read_input(body, r, fail) || !sv_read_string(body, "instructions", &instructions, fail))
    return false;
  /* Instructions hold for one response: those of the turns before are not repeated. */
  if (instructions &&
      json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "system", "content", instructions)))
    return sv_refuse_nomem(fail);
  if (!sv_rsp_add_turns(r->previous, messages, fail) || !sv_response_add_items(r->input, messages, fail)) return false;
  return json_array_size(messages) || sv_refuse_value(fail, "input", sv_field(body, "input"), "not empty");
}

/* --- tools --- */

static bool sv_rsp_add_tool(const json_t *tool, json_t *tools, sv_fail *fail) {
  static const char *const members[] = {"name", "description", "parameters", "strict"};
  const char *type = json_string_value(json_object_get(tool, "type"));
  if (!type || strcmp(type, "function") != 0)
    return sv_refuse(fail, 400, "unsupported_parameter", "tools",
                     "tools has one of type \"%.40s\"; this server has no tools of its own, only functions of yours.",
                     type ? type : "");
  json_t *function = json_object(), *wrapped = json_pack("{s:s,s:o}", "type", "function", "function", function);
  if (!wrapped) return sv_refuse_nomem(fail);
  bool ok = !json_array_append_new(tools, wrapped);
  for (size_t i = 0; ok && i < sizeof members / sizeof members[0]; i++) {
    json_t *v = json_object_get(tool, members[i]);
    if (v && !json_is_null(v)) ok = !json_object_set(function, members[i], v);
  }
  return ok || sv_refuse_nomem(fail);
}

static bool sv_rsp_add_choice(const json_t *body, json_t *to, sv_fail *fail) {
  json_t *choice = json_object_get(body, "tool_choice");
  if (!choice || json_is_null(choice)) return true;
  if (!json_is_object(choice)) return sv_set_new(to, "tool_choice", json_incref(choice), fail);
  const char *type = json_string_value(json_object_get(choice, "type"));
  const char *name = json_string_value(json_object_get(choice, "name"));
  if (!type || strcmp(type, "function") != 0 || !name)
    return sv_refuse_value(fail, "tool_choice", choice,
                           "\"auto\", \"none\", \"required\" or an object of type \"function\" with a name");
  return sv_choose_function(name, to, fail);
}

/* --- the rest --- */

/* Log-probabilities are asked for by a word in `include`; top_logprobs alone asks for them, too. */
static bool sv_rsp_add_logprobs(const json_t *body, json_t *to, sv_fail *fail) {
  const json_t *include = sv_field(body, "include"), *word;
  bool wanted = false;
  size_t i;
  int64_t top = 0;
  if (include && !json_is_array(include)) return sv_refuse_value(fail, "include", include, "an array of names");
  json_array_foreach(include, i, word) {
    if (!json_is_string(word)) return sv_refuse_value(fail, "include", word, "an array of names");
    wanted |= !strcmp(json_string_value(word), "message.output_text.logprobs");
  }
  if (!sv_read_int(body, "top_logprobs", 0, GA_MAX_TOP_LOGPROBS, &top, fail)) return false;
  if (!wanted && !top) return true;
  return sv_set_new(to, "logprobs", json_true(), fail) && sv_set_new(to, "top_logprobs", json_integer(top), fail);
}

/* Templates know the effort under this name; models that can go without thinking know enable_thinking. */
static bool sv_rsp_add_reasoning(const json_t *body, json_t *to, sv_fail *fail) {
  const json_t *reasoning = sv_field(body, "reasoning");
  const char *effort = NULL;
  if (!reasoning || sv_field(to, "chat_template_kwargs")) return true;
  if (!json_is_object(reasoning)) return sv_refuse_value(fail, "reasoning", reasoning, "an object");
  if (!sv_read_string(reasoning, "effort", &effort, fail)) return false;
  if (!effort) return true;
  const bool thinks = strcmp(effort, "none") != 0;
  return sv_set_new(to, "chat_template_kwargs",
                    thinks ? json_pack("{s:s}", "reasoning_effort", effort) : json_pack("{s:b}", "enable_thinking", 0),
                    fail);
}

static bool sv_rsp_add_limit(const json_t *body, json_t *to, sv_fail *fail) {
  int64_t most = SV_NO_LIMIT;
  if (!sv_read_int(body, "max_output_tokens", 1, INT32_MAX, &most, fail)) return false;
  return most == SV_NO_LIMIT || sv_set_new(to, "max_tokens", json_integer(most), fail);
}

/* Fields of a chat that a response does not have, or has in another form. */
static void sv_rsp_drop_fields(json_t *to) {
  static const char *const dropped[] = {"input",
                                        "instructions",
                                        "text",
                                        "include",
                                        "reasoning",
                                        "metadata",
                                        "tools",
                                        "tool_choice",
                                        "n",
                                        "logprobs",
                                        "top_logprobs",
                                        "messages",
                                        "max_tokens",
                                        "max_completion_tokens",
                                        "stream_options",
                                        "prompt_logprobs",
                                        "documents",
                                        "response_format",
                                        "add_generation_prompt",
                                        "continue_final_message"};
  for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++) (void)json_object_del(to, dropped[i]);
}

/* Writes what a response repeats, with the defaults of fields that were not given. */
static bool sv_rsp_keep_fields(const json_t *body, sv_response *r, sv_fail *fail) {
  static const struct {
    const char *name, *otherwise; /* JSON */
  } kept[] = {{"instructions", "null"},
              {"max_output_tokens", "null"},
              {"max_tool_calls", "null"},
              {"metadata", "{}"},
              {"parallel_tool_calls", "true"},
              {"previous_response_id", "null"},
              {"reasoning", "{\"effort\":null,\"summary\":null}"},
              {"text", "{\"format\":{\"type\":\"text\"}}"},
              {"tool_choice", "\"auto\""},
              {"tools", "[]"},
              {"top_logprobs", "0"},
              {"user", "null"}};
  sv_text t = {0};
  sv_puts(&t, "\"background\":false,\"truncation\":\"disabled\",\"service_tier\":\"default\"");
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
    const json_t *v = sv_field(body, kept[i].name);
    char *given = v ? ga_json_dump(v, JSON_COMPACT | JSON_ENCODE_ANY | GA_JSON_FINITE) : NULL;
    if (v && !given) t.failed = true;
    sv_putf(&t, ",\"%s\":", kept[i].name);
    sv_puts(&t, given ? given : kept[i].otherwise);
    free(given);
  }
  sv_putf(&t, ",\"store\":%s", r->stores ? "true" : "false");
  r->fields = t.p;
  return !t.failed || sv_refuse_nomem(fail);
}

static bool sv_rsp_translate(const json_t *body, sv_response *r, json_t *to, sv_fail *fail) {
  const json_t *metadata = sv_field(body, "metadata");
  bool stores = true;
  if (metadata && !json_is_object(metadata)) return sv_refuse_value(fail, "metadata", metadata, "an object");
  if (!sv_read_bool(body, "store", &stores, fail)) return false;
  r->stores = stores && r->turns;
  return sv_rsp_check_absent(body, fail) && sv_rsp_add_messages(body, r, to, fail) &&
         sv_add_tools(body, to, "an array of functions", sv_rsp_add_tool, fail) && sv_rsp_add_choice(body, to, fail) &&
         sv_rsp_add_logprobs(body, to, fail) && sv_rsp_add_reasoning(body, to, fail) &&
         sv_rsp_add_limit(body, to, fail) && sv_rsp_keep_fields(body, r, fail);
}

bool sv_response_translate(json_t *body, sv_response *r, json_t **out, sv_fail *fail) {
  json_t *to = json_object();
  bool ok = (to && !json_object_update(to, body)) || sv_refuse_nomem(fail);
  if (ok) sv_rsp_drop_fields(to);
  ok = ok && sv_rsp_translate(body, r, to, fail);
  json_decref(body);
  if (!ok) json_decref(to);
  *out = ok ? to : NULL;
  return ok;
}
