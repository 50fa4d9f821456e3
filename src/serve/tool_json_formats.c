/* Calls as JSON objects: hermes, llama3 and mistral. */
#include "serve/tool_parser.h"

static const char *const hermes_end[] = {"</tool_call>"};

tool_step hermes_step(tool_parser *p, char c) {
  if (p->state == HERMES_OPEN) return c == '{' ? tool_enter_json(p, HERMES_CLOSE) : tool_space(p, c);
  switch (tool_match(p, hermes_end, 1, c)) {
  case 0: return TOOL_CALLS;
  case TOOL_MARKER_BEGUN: return TOOL_HOLD;
  default: return tool_space(p, c);
  }
}

static const char *const llama_tag[] = {"<|python_tag|>"};

tool_step llama_step(tool_parser *p, char c) {
  if (p->state == LLAMA_AFTER) return c == ';' ? tool_enter(p, LLAMA_OBJECT) : tool_space(p, c);
  if (c == '{' && !p->matched) return tool_enter_json(p, LLAMA_AFTER);
  if (p->state == LLAMA_OBJECT) return tool_space(p, c);
  switch (tool_match(p, llama_tag, 1, c)) {
  case 0: return tool_enter(p, LLAMA_OBJECT);
  case TOOL_MARKER_BEGUN: return TOOL_HOLD;
  default: return tool_space(p, c);
  }
}

static const char *const mistral_markers[] = {"[ARGS]", "[CALL_ID]"};

static bool is_ascii_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
static bool is_function_byte(char c) { return is_ascii_alnum(c) || c == '_' || c == '-' || c == '.'; }

/* Behind a name, or behind an id: the marker of the arguments, or of an id. */
static tool_step mistral_marker(tool_parser *p, char c) {
  const bool has_id = p->state == MISTRAL_ID;
  switch (tool_match(p, mistral_markers, has_id ? 1 : 2, c)) {
  case 0: return tool_enter(p, MISTRAL_ARGS);
  case 1: return tool_enter(p, MISTRAL_ID);
  case TOOL_MARKER_BEGUN: return TOOL_HOLD;
  default: return TOOL_FAIL;
  }
}

static tool_step mistral_name(tool_parser *p, char c) {
  if (is_function_byte(c)) return tool_bytes(p) - p->from <= TOOL_NAME_MAX ? TOOL_HOLD : TOOL_FAIL;
  if ((c != '[' && c != '{') || !tool_take_name(p, 1, p->name)) return TOOL_FAIL;
  if (c == '{') return tool_enter_json(p, MISTRAL_ARGS); /* a text without its special tokens */
  p->state = MISTRAL_MARKER;
  return mistral_marker(p, c);
}

tool_step mistral_step(tool_parser *p, char c) {
  switch (p->state) {
  case MISTRAL_OPEN:
    if (c == '[') return tool_enter(p, MISTRAL_ITEM);
    if (!is_function_byte(c)) return tool_space(p, c);
    (void)tool_enter(p, MISTRAL_NAME);
    p->from--;
    return TOOL_HOLD;
  case MISTRAL_ITEM: return c == '{' ? tool_enter_json(p, MISTRAL_AFTER) : tool_space(p, c);
  case MISTRAL_AFTER:
    if (c == ']') return TOOL_CALLS;
    return c == ',' ? tool_enter(p, MISTRAL_ITEM) : tool_space(p, c);
  case MISTRAL_NAME: return mistral_name(p, c);
  case MISTRAL_MARKER: return mistral_marker(p, c);
  case MISTRAL_ID:
    if (!p->matched && is_ascii_alnum(c)) return tool_bytes(p) - p->from <= TOOL_NAME_MAX ? TOOL_HOLD : TOOL_FAIL;
    return mistral_marker(p, c);
  default: return c == '{' ? tool_enter_json(p, MISTRAL_ARGS) : tool_space(p, c);
  }
}
