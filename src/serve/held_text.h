/* Text that a streaming parser holds. First come bytes that are known to be content, then bytes that may begin
 * markup. */
#ifndef GA_SERVE_HELD_TEXT_H
#define GA_SERVE_HELD_TEXT_H

#include "ga/base.h"

typedef void (*held_text_fn)(void *user, const char *text, size_t bytes);

typedef struct held_text {
  char *data;
  size_t bytes; /* number of bytes in data */
  size_t ready; /* number of bytes, at the front of data, that are known to be content */
  size_t room;  /* size of the allocation of data, in bytes */
} held_text;

/* Makes room in held->data for `more` further bytes. */
GA_NODISCARD ga_status held_text_reserve(held_text *held, size_t more);
/* Passes the bytes that are known to be content to `fn`, and keeps the others. */
void held_text_flush(held_text *held, held_text_fn fn, void *user);
/* Drops the bytes that may begin markup. */
void held_text_drop(held_text *held);
void held_text_clear(held_text *held); /* frees the memory and empties the text */

/* Returns whether c is white space in JSON. */
static inline bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

#endif
