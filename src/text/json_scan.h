/* State of the reader of a JSON text: its position, and the first fault. */
#ifndef GA_TEXT_JSON_SCAN_H
#define GA_TEXT_JSON_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct json_scan {
  const char *text;
  size_t bytes;
  size_t at;           /* index of the next byte */
  size_t flags;        /* flags of ga_json_load (JSON_REJECT_DUPLICATES and so on) */
  int depth;           /* number of open arrays and objects */
  json_error_t *error; /* description of the first fault; the pointer is never NULL */
  bool has_failed;
} json_scan;

/* Records a fault at s->at, if it is the first one. Always returns false. */
bool json_scan_fail(json_scan *s, enum json_error_code code, const char *text);
bool json_scan_nomem(json_scan *s);

/* The contents of a JSON string, with its escapes decoded. The caller frees `owned`; NULL: `p` points into the JSON
 * text. */
typedef struct json_piece {
  const char *p;
  size_t n;
  char *owned;
} json_piece;

/* Reads a string whose opening quote is at s->at. On failure returns false, and out->owned is NULL. */
bool json_scan_string(json_scan *s, json_piece *out);

/* Makes a value for the text of a number that jansson cannot hold (ga_json_wide). The caller releases it with
 * json_decref. Returns NULL on failure. */
json_t *json_scan_wide(json_scan *s, const char *text);

/* Reads a number whose first byte is at s->at. The caller releases the result with json_decref. Returns NULL on
 * failure. */
json_t *json_scan_number(json_scan *s);

/* Returns the number of bytes of the UTF-8 character at p, 1 to 4; 0: no valid character begins at p and ends before
 * `end`. */
size_t json_utf8_length(const char *p, const char *end);

#endif
