/* A JSON text while it is read: its position, and the fault that ends the reading. */
#ifndef GA_TEXT_JSON_SCAN_H
#define GA_TEXT_JSON_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct json_scan {
  const char *text;
  size_t bytes;
  size_t at;           /* index of the next byte */
  size_t flags;        /* flags of ga_json_load */
  int depth;           /* number of open arrays and objects */
  json_error_t *error; /* never NULL */
  bool has_failed;
} json_scan;

/* Records the first fault, at s->at; later faults are ignored. Returns false. */
bool json_scan_fail(json_scan *s, enum json_error_code code, const char *text);
bool json_scan_nomem(json_scan *s);

/* The contents of a JSON text, without its quotes and escapes. The caller frees `owned`; NULL: `p` points into the
 * JSON. */
typedef struct json_piece {
  const char *p;
  size_t n;
  char *owned;
} json_piece;

/* Reads a text whose opening quote is at s->at. On failure out->owned is NULL. */
bool json_scan_string(json_scan *s, json_piece *out);

/* Makes a number that jansson cannot hold (ga_json_wide). NULL on failure. */
json_t *json_scan_wide(json_scan *s, const char *text);

/* Reads a number whose first byte is at s->at. NULL on failure. */
json_t *json_scan_number(json_scan *s);

/* Returns the bytes of the UTF-8 character at p, 1 to 4; 0: the bytes up to `end` begin no valid character. */
size_t json_utf8_length(const char *p, const char *end);

#endif
