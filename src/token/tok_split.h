/* Pre-splitters: cut text into the words that byte-level BPE merges within.
 *
 * Each is a hand-written matcher of one published regular expression (tok_split.c quotes them), linear in the text.
 * Text is valid UTF-8. An invalid byte would count as one U+FFFD and stay in its word unchanged. */
#ifndef GA_TOKEN_TOK_SPLIT_H
#define GA_TOKEN_TOK_SPLIT_H

#include "ga/base.h"

typedef struct tok_split_rule tok_split_rule;

/* Finds a pre-splitter by name; NULL: there is none. A NULL name means "default". */
const tok_split_rule *ga_tok_split_find(const char *name);

typedef struct tok_split {
  const tok_split_rule *rule;
  const uint8_t *text;
  size_t bytes;
  size_t at;   /* start of the next word */
  size_t stop; /* end of the piece that the rule currently takes for the whole text */
} tok_split;

tok_split ga_tok_split_start(const tok_split_rule *rule, const char *text, size_t bytes);
/* Returns the next word in [*begin, *end), which is never empty. False: the text has ended. Words cover the text
 * without gaps. */
bool ga_tok_split_next(tok_split *split, size_t *begin, size_t *end);

#endif
