#include "serve/content.h"

#include <stdlib.h>
#include <string.h>

/* --- what the parsers call --- */

static void sv_on_content(void *user, const char *text, size_t n) {
  sv_content *c = user;
  sv_put(&c->content, text, n);
}

static void sv_on_call(void *user, size_t index, const char *name) {
  sv_content *c = user;
  (void)index; /* they come in order */
  sv_tool_call *calls = realloc(c->calls, (c->n_calls + 1) * sizeof *calls);
  char *copy = strdup(name);
  if (calls) c->calls = calls;
  if (!calls || !copy) {
    free(copy);
    c->failed = true;
    return;
  }
  calls[c->n_calls++] = (sv_tool_call){.name = copy};
}

static void sv_on_arguments(void *user, size_t index, const char *json, size_t n) {
  sv_content *c = user;
  if (index < c->n_calls) sv_put(&c->calls[index].arguments, json, n);
}

static void sv_on_call_end(void *user, size_t index) { (void)user, (void)index; }

/* Does the request declare this parameter as a string? */
static bool sv_is_string(void *user, const char *function, const char *parameter) {
  const sv_content *c = user;
  const json_t *tool;
  size_t i;
  json_array_foreach(c->tools, i, tool) {
    const json_t *f = json_object_get(tool, "function"), *name = json_object_get(f, "name");
    if (!json_is_string(name) || strcmp(json_string_value(name), function) != 0) continue;
    const json_t *properties = json_object_get(json_object_get(f, "parameters"), "properties");
    const json_t *type = json_object_get(json_object_get(properties, parameter), "type");
    return json_is_string(type) && !strcmp(json_string_value(type), "string");
  }
  return false;
}

static tool_sink sv_tool_sink(sv_content *c) {
  return (tool_sink){.user = c,
                     .content = sv_on_content,
                     .call_begin = sv_on_call,
                     .call_arguments = sv_on_arguments,
                     .call_end = sv_on_call_end,
                     .is_string = sv_is_string};
}

static void sv_on_answer(void *user, const char *text, size_t n) {
  sv_content *c = user;
  const tool_sink sink = sv_tool_sink(c);
  if (!c->parser)
    sv_put(&c->content, text, n);
  else if (tool_parser_push(c->parser, text, n, &sink) != GA_OK)
    c->failed = true;
}

static void sv_on_reasoning(void *user, const char *text, size_t n) {
  sv_content *c = user;
  sv_put(&c->reasoning, text, n);
}

/* --- from outside --- */

ga_status sv_content_init(sv_content *c, tool_format format, bool thinks, bool is_inside, const json_t *tools) {
  *c = (sv_content){.tools = tools};
  ga_status status = GA_OK;
  if (thinks) status = reasoning_create(is_inside, &c->splitter);
  if (status == GA_OK && format != TOOL_FORMAT_NONE) status = tool_parser_create(format, &c->parser);
  return status;
}

void sv_content_free(sv_content *c) {
  reasoning_destroy(c->splitter);
  tool_parser_destroy(c->parser);
  for (size_t i = 0; i < c->n_calls; i++) {
    free(c->calls[i].name);
    sv_text_free(&c->calls[i].arguments);
  }
  free(c->calls);
  sv_text_free(&c->content);
  sv_text_free(&c->reasoning);
  *c = (sv_content){0};
}

void sv_content_push(sv_content *c, const char *text, size_t n) {
  const reasoning_sink sink = {c, sv_on_reasoning, sv_on_answer};
  if (!n || c->failed) return;
  if (!c->splitter)
    sv_on_answer(c, text, n);
  else if (reasoning_push(c->splitter, text, n, &sink) != GA_OK)
    c->failed = true;
}

void sv_content_finish(sv_content *c) {
  const reasoning_sink sink = {c, sv_on_reasoning, sv_on_answer};
  const tool_sink calls = sv_tool_sink(c);
  if (c->failed) return;
  if (c->splitter) reasoning_finish(c->splitter, &sink);
  if (c->parser && !c->failed) tool_parser_finish(c->parser, &calls);
}

bool sv_content_has_news(const sv_content *c) { return c->content.n || c->reasoning.n || c->n_sent < c->n_calls; }

void sv_content_sent(sv_content *c) {
  sv_text_drop(&c->content, c->content.n);
  sv_text_drop(&c->reasoning, c->reasoning.n);
  c->n_sent = c->n_calls;
}

void sv_put_tool_calls(sv_text *t, const sv_content *c, const char *id, bool with_index) {
  sv_puts(t, "[");
  for (size_t i = c->n_sent; i < c->n_calls; i++) {
    const sv_tool_call *call = &c->calls[i];
    sv_puts(t, i > c->n_sent ? ",{" : "{");
    if (with_index) sv_putf(t, "\"index\":%zu,", i);
    sv_putf(t, "\"id\":\"call_%s%04zx\",\"type\":\"function\",\"function\":{\"name\":", id, i);
    sv_puts_json(t, call->name);
    sv_puts(t, ",\"arguments\":");
    sv_put_json(t, call->arguments.p ? call->arguments.p : "{}", call->arguments.p ? call->arguments.n : 2);
    sv_puts(t, "}}");
    if (call->arguments.failed) t->failed = true;
  }
  sv_puts(t, "]");
}
