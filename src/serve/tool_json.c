#include "serve/tool_json.h"

#include <stdlib.h>
#include <string.h>

#include "serve/held_text.h"
#include "text/json_io.h"

/* What may come next. */
enum {
  SCAN_START,       /* the opening brace or bracket */
  SCAN_FIRST_KEY,   /* a key or the end of the object */
  SCAN_KEY,         /* a key */
  SCAN_IN_KEY,      /* the rest of a key */
  SCAN_COLON,       /* the colon behind a key */
  SCAN_FIRST_VALUE, /* a value or the end of the array */
  SCAN_VALUE,       /* a value */
  SCAN_IN_STRING,   /* the rest of a string */
  SCAN_IN_WORD,     /* the rest of a number, true, false or null, or what follows a value */
  SCAN_AFTER,       /* a comma or the end */
};

static bool is_word_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
}

static tool_json_result scan_open(tool_json_scan *s, bool object) {
  if (s->depth == TOOL_JSON_DEPTH_MAX) return TOOL_JSON_BAD;
  s->is_object[s->depth++] = object;
  s->state = object ? SCAN_FIRST_KEY : SCAN_FIRST_VALUE;
  return TOOL_JSON_MORE;
}

static tool_json_result scan_close(tool_json_scan *s, bool object) {
  if (s->is_object[s->depth - 1] != object) return TOOL_JSON_BAD;
  s->state = SCAN_AFTER;
  return --s->depth ? TOOL_JSON_MORE : TOOL_JSON_DONE;
}

static tool_json_result scan_string(tool_json_scan *s, char c, int after) {
  if ((unsigned char)c < 0x20) return TOOL_JSON_BAD;
  if (s->escaped)
    s->escaped = false;
  else if (c == '\\')
    s->escaped = true;
  else if (c == '"')
    s->state = after;
  return TOOL_JSON_MORE;
}

static tool_json_result scan_value(tool_json_scan *s, char c) {
  if (++s->values > TOOL_JSON_VALUES_MAX) return TOOL_JSON_BAD;
  if (c == '{' || c == '[') return scan_open(s, c == '{');
  if (c != '"' && !is_word_byte(c)) return TOOL_JSON_BAD;
  s->state = c == '"' ? SCAN_IN_STRING : SCAN_IN_WORD;
  return TOOL_JSON_MORE;
}

static tool_json_result scan_after(tool_json_scan *s, char c) {
  if (c == '}' || c == ']') return scan_close(s, c == '}');
  if (c != ',') return TOOL_JSON_BAD;
  s->state = s->is_object[s->depth - 1] ? SCAN_KEY : SCAN_VALUE;
  return TOOL_JSON_MORE;
}

static tool_json_result scan_expect(tool_json_scan *s, char c, char want, int next) {
  s->state = next;
  return c == want ? TOOL_JSON_MORE : TOOL_JSON_BAD;
}

tool_json_result tool_json_byte(tool_json_scan *s, char c) {
  if (s->state == SCAN_IN_KEY) return scan_string(s, c, SCAN_COLON);
  if (s->state == SCAN_IN_STRING) return scan_string(s, c, SCAN_AFTER);
  if (s->state == SCAN_IN_WORD) {
    if (is_word_byte(c)) return TOOL_JSON_MORE;
    s->state = SCAN_AFTER;
  }
  if (s->state != SCAN_START && is_json_space(c)) return TOOL_JSON_MORE;
  switch (s->state) {
  case SCAN_START: return c == '{' || c == '[' ? scan_value(s, c) : TOOL_JSON_BAD;
  case SCAN_FIRST_KEY: return c == '}' ? scan_close(s, true) : scan_expect(s, c, '"', SCAN_IN_KEY);
  case SCAN_KEY: return scan_expect(s, c, '"', SCAN_IN_KEY);
  case SCAN_COLON: return scan_expect(s, c, ':', SCAN_VALUE);
  case SCAN_FIRST_VALUE: return c == ']' ? scan_close(s, false) : scan_value(s, c);
  case SCAN_VALUE: return scan_value(s, c);
  default: return scan_after(s, c);
  }
}

bool tool_json_is_name(const char *name, size_t bytes) {
  if (!bytes || bytes > TOOL_NAME_MAX) return false;
  for (size_t i = 0; i < bytes; i++)
    if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) return false;
  return true;
}

static bool is_key(const char *text, size_t from, size_t to, const char *key) {
  return to - from == strlen(key) && !memcmp(text + from, key, to - from);
}

/* Where the object of the arguments stands in the text of a call. */
static bool find_arguments(const char *text, size_t bytes, tool_json_call *call) {
  tool_json_scan scan = {0};
  size_t key = 0, key_end = 0, opened = 0;
  for (size_t i = 0; i < bytes; i++) {
    const uint32_t depth = scan.depth;
    const int state = scan.state;
    if (tool_json_byte(&scan, text[i]) == TOOL_JSON_BAD) return false;
    if (scan.depth == 1 && scan.state == SCAN_IN_KEY && state != SCAN_IN_KEY) key = i;
    if (scan.depth == 1 && scan.state == SCAN_COLON && state == SCAN_IN_KEY) key_end = i + 1;
    if (depth == 1 && scan.depth == 2) opened = i;
    if (depth == 2 && scan.depth == 1 && text[i] == '}' &&
        (is_key(text, key, key_end, "\"arguments\"") || is_key(text, key, key_end, "\"parameters\""))) {
      call->from = opened;
      call->bytes = i + 1 - opened;
      return true;
    }
  }
  return false;
}

/* The members of a call are known ones, each once. */
static bool has_members_of_call(json_t *object) {
  const char *key;
  json_t *value;
  size_t arguments = 0;
  json_object_foreach(object, key, value) {
    if (!strcmp(key, "arguments") || !strcmp(key, "parameters"))
      arguments += json_is_object(value) ? 1 : 2;
    else if (strcmp(key, "name") && strcmp(key, "id") && strcmp(key, "type"))
      return false;
  }
  return arguments == 1;
}

/* Integers beyond 64 bits are JSON, too: as doubles they pass. The text of the arguments is given out as it stands. */
#define LOAD_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL)

static json_t *load_tool_json(const char *text, size_t bytes, size_t flags, bool *no_memory) {
  json_error_t e;
  json_t *value = ga_json_load(text, bytes, flags, &e);
  if (!value && json_error_code(&e) == json_error_out_of_memory) *no_memory = true;
  return value;
}

bool tool_json_read_call(const char *text, size_t bytes, tool_json_call *call, bool *no_memory) {
  *call = (tool_json_call){0};
  json_t *object = load_tool_json(text, bytes, LOAD_FLAGS, no_memory);
  const json_t *name = json_object_get(object, "name");
  if (json_is_object(object) && json_is_string(name) && has_members_of_call(object) &&
      tool_json_is_name(json_string_value(name), json_string_length(name)) && find_arguments(text, bytes, call)) {
    call->name = strdup(json_string_value(name));
    if (!call->name) *no_memory = true;
  }
  json_decref(object);
  return call->name != NULL;
}

json_t *tool_json_load(const char *text, size_t bytes, bool *no_memory) {
  tool_json_scan scan = {0};
  for (size_t i = 0; i < bytes; i++)
    if (tool_json_byte(&scan, text[i]) != (i + 1 == bytes ? TOOL_JSON_DONE : TOOL_JSON_MORE)) return NULL;
  return bytes ? load_tool_json(text, bytes, JSON_REJECT_DUPLICATES | GA_JSON_PYTHON, no_memory) : NULL;
}
