/* What parsers of a model's output gave, as one text that does not show how content was cut. */
#ifndef GA_TESTS_OUTPUT_RECORD_H
#define GA_TESTS_OUTPUT_RECORD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/reasoning.h"
#include "serve/tool_calls.h"

typedef struct output_record {
  char *text;
  size_t bytes, room;
  size_t calls, content; /* number of calls, bytes of content */
  bool is_reasoning;     /* the last piece was */
} output_record;

static inline void record_bytes(output_record *r, const char *text, size_t bytes) {
  if (r->room - r->bytes <= bytes) {
    r->room = 2 * (r->room + bytes) + 64;
    r->text = realloc(r->text, r->room);
    if (!r->text) abort();
  }
  memcpy(r->text + r->bytes, text, bytes);
  r->text[r->bytes += bytes] = 0;
}
static inline void record_clear(output_record *r) {
  free(r->text);
  *r = (output_record){0};
}

/* Pieces without bytes and calls out of order are faults of the parser. */
static inline void record_require(bool good) {
  if (!good) abort();
}

static inline void record_content(void *user, const char *text, size_t bytes) {
  output_record *r = user;
  record_require(bytes > 0);
  if (r->is_reasoning) record_bytes(r, "}", 1);
  r->is_reasoning = false;
  r->content += bytes;
  record_bytes(r, text, bytes);
}
static inline void record_reasoning(void *user, const char *text, size_t bytes) {
  output_record *r = user;
  record_require(bytes > 0);
  if (!r->is_reasoning) record_bytes(r, "{", 1);
  r->is_reasoning = true;
  record_bytes(r, text, bytes);
}
static inline void record_begin(void *user, size_t index, const char *name) {
  output_record *r = user;
  record_require(index == r->calls);
  record_bytes(r, "[", 1);
  record_bytes(r, name, strlen(name));
  record_bytes(r, " ", 1);
}
static inline void record_arguments(void *user, size_t index, const char *json, size_t bytes) {
  output_record *r = user;
  record_require(index == r->calls && bytes >= 2);
  record_bytes(r, json, bytes);
}
static inline void record_end(void *user, size_t index) {
  output_record *r = user;
  record_require(index == r->calls++);
  record_bytes(r, "]", 1);
}

#endif
