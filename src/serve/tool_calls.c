#include "serve/tool_calls.h"

#include <stdlib.h>
#include <string.h>

#include "serve/tool_parser.h"

/* --- parts of the markup --- */

tool_step tool_enter(tool_parser *p, tool_state state) {
  p->state = state;
  p->matched = p->spaces = 0;
  p->from = tool_bytes(p);
  return TOOL_HOLD;
}

tool_step tool_enter_json(tool_parser *p, tool_state after) {
  (void)tool_enter(p, TOOL_JSON);
  p->after = after;
  p->from--; /* the brace is held */
  p->scan = (tool_json_scan){0};
  (void)tool_json_byte(&p->scan, '{');
  return TOOL_HOLD;
}

tool_step tool_space(tool_parser *p, char c) {
  if (!is_json_space(c) || p->matched || p->spaces == TOOL_CALL_SPACES_MAX) return TOOL_FAIL;
  p->spaces++;
  return TOOL_HOLD;
}

int tool_match(tool_parser *p, const char *const *markers, int n, char c) {
  const char *begun = p->held.data + p->held.bytes - 1 - p->matched;
  for (int i = 0; i < n; i++) {
    if (strncmp(markers[i], begun, p->matched) != 0 || markers[i][p->matched] != c) continue; /* in this order */
    p->matched++;
    return markers[i][p->matched] ? TOOL_MARKER_BEGUN : i;
  }
  return TOOL_MARKER_NONE;
}

bool tool_take_name(const tool_parser *p, size_t but, char *name) {
  const size_t bytes = tool_bytes(p) - p->from - but;
  if (!tool_json_is_name(tool_text(p) + p->from, bytes)) return false;
  memcpy(name, tool_text(p) + p->from, bytes);
  name[bytes] = 0;
  return true;
}

bool tool_queue(tool_parser *p, const char *name, size_t from, size_t bytes, char *json) {
  const bool has_room = p->n_queued < TOOL_CALL_LIST_MAX;
  char *copy = has_room ? strdup(name) : NULL;
  if (has_room && !copy) p->no_memory = true;
  if (copy)
    p->queue[p->n_queued++] = (tool_queued){copy, json, from, bytes};
  else
    free(json);
  return copy != NULL;
}

/* The object at hand is whole: a call, or the arguments of one. */
static bool queue_object(tool_parser *p) {
  const char *text = tool_text(p) + p->from;
  const size_t bytes = tool_bytes(p) - p->from;
  if (p->after == MISTRAL_ARGS) {
    json_t *args = tool_json_load(text, bytes, &p->no_memory);
    const bool good = args && tool_queue(p, p->name, p->from, bytes, NULL);
    json_decref(args);
    return good;
  }
  tool_json_call call;
  const bool good = tool_json_read_call(text, bytes, &call, &p->no_memory) &&
                    tool_queue(p, call.name, p->from + call.from, call.bytes, NULL);
  free(call.name);
  return good;
}

static tool_step object_byte(tool_parser *p, char c) {
  const tool_json_result result = tool_json_byte(&p->scan, c);
  if (result == TOOL_JSON_MORE) return TOOL_HOLD;
  if (result == TOOL_JSON_BAD || !queue_object(p)) return TOOL_FAIL;
  return p->after == MISTRAL_ARGS ? TOOL_CALLS : tool_enter(p, p->after);
}

/* --- what has been decided --- */

/* All but the last `but` bytes held are content. */
static void decide_content(tool_parser *p, size_t but) {
  if (tool_bytes(p) > but) p->call_was_last = false;
  p->held.ready = p->held.bytes - but;
}

static void drop_calls(tool_parser *p) {
  for (size_t i = 0; i < p->n_queued; i++) {
    free(p->queue[i].name);
    free(p->queue[i].json);
  }
  p->n_queued = 0;
  json_decref(p->params);
  p->params = NULL;
}

static void give_calls(tool_parser *p) {
  const tool_sink *sink = p->sink;
  held_text_flush(&p->held, sink->content, sink->user);
  for (size_t i = 0; i < p->n_queued; i++) {
    const tool_queued *call = &p->queue[i];
    const size_t index = p->n_calls++;
    sink->call_begin(sink->user, index, call->name);
    if (call->json)
      sink->call_arguments(sink->user, index, call->json, strlen(call->json));
    else
      sink->call_arguments(sink->user, index, tool_text(p) + call->from, call->bytes);
    sink->call_end(sink->user, index);
  }
  drop_calls(p);
  p->call_was_last = true;
}

/* --- bytes --- */

typedef struct tool_markers {
  const char *text[2];
  int n;
  tool_state next[2];
} tool_markers;

static const tool_markers format_markers[] = {
    [TOOL_FORMAT_HERMES] = {{"<tool_call>"}, 1, {HERMES_OPEN}},
    [TOOL_FORMAT_QWEN3_CODER] = {{"<tool_call>", "<function="}, 2, {CODER_OPEN, CODER_NAME}},
    [TOOL_FORMAT_LLAMA3] = {.n = 0},
    [TOOL_FORMAT_MISTRAL] = {{"[TOOL_CALLS]"}, 1, {MISTRAL_OPEN}},
};

static void content_byte(tool_parser *p, char c) {
  const tool_markers *markers = &format_markers[p->format];
  int found = tool_match(p, markers->text, markers->n, c);
  if (found == TOOL_MARKER_NONE && p->matched) { /* the byte may begin one: their first byte is nowhere else in them */
    decide_content(p, 1);
    p->matched = p->spaces = 0;
    found = tool_match(p, markers->text, markers->n, c);
  }
  if (found >= 0) {
    p->is_wrapped = found == 0;
    (void)tool_enter(p, markers->next[found]);
  } else if (found == TOOL_MARKER_NONE && tool_space(p, c) == TOOL_FAIL) {
    decide_content(p, 0);
    p->spaces = 0;
  }
}

static tool_step format_step(tool_parser *p, char c) {
  if (p->state == TOOL_JSON) return object_byte(p, c);
  switch (p->format) {
  case TOOL_FORMAT_HERMES: return hermes_step(p, c);
  case TOOL_FORMAT_QWEN3_CODER: return coder_step(p, c);
  case TOOL_FORMAT_LLAMA3: return llama_step(p, c);
  default: return mistral_step(p, c);
  }
}

static void parser_byte(tool_parser *p, char c);

/* The last `bytes` bytes held are read again as text. They are spaces, a part of a marker, and one byte more. */
static void read_again(tool_parser *p, size_t bytes) {
  char again[TOOL_CALL_SPACES_MAX + 32];
  memcpy(again, p->held.data + p->held.bytes - bytes, bytes);
  p->held.bytes -= bytes;
  (void)tool_enter(p, p->format == TOOL_FORMAT_LLAMA3 ? TOOL_PLAIN : TOOL_CONTENT);
  for (size_t i = 0; i < bytes; i++) parser_byte(p, again[i]);
}

/* Gives out what is queued; of the bytes not decided only the last `keep` stay, to be read as text. */
static void end_calls(tool_parser *p, size_t keep) {
  give_calls(p); /* nothing is decided now: the bytes held are those of the calls */
  memmove(p->held.data, p->held.data + p->held.bytes - keep, keep);
  p->held.bytes = keep;
  read_again(p, keep);
}

static void parser_byte(tool_parser *p, char c) {
  p->held.data[p->held.bytes++] = c;
  if (p->state == TOOL_PLAIN) {
    decide_content(p, 0);
  } else if (p->state == TOOL_CONTENT) {
    content_byte(p, c);
  } else {
    tool_step step = format_step(p, c);
    if (step == TOOL_HOLD && tool_bytes(p) > TOOL_CALL_BYTES_MAX) step = TOOL_FAIL;
    if (step == TOOL_FAIL) {
      const size_t open = p->spaces + p->matched + 1; /* another call may begin there */
      drop_calls(p);
      decide_content(p, open);
      read_again(p, open);
    } else if (step != TOOL_HOLD) {
      end_calls(p, step == TOOL_CALLS ? 0 : p->spaces + p->matched + 1);
    }
  }
}

/* --- the parser --- */

static void restart_parser(tool_parser *p) {
  drop_calls(p);
  p->held.bytes = p->held.ready = 0;
  p->n_calls = 0;
  p->call_was_last = false;
  (void)tool_enter(p, p->format == TOOL_FORMAT_NONE     ? TOOL_PLAIN
                      : p->format == TOOL_FORMAT_LLAMA3 ? LLAMA_START
                                                        : TOOL_CONTENT);
}

ga_status tool_parser_create(tool_format format, tool_parser **out) {
  *out = NULL;
  if (format < TOOL_FORMAT_NONE || format > TOOL_FORMAT_MISTRAL)
    return ga_error_set(GA_ERR_ARG, "tool_parser_create: format %d; allowed are 0 (none) to %d (mistral)", (int)format,
                        (int)TOOL_FORMAT_MISTRAL);
  tool_parser *p = calloc(1, sizeof *p);
  if (!p) return ga_error_set(GA_ERR_NOMEM, "tool_parser_create: out of memory, %zu bytes asked for", sizeof *p);
  p->format = format;
  restart_parser(p);
  *out = p;
  return GA_OK;
}

void tool_parser_destroy(tool_parser *p) {
  if (!p) return;
  drop_calls(p);
  held_text_clear(&p->held);
  free(p);
}

ga_status tool_parser_push(tool_parser *p, const char *text, size_t bytes, const tool_sink *sink) {
  const ga_status status = held_text_reserve(&p->held, bytes);
  if (status != GA_OK) return status;
  p->sink = sink;
  for (size_t i = 0; i < bytes; i++) parser_byte(p, text[i]);
  if (p->no_memory) return ga_error_set(GA_ERR_NOMEM, "tool_parser_push: no memory for a call");
  held_text_flush(&p->held, sink->content, sink->user);
  return GA_OK;
}

void tool_parser_finish(tool_parser *p, const tool_sink *sink) {
  p->sink = sink;
  if (p->state == HERMES_CLOSE || p->state == LLAMA_AFTER || (p->state == CODER_CLOSE && p->is_wrapped))
    end_calls(p, 0);
  else if (p->state == CODER_CLOSE)
    end_calls(p, p->spaces + p->matched);
  if (p->state == TOOL_CONTENT && p->call_was_last && !p->matched) held_text_drop(&p->held);
  p->held.ready = p->held.bytes;
  held_text_flush(&p->held, sink->content, sink->user);
  restart_parser(p);
}
