/* Calls in tags, with values as plain text: qwen3_coder. */
#include <stdlib.h>
#include <string.h>

#include "serve/tool_parser.h"
#include "text/json_io.h"

static const char *const open_tag[] = {"<function="};
static const char *const body_tags[] = {"<parameter=", "</function>"};
static const char *const value_tag[] = {"</parameter>"};
static const char *const close_tag[] = {"</tool_call>"};

/* A number, true, false or null; NULL: something else. */
static json_t *load_scalar(const char *text, size_t bytes, bool *no_memory) {
  json_error_t e;
  if (!bytes || !memchr("-0123456789tfn", text[0], 14) || is_json_space(text[bytes - 1])) return NULL;
  if (bytes > 1 && text[1] == 'I') return NULL; /* -Infinity is no JSON for most clients */
  json_t *value = ga_json_load(text, bytes, JSON_DECODE_ANY | GA_JSON_PYTHON, &e);
  if (!value && json_error_code(&e) == json_error_out_of_memory) *no_memory = true;
  return value;
}

/* NULL: text that is not UTF-8, or no memory. */
static json_t *coder_value_of(tool_parser *p, const char *text, size_t bytes) {
  const tool_sink *sink = p->sink;
  json_t *value = NULL;
  if (!sink->is_string || !sink->is_string(sink->user, p->name, p->key)) {
    value = load_scalar(text, bytes, &p->no_memory);
    if (!value) value = tool_json_load(text, bytes, &p->no_memory);
  }
  if (value || p->no_memory || !ga_json_is_utf8(text, bytes)) return value;
  value = json_stringn_nocheck(text, bytes);
  if (!value) p->no_memory = true;
  return value;
}

/* Puts the value at hand, without its tag and the line breaks at its ends, in its place. */
static bool take_value(tool_parser *p) {
  const char *text = tool_text(p) + p->from;
  size_t bytes = tool_bytes(p) - p->from - strlen(value_tag[0]);
  if (bytes && text[0] == '\n') text++, bytes--;
  if (bytes && text[bytes - 1] == '\n') bytes--;
  json_t *value = coder_value_of(p, text, bytes);
  if (!value) return false;
  if (!ga_json_is_utf8(p->key, strlen(p->key))) {
    json_decref(value);
    return false;
  }
  if (!json_object_get(p->params, p->key)) {
    p->no_memory |= json_object_set_new_nocheck(p->params, p->key, value) != 0;
    return !p->no_memory;
  }
  json_decref(value); /* named twice: which of the values is meant is unknown */
  return false;
}

static tool_step coder_value(tool_parser *p, char c) {
  int found = tool_match(p, value_tag, 1, c);
  if (found == TOOL_MARKER_NONE && p->matched) {
    p->matched = 0; /* '<' is nowhere else in the tag */
    found = tool_match(p, value_tag, 1, c);
  }
  if (found != 0) return TOOL_HOLD;
  p->matched = 0;
  return take_value(p) ? tool_enter(p, CODER_BODY) : TOOL_FAIL;
}

/* A name up to '>'. */
static tool_step coder_name(tool_parser *p, char c, char *name, tool_state next) {
  if (c != '>') return c != '<' && tool_bytes(p) - p->from <= TOOL_NAME_MAX ? TOOL_HOLD : TOOL_FAIL;
  return tool_take_name(p, 1, name) ? tool_enter(p, next) : TOOL_FAIL;
}

static tool_step end_function(tool_parser *p) {
  char *json = ga_json_dump(p->params, JSON_COMPACT);
  if (!json) p->no_memory = true;
  if (!json || !tool_queue(p, p->name, 0, 0, json)) return TOOL_FAIL;
  return tool_enter(p, CODER_CLOSE);
}

static tool_step coder_body(tool_parser *p, char c) {
  if (!p->params) p->params = json_object();
  if (!p->params) p->no_memory = true;
  switch (p->params ? tool_match(p, body_tags, 2, c) : TOOL_MARKER_NONE) {
  case 0: return tool_enter(p, CODER_KEY);
  case 1: p->matched = 0; return end_function(p);
  case TOOL_MARKER_BEGUN: return TOOL_HOLD;
  default: return tool_space(p, c);
  }
}

static tool_step coder_close(tool_parser *p, char c) {
  switch (tool_match(p, close_tag, 1, c)) {
  case 0: return TOOL_CALLS;
  case TOOL_MARKER_BEGUN: return TOOL_HOLD;
  default: break;
  }
  if (tool_space(p, c) == TOOL_HOLD) return TOOL_HOLD;
  return p->is_wrapped ? TOOL_FAIL : TOOL_CALLS_BEFORE;
}

tool_step coder_step(tool_parser *p, char c) {
  switch (p->state) {
  case CODER_OPEN: {
    const int found = tool_match(p, open_tag, 1, c);
    if (found == 0) return tool_enter(p, CODER_NAME);
    return found == TOOL_MARKER_BEGUN ? TOOL_HOLD : tool_space(p, c);
  }
  case CODER_NAME: return coder_name(p, c, p->name, CODER_BODY);
  case CODER_BODY: return coder_body(p, c);
  case CODER_KEY: return coder_name(p, c, p->key, CODER_VALUE);
  case CODER_VALUE: return coder_value(p, c);
  default: return coder_close(p, c);
  }
}
