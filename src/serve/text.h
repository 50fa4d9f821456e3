/* A growing text, and functions that write JSON to it. A failed allocation marks the text as failed. Later calls then
 * do nothing, so that a writer checks for failure once, at the end. */
#ifndef GA_SERVE_TEXT_H
#define GA_SERVE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ga/base.h"

typedef struct sv_text {
  char *p; /* n bytes, followed by a NUL that is not counted; NULL before the first put */
  size_t n, capacity;
  bool failed; /* an allocation has failed; all later calls do nothing */
} sv_text;

void sv_text_free(sv_text *t);
/* Removes the first n bytes of the text. */
void sv_text_drop(sv_text *t, size_t n);
void sv_put(sv_text *t, const char *p, size_t n);
void sv_puts(sv_text *t, const char *s);
void sv_putf(sv_text *t, const char *format, ...) GA_PRINTF(2, 3);
/* Writes n bytes as a JSON string with its quotes. U+FFFD replaces each byte that is not UTF-8. */
void sv_put_json(sv_text *t, const char *p, size_t n);
void sv_puts_json(sv_text *t, const char *s);
/* Writes a JSON number; NaN and infinities become null. */
void sv_put_number(sv_text *t, double v);

/* Returns the bytes of the UTF-8 character at p, of which n >= 1 bytes are readable; 0: no valid character begins
 * there. */
size_t sv_utf8_length(const char *p, size_t n);
bool sv_is_utf8(const char *p, size_t n);
/* Returns the number of characters in n bytes of valid UTF-8. */
size_t sv_utf8_count(const char *p, size_t n);

#endif
