/* From the body of POST /v1/messages to that of a chat. */
#include <string.h>

#include "serve/anthropic.h"
#include "serve/request.h"

static const char *sv_ant_type(const json_t *block) {
  const char *type = json_string_value(json_object_get(block, "type"));
  return type ? type : "";
}

/* A string, or an array of text blocks: a chat takes both as they are. */
static bool sv_ant_check_text(const char *name, const json_t *v, sv_fail *fail) {
  const json_t *block;
  size_t i;
  if (json_is_string(v)) return true;
  if (!json_is_array(v)) return sv_refuse_value(fail, name, v, "a string or an array of text blocks");
  json_array_foreach(v, i, block) {
    if (strcmp(sv_ant_type(block), "text") != 0)
      return sv_refuse(fail, 400, NULL, name, "%s has a block of type \"%.40s\"; this model reads only text.", name,
                       sv_ant_type(block));
  }
  return true;
}

/* --- blocks of a message --- */

typedef struct sv_ant_parts {
  json_t *texts, *calls, *messages; /* text blocks, tool calls, and the messages of the chat so far */
  const char *reasoning;
} sv_ant_parts;

static bool sv_ant_take_use(const json_t *block, sv_ant_parts *p, sv_fail *fail) {
  const char *id = NULL, *name = NULL;
  json_t *input = json_object_get(block, "input");
  if (!sv_read_string(block, "id", &id, fail) || !sv_read_string(block, "name", &name, fail)) return false;
  if (!id || !name || !sv_is_object(input))
    return sv_refuse_value(fail, "messages", block, "tool_use blocks with id, name and input, which is an object");
  return sv_append_new(
      p->calls,
      json_pack("{s:s,s:s,s:{s:s,s:O}}", "id", id, "type", "function", "function", "name", name, "arguments", input),
      fail);
}

static bool sv_ant_take_result(const json_t *block, sv_ant_parts *p, sv_fail *fail) {
  const char *id = NULL;
  json_t *content = json_object_get(block, "content");
  if (!sv_read_string(block, "tool_use_id", &id, fail)) return false;
  if (!id) return sv_refuse_value(fail, "messages", block, "tool_result blocks with tool_use_id");
  const bool is_empty = !content || json_is_null(content);
  if (!is_empty && !sv_ant_check_text("tool_result", content, fail)) return false;
  json_t *message = json_pack("{s:s,s:s}", "role", "tool", "tool_call_id", id);
  if (message && (is_empty ? json_object_set_new(message, "content", json_string(""))
                           : json_object_set(message, "content", content))) {
    json_decref(message);
    message = NULL;
  }
  return sv_append_new(p->messages, message, fail);
}

static bool sv_ant_take_block(json_t *block, bool is_assistant, sv_ant_parts *p, sv_fail *fail) {
  const char *type = sv_ant_type(block);
  if (!strcmp(type, "text")) return sv_append_new(p->texts, json_incref(block), fail);
  if (!is_assistant && !strcmp(type, "tool_result")) return sv_ant_take_result(block, p, fail);
  if (is_assistant && !strcmp(type, "tool_use")) return sv_ant_take_use(block, p, fail);
  if (is_assistant && !strcmp(type, "thinking")) return sv_read_string(block, "thinking", &p->reasoning, fail);
  if (is_assistant && !strcmp(type, "redacted_thinking")) return true;
  return sv_refuse(fail, 400, NULL, "messages",
                   "messages has a block of type \"%.40s\" from the %s; those that this model reads are %s.", type,
                   is_assistant ? "assistant" : "user",
                   is_assistant ? "text, tool_use and thinking" : "text and tool_result");
}

/* Tool results are messages of their own in a chat; they stand before the user's text. */
static bool sv_ant_add_parts(const char *role, const sv_ant_parts *p, size_t n_before, sv_fail *fail) {
  const bool has_texts = json_array_size(p->texts), has_calls = json_array_size(p->calls);
  if (!has_texts && !has_calls && json_array_size(p->messages) > n_before) return true;
  json_t *message = json_pack("{s:s}", "role", role);
  bool ok = message && !(has_texts ? json_object_set(message, "content", p->texts)
                                   : json_object_set_new(message, "content", json_string("")));
  if (ok && has_calls) ok = !json_object_set(message, "tool_calls", p->calls);
  if (ok && p->reasoning) ok = !json_object_set_new(message, "reasoning_content", json_string(p->reasoning));
  if (ok) return sv_append_new(p->messages, message, fail);
  json_decref(message);
  return sv_refuse_nomem(fail);
}

static bool sv_ant_add_blocks(const char *role, const json_t *content, json_t *messages, sv_fail *fail) {
  sv_ant_parts p = {.texts = json_array(), .calls = json_array(), .messages = messages};
  const bool is_assistant = !strcmp(role, "assistant");
  const size_t n_before = json_array_size(messages);
  bool ok = (p.texts && p.calls) || sv_refuse_nomem(fail);
  for (size_t i = 0; ok && i < json_array_size(content); i++)
    ok = sv_ant_take_block(json_array_get(content, i), is_assistant, &p, fail);
  ok = ok && sv_ant_add_parts(role, &p, n_before, fail);
  json_decref(p.texts);
  json_decref(p.calls);
  return ok;
}

static bool sv_ant_add_message(const json_t *m, json_t *messages, sv_fail *fail) {
  const char *role = NULL;
  json_t *content = json_object_get(m, "content");
  if (!sv_is_object(m)) return sv_refuse_value(fail, "messages", m, "an array of objects");
  if (!sv_read_string(m, "role", &role, fail)) return false;
  if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0))
    return sv_refuse_value(fail, "role", json_object_get(m, "role"), "\"user\" or \"assistant\"");
  if (json_is_array(content)) return sv_ant_add_blocks(role, content, messages, fail);
  if (!json_is_string(content))
    return sv_refuse_value(fail, "content", content, "a string or an array of blocks in each message");
  return sv_append_new(messages, json_pack("{s:s,s:O}", "role", role, "content", content), fail);
}

static bool sv_ant_add_messages(const json_t *body, json_t *to, sv_fail *fail) {
  const json_t *given = sv_field(body, "messages");
  json_t *system = json_object_get(body, "system"), *messages = json_array();
  if (!sv_set_new(to, "messages", messages, fail)) return false;
  if (!given) return sv_refuse(fail, 400, NULL, "messages", "messages is missing.");
  if (!json_is_array(given) || !json_array_size(given) || json_array_size(given) > SV_MAX_MESSAGES)
    return sv_refuse_value(fail, "messages", given, "an array of 1 to 65536 messages");
  if (system && !json_is_null(system)) {
    if (!sv_ant_check_text("system", system, fail)) return false;
    const bool is_empty = json_is_array(system) && !json_array_size(system);
    if (!is_empty && !sv_append_new(messages, json_pack("{s:s,s:O}", "role", "system", "content", system), fail))
      return false;
  }
  for (size_t i = 0; i < json_array_size(given); i++)
    if (!sv_ant_add_message(json_array_get(given, i), messages, fail)) return false;
  return true;
}

/* --- tools --- */

static bool sv_ant_add_tool(const json_t *tool, json_t *tools, sv_fail *fail) {
  const char *name = NULL, *description = NULL, *type = sv_ant_type(tool);
  json_t *schema = json_object_get(tool, "input_schema");
  if (*type && strcmp(type, "custom") != 0)
    return sv_refuse(fail, 400, NULL, "tools", "tools has one of type \"%.40s\"; this server has no tools of its own.",
                     type);
  if (!sv_read_string(tool, "name", &name, fail) || !sv_read_string(tool, "description", &description, fail))
    return false;
  if (!name || !sv_is_object(schema))
    return sv_refuse_value(fail, "tools", tool, "{\"name\":\"...\",\"input_schema\":{...}}");
  return sv_append_new(tools,
                       json_pack("{s:s,s:{s:s,s:s,s:O}}", "type", "function", "function", "name", name, "description",
                                 description ? description : "", "parameters", schema),
                       fail);
}

static bool sv_ant_add_choice(const json_t *body, json_t *to, sv_fail *fail) {
  static const char *const words[][2] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
  const json_t *choice = sv_field(body, "tool_choice");
  const char *type = sv_ant_type(choice), *name = NULL;
  if (!choice) return true;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (!strcmp(type, words[i][0])) return sv_set_new(to, "tool_choice", json_string(words[i][1]), fail);
  if (!sv_read_string(choice, "name", &name, fail)) return false;
  if (strcmp(type, "tool") != 0 || !name)
    return sv_refuse_value(fail, "tool_choice", choice,
                           "an object of type \"auto\", \"any\", \"none\", or \"tool\" with a name");
  return sv_choose_function(name, to, fail);
}

/* --- the rest --- */

static bool sv_ant_add_stops(const json_t *body, json_t *to, sv_fail *fail) {
  json_t *stops = json_object_get(body, "stop_sequences");
  if (!stops || json_is_null(stops)) return true;
  if (!json_is_array(stops)) return sv_refuse_value(fail, "stop_sequences", stops, "an array of strings");
  return sv_set_new(to, "stop", json_incref(stops), fail);
}

/* Templates of models that can go without thinking know it as enable_thinking. */
static bool sv_ant_add_thinking(const json_t *body, json_t *to, sv_fail *fail) {
  const json_t *thinking = sv_field(body, "thinking");
  if (!thinking || sv_field(to, "chat_template_kwargs")) return true;
  if (!sv_is_object(thinking)) return sv_refuse_value(fail, "thinking", thinking, "an object with a type");
  const bool thinks = strcmp(sv_ant_type(thinking), "disabled") != 0;
  return sv_set_new(to, "chat_template_kwargs", json_pack("{s:b}", "enable_thinking", thinks), fail);
}

static bool sv_ant_check_format(const json_t *body, sv_fail *fail) {
  static const char *const names[] = {"output_format", "output_config"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const json_t *v = sv_field(body, names[i]);
    if (v && (i == 0 || sv_field(v, "format")))
      return sv_refuse(fail, 422, NULL, names[i],
                       "%s is not supported: this server cannot constrain what is generated.", names[i]);
  }
  return true;
}

/* Fields that only a chat of OpenAI has do not change a message. */
static void sv_ant_drop_fields(json_t *to) {
  static const char *const dropped[] = {"system",
                                        "stop_sequences",
                                        "thinking",
                                        "metadata",
                                        "tools",
                                        "tool_choice",
                                        "n",
                                        "logprobs",
                                        "top_logprobs",
                                        "stop",
                                        "stream_options",
                                        "prompt_logprobs",
                                        "documents",
                                        "user",
                                        "max_completion_tokens",
                                        "output_config",
                                        "add_generation_prompt",
                                        "continue_final_message"};
  for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++) (void)json_object_del(to, dropped[i]);
}

bool sv_ant_translate(json_t *body, bool counts, json_t **out, sv_fail *fail) {
  json_t *to = json_object();
  int64_t most = 0;
  bool ok = (to && !json_object_update(to, body)) || sv_refuse_nomem(fail);
  if (ok) sv_ant_drop_fields(to);
  ok = ok &&
       (counts || sv_field(body, "max_tokens") || sv_refuse(fail, 400, NULL, "max_tokens", "max_tokens is missing."));
  ok = ok && sv_read_int(body, "max_tokens", 0, INT32_MAX, &most, fail);
  ok = ok && sv_ant_check_format(body, fail) && sv_ant_add_messages(body, to, fail) &&
       sv_add_tools(body, to, "an array of tools", sv_ant_add_tool, fail) && sv_ant_add_choice(body, to, fail) &&
       sv_ant_add_stops(body, to, fail) && sv_ant_add_thinking(body, to, fail) &&
       sv_continue_last(json_object_get(to, "messages"), to, fail);
  json_decref(body);
  if (!ok) json_decref(to);
  *out = ok ? to : NULL;
  return ok;
}
