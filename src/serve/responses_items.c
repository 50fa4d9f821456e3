/* Items of the Responses API as messages of a chat. */
#include <stdio.h>
#include <string.h>

#include "serve/request.h"
#include "serve/responses.h"
#include "text/json_io.h"

static const char *sv_item_word(const json_t *item, const char *key) {
  const char *word = json_string_value(json_object_get(item, key));
  return word ? word : "";
}

/* Collects the items of the assistant that become one message: reasoning, a text and calls. */
typedef struct sv_merged {
  json_t *messages;
  json_t *open; /* message that later items may join, owned by `messages`; NULL = none */
} sv_merged;

/* Returns the message that an item of the assistant joins. key: the member that the item fills, which no later one may
 * come before. NULL: no memory. */
static json_t *sv_join_assistant(sv_merged *m, const char *key, sv_fail *fail) {
  const bool is_reasoning = !strcmp(key, "reasoning_content"), is_text = !strcmp(key, "content");
  const json_t *calls = json_object_get(m->open, "tool_calls");
  const bool has_text =
      json_string_length(json_object_get(m->open, "content")) || json_is_array(json_object_get(m->open, "content"));
  const bool has_reasoning = json_object_get(m->open, "reasoning_content") != NULL;
  const bool joins =
      m->open && !(is_reasoning && (has_reasoning || has_text || calls)) && !(is_text && (has_text || calls));
  if (joins) return m->open;
  m->open = json_pack("{s:s,s:s}", "role", "assistant", "content", "");
  if (sv_append_new(m->messages, m->open, fail)) return m->open;
  m->open = NULL;
  return NULL;
}

/* Makes an array of text parts, as a chat has them, from a string or from parts. NULL: refused. */
static json_t *sv_text_parts(const char *name, const json_t *content, sv_fail *fail) {
  json_t *parts = json_array();
  bool ok = parts || sv_refuse_nomem(fail);
  if (ok && json_is_string(content)) {
    ok = sv_append_new(parts, json_pack("{s:s,s:O}", "type", "text", "text", content), fail);
  } else if (ok && !json_is_array(content)) {
    ok = content ? sv_refuse_value(fail, name, content, "a string or an array of parts")
                 : sv_refuse(fail, 400, NULL, name, "%s is missing.", name);
  }
  for (size_t i = 0; ok && i < json_array_size(content); i++) {
    const json_t *part = json_array_get(content, i);
    const char *type = sv_item_word(part, "type");
    const bool is_refusal = !strcmp(type, "refusal");
    json_t *text = json_object_get(part, is_refusal ? "refusal" : "text");
    if (!is_refusal && strcmp(type, "input_text") && strcmp(type, "output_text") && strcmp(type, "text") &&
        strcmp(type, "summary_text") && strcmp(type, "reasoning_text"))
      ok = sv_refuse(fail, 400, "unsupported_content", name,
                     "%s has a part of type \"%.40s\"; this model reads only text.", name, type);
    else if (!json_is_string(text))
      ok = sv_refuse_value(fail, name, part, "parts with a text, which is a string");
    else
      ok = sv_append_new(parts, json_pack("{s:s,s:O}", "type", "text", "text", text), fail);
  }
  if (ok) return parts;
  json_decref(parts);
  return NULL;
}

static bool sv_take_message(const json_t *item, sv_merged *m, sv_fail *fail) {
  const char *role = NULL;
  if (!sv_read_string(item, "role", &role, fail)) return false;
  if (!role ||
      (strcmp(role, "user") && strcmp(role, "assistant") && strcmp(role, "system") && strcmp(role, "developer")))
    return sv_refuse_value(fail, "input.role", json_object_get(item, "role"),
                           "\"user\", \"assistant\", \"system\" or \"developer\"");
  json_t *parts = sv_text_parts("input.content", sv_field(item, "content"), fail);
  if (!parts) return false;
  if (!strcmp(role, "assistant")) {
    json_t *message = sv_join_assistant(m, "content", fail);
    return message ? !json_object_set_new(message, "content", parts) || sv_refuse_nomem(fail)
                   : (json_decref(parts), false);
  }
  m->open = NULL;
  return sv_append_new(m->messages, json_pack("{s:s,s:o}", "role", role, "content", parts), fail);
}

static bool sv_take_call(const json_t *item, sv_merged *m, sv_fail *fail) {
  const char *id = NULL, *name = NULL, *arguments = NULL;
  if (!sv_read_string(item, "call_id", &id, fail) || !sv_read_string(item, "name", &name, fail) ||
      !sv_read_string(item, "arguments", &arguments, fail))
    return false;
  if (!id || !name || !arguments)
    return sv_refuse_value(fail, "input", item,
                           "function_call items with call_id, name and arguments, which are strings");
  json_t *message = sv_join_assistant(m, "tool_calls", fail);
  if (!message) return false;
  json_t *calls = json_object_get(message, "tool_calls");
  if (!calls) {
    calls = json_array();
    if (json_object_set_new(message, "tool_calls", calls)) return sv_refuse_nomem(fail);
  }
  return sv_append_new(calls,
                       json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", id, "type", "function", "function", "name", name,
                                 "arguments", arguments),
                       fail);
}

static bool sv_take_output(const json_t *item, sv_merged *m, sv_fail *fail) {
  const char *id = NULL;
  if (!sv_read_string(item, "call_id", &id, fail)) return false;
  if (!id) return sv_refuse_value(fail, "input", item, "function_call_output items with call_id and output");
  json_t *parts = sv_text_parts("input.output", sv_field(item, "output"), fail);
  if (!parts) return false;
  m->open = NULL;
  return sv_append_new(m->messages, json_pack("{s:s,s:s,s:o}", "role", "tool", "tool_call_id", id, "content", parts),
                       fail);
}

/* Takes reasoning in plain text. A model cannot read that of another server, which is encrypted. */
static bool sv_take_reasoning(const json_t *item, sv_merged *m, sv_fail *fail) {
  const json_t *content = sv_field(item, "content"), *part;
  sv_text text = {0};
  size_t i;
  json_t *parts = sv_text_parts("input.content", json_array_size(content) ? content : sv_field(item, "summary"), fail);
  if (!parts) return false;
  json_array_foreach(parts, i, part) {
    if (i) sv_puts(&text, "\n");
    sv_puts(&text, sv_item_word(part, "text"));
  }
  json_decref(parts);
  bool ok = !text.failed || sv_refuse_nomem(fail);
  if (ok && text.n) {
    json_t *message = sv_join_assistant(m, "reasoning_content", fail);
    ok = message &&
         (!json_object_set_new(message, "reasoning_content", json_stringn(text.p, text.n)) || sv_refuse_nomem(fail));
  }
  sv_text_free(&text);
  return ok;
}

static bool sv_take_item(const json_t *item, sv_merged *m, sv_fail *fail) {
  const char *type = sv_item_word(item, "type");
  if (!json_is_object(item)) return sv_refuse_value(fail, "input", item, "a string or an array of items");
  if (!*type || !strcmp(type, "message")) return sv_take_message(item, m, fail);
  if (!strcmp(type, "function_call")) return sv_take_call(item, m, fail);
  if (!strcmp(type, "function_call_output")) return sv_take_output(item, m, fail);
  if (!strcmp(type, "reasoning")) return sv_take_reasoning(item, m, fail);
  return sv_refuse(fail, 400, NULL, "input",
                   "input has an item of type \"%.40s\"; types that this server reads: message, function_call, "
                   "function_call_output, reasoning.",
                   type);
}

bool sv_response_add_items(const json_t *items, json_t *messages, sv_fail *fail) {
  sv_merged m = {.messages = messages};
  const size_t n = json_array_size(messages);
  if (n) {
    json_t *last = json_array_get(messages, n - 1);
    if (!strcmp(sv_item_word(last, "role"), "assistant")) m.open = last;
  }
  for (size_t i = 0; i < json_array_size(items); i++)
    if (!sv_take_item(json_array_get(items, i), &m, fail)) return false;
  return true;
}

/* Names the request's items: those without a type are messages. False: no memory. */
static bool sv_name_items(json_t *items, const char *id) {
  static const char *const prefixes[][2] = {
      {"function_call", "fc"}, {"function_call_output", "fco"}, {"reasoning", "rs"}};
  json_t *item;
  size_t i;
  json_array_foreach(items, i, item) {
    const char *type = sv_item_word(item, "type"), *prefix = "msg";
    char name[64];
    for (size_t k = 0; k < sizeof prefixes / sizeof prefixes[0]; k++)
      if (!strcmp(type, prefixes[k][0])) prefix = prefixes[k][1];
    (void)snprintf(name, sizeof name, "%s_%.32sin%04zx", prefix, id + strcspn(id, "_") + 1, i);
    if (!*type && json_object_set_new(item, "type", json_string("message"))) return false;
    if (!sv_field(item, "id") && json_object_set_new(item, "id", json_string(name))) return false;
  }
  return true;
}

char *sv_response_dump_input(sv_response *r, const char *id) {
  return sv_name_items(r->input, id) ? ga_json_dump(r->input, JSON_COMPACT) : NULL;
}
