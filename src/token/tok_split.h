/* Pre-splitters: cut text into the words that byte-level BPE merges within.
 *
 * Each is a hand-written matcher of one published regular expression (tok_split.c quotes them), linear in the text.
 * Text is valid UTF-8; other bytes would count as U+FFFD, one each, and stay in the word as they are. */
#ifndef GA_TOKEN_TOK_SPLIT_H
#define GA_TOKEN_TOK_SPLIT_H

#include "ga/base.h"

typedef struct tok_split_rule tok_split_rule;

/* NULL when there is no pre-splitter of that name; NULL as name is "default". */
const tok_split_rule *ga_tok_split_find(const char *name);

typedef struct tok_split {
  const tok_split_rule *rule;
  const uint8_t *text;
  size_t bytes;
  size_t at;   /* start of the next word */
  size_t stop; /* end of the piece that the rule now sees as its whole text */
} tok_split;

tok_split ga_tok_split_start(const tok_split_rule *rule, const char *text, size_t bytes);
/* The next word [*begin, *end), never empty; false when the text is used up. Words cover the text without gaps. */
bool ga_tok_split_next(tok_split *split, size_t *begin, size_t *end);

#endif
