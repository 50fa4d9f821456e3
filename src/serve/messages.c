/* Messages of a chat as a template wants them. */
#include <stdlib.h>
#include <string.h>

#include "serve/names.h"
#include "serve/request.h"
#include "text/json_io.h"

/* The text of [{"type":"text","text":...}, ...], parts joined by line ends, as templates with plain content expect. */
static json_t *sv_join_parts(const json_t *parts, sv_fail *fail) {
  sv_text t = {0};
  const json_t *part;
  size_t i;
  sv_put(&t, "", 0);
  json_array_foreach(parts, i, part) {
    const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
    if (json_is_string(type) && strcmp(json_string_value(type), "text") != 0) {
      (void)sv_refuse(fail, 400, "unsupported_content", "messages",
                      "messages has a content part of type \"%.40s\"; this model reads only text.",
                      json_string_value(type));
      break;
    }
    if (!json_is_string(text)) {
      (void)sv_refuse_value(fail, "messages", part, "content parts of the form {\"type\":\"text\",\"text\":\"...\"}");
      break;
    }
    if (i) sv_put(&t, "\n", 1);
    sv_put(&t, json_string_value(text), json_string_length(text));
  }
  json_t *joined = fail->http || t.failed ? NULL : json_stringn(t.p, t.n);
  if (!joined && !fail->http) (void)sv_refuse_nomem(fail);
  sv_text_free(&t);
  return joined;
}

/* Reads the arguments of a call; "", null and absent ones are {}. The caller releases the result with json_decref.
 * NULL: the text is no JSON, or *no_memory is set. */
static json_t *sv_arguments_of(const json_t *given, bool *no_memory) {
  const char *text = json_is_string(given) ? json_string_value(given) : "";
  const size_t n = json_string_length(given);
  json_t *open = NULL;
  if (strspn(text, " \t\r\n") < n) {
    json_error_t e;
    open = ga_json_load(text, n, GA_JSON_PYTHON | JSON_DECODE_ANY, &e);
    *no_memory = !open && json_error_code(&e) == json_error_out_of_memory;
    if (!open) return NULL;
  }
  if (sv_is_object(open) || (open && !json_is_null(open))) return open;
  json_decref(open);
  open = json_object();
  *no_memory = !open;
  return open;
}

/* Templates go over the arguments of a call as an object; clients send them as text. */
static bool sv_open_arguments(json_t *calls, sv_fail *fail) {
  json_t *call;
  size_t i;
  if (!json_is_array(calls)) return sv_refuse_value(fail, "tool_calls", calls, "an array");
  json_array_foreach(calls, i, call) {
    json_t *function = json_object_get(call, "function");
    const json_t *arguments = json_object_get(function, "arguments");
    if (!sv_is_object(function)) return sv_refuse_value(fail, "tool_calls", call, "objects with a function");
    if (!sv_check_function("tool_calls.function.name", json_object_get(function, "name"), fail)) return false;
    if (arguments && !json_is_string(arguments) && !json_is_null(arguments)) continue;
    bool no_memory = false;
    json_t *open = sv_arguments_of(arguments, &no_memory);
    if (sv_is_object(open)) no_memory = json_object_set(function, "arguments", open) != 0;
    json_decref(open);
    if (no_memory) return sv_refuse_nomem(fail);
  }
  return true;
}

static bool sv_fix_message(json_t *m, size_t i, sv_fail *fail) {
  if (!sv_is_object(m)) return sv_refuse_value(fail, "messages", m, "an array of objects");
  const json_t *given = sv_field(m, "role"), *name = sv_field(m, "name");
  if (!given) return sv_refuse(fail, 400, NULL, "messages", "messages[%zu] has no role.", i);
  if (!sv_check_role(given, fail)) return false;
  const char *role = json_string_value(given);
  const bool is_result = !strcmp(role, "tool") || !strcmp(role, "function");
  if (name && is_result && !sv_check_function("messages.name", name, fail)) return false;
  json_t *content = json_object_get(m, "content"), *calls = json_object_get(m, "tool_calls");
  if (calls && !json_is_null(calls) && !sv_open_arguments(calls, fail)) return false;
  if (json_is_array(content)) {
    json_t *joined = sv_join_parts(content, fail);
    if (!joined) return false;
    return !json_object_set_new(m, "content", joined) || sv_refuse_nomem(fail);
  }
  if (content && !json_is_string(content) && !json_is_null(content))
    return sv_refuse_value(fail, "messages.content", content, "a string or an array of text parts");
  if (!json_is_string(content) && !calls && strcmp(role, "assistant") != 0)
    return sv_refuse(fail, 400, NULL, "messages", "messages[%zu] of role \"%.40s\" has no content.", i, role);
  /* Templates add texts: what is absent is the empty one. */
  if (!json_is_string(content)) return !json_object_set_new(m, "content", json_string("")) || sv_refuse_nomem(fail);
  return true;
}

static bool sv_add_messages(const json_t *body, json_t *context, sv_fail *fail) {
  const json_t *given = sv_field(body, "messages");
  if (!given) return sv_refuse(fail, 400, "missing_required_parameter", "messages", "messages is missing.");
  if (!json_is_array(given) || !json_array_size(given) || json_array_size(given) > SV_MAX_MESSAGES)
    return sv_refuse_value(fail, "messages", given, "an array of 1 to 65536 messages");
  json_t *messages = ga_json_copy(given), *m;
  size_t i;
  if (!messages || json_object_set_new(context, "messages", messages)) return sv_refuse_nomem(fail);
  json_array_foreach(messages, i, m) {
    if (!sv_fix_message(m, i, fail)) return false;
  }
  return true;
}

static bool sv_add_variables(json_t *body, json_t *context, sv_fail *fail) {
  json_t *kwargs = json_object_get(body, "chat_template_kwargs"), *tools = json_object_get(body, "tools");
  json_t *documents = json_object_get(body, "documents");
  if (kwargs && !json_is_null(kwargs)) {
    if (!sv_is_object(kwargs)) return sv_refuse_value(fail, "chat_template_kwargs", kwargs, "an object");
    if (!sv_check_variables(kwargs, fail)) return false;
    if (json_object_update(context, kwargs)) return sv_refuse_nomem(fail);
  }
  if (tools && !json_is_null(tools)) {
    const json_t *tool;
    size_t i;
    if (!json_is_array(tools)) return sv_refuse_value(fail, "tools", tools, "an array of functions");
    json_array_foreach(tools, i, tool) {
      const json_t *name = json_object_get(json_object_get(tool, "function"), "name");
      if (!json_is_string(name))
        return sv_refuse_value(fail, "tools", tool, "{\"type\":\"function\",\"function\":{\"name\":\"...\"}}");
      if (!sv_check_function("tools.function.name", name, fail)) return false;
    }
    if (i && json_object_set(context, "tools", tools)) return sv_refuse_nomem(fail);
    json_t *choice = json_object_get(body, "tool_choice");
    if (i && choice && !json_is_null(choice) && json_object_set(context, "tool_choice", choice))
      return sv_refuse_nomem(fail);
  }
  if (json_is_array(documents) && json_object_set(context, "documents", documents)) return sv_refuse_nomem(fail);
  return true;
}

bool sv_chat_context(const json_t *body, json_t **out, bool *continue_final, sv_fail *fail) {
  bool asked = false, go_on = false;
  json_t *context = *out = json_object();
  if (!context) return sv_refuse_nomem(fail);
  if (!sv_read_bool(body, "add_generation_prompt", &asked, fail) ||
      !sv_read_bool(body, "continue_final_message", &go_on, fail))
    return false;
  if (asked && go_on)
    return sv_refuse(fail, 400, NULL, "continue_final_message",
                     "continue_final_message and add_generation_prompt cannot both be true.");
  const bool opens = sv_field(body, "add_generation_prompt") ? asked : !go_on;
  *continue_final = go_on;
  if (!sv_add_variables((json_t *)(uintptr_t)body, context, fail)) return false;
  if (json_object_set_new(context, "add_generation_prompt", json_boolean(opens)) ||
      json_object_set_new(context, "continue_final_message", json_boolean(go_on)))
    return sv_refuse_nomem(fail);
  return sv_add_messages(body, context, fail);
}

/* --- other interfaces --- */

bool sv_continue_last(const json_t *messages, json_t *chat, sv_fail *fail) {
  const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
  const char *role = json_string_value(json_object_get(last, "role"));
  if (!role || strcmp(role, "assistant") != 0 || json_object_get(last, "tool_calls")) return true;
  return sv_set_new(chat, "continue_final_message", json_true(), fail);
}

bool sv_add_tools(const json_t *body, json_t *chat, const char *allowed,
                  bool (*add)(const json_t *tool, json_t *tools, sv_fail *fail), sv_fail *fail) {
  const json_t *given = sv_field(body, "tools");
  if (!given) return true;
  json_t *tools = json_array();
  if (!sv_set_new(chat, "tools", tools, fail)) return false;
  if (!json_is_array(given)) return sv_refuse_value(fail, "tools", given, allowed);
  for (size_t i = 0; i < json_array_size(given); i++)
    if (!add(json_array_get(given, i), tools, fail)) return false;
  return true;
}

bool sv_choose_function(const char *name, json_t *chat, sv_fail *fail) {
  return sv_set_new(chat, "tool_choice", json_pack("{s:s,s:{s:s}}", "type", "function", "function", "name", name),
                    fail);
}
