/* Pre-splitters, which cut a text into words. Byte-level BPE merges only within a word.
 *
 * Each pre-splitter is a hand-written matcher of one published regular expression (tok_split.c quotes them), in time
 * linear in the text. The text must be valid UTF-8. An invalid byte would count as one U+FFFD and stay in its word
 * unchanged. */
#ifndef GA_TOKEN_TOK_SPLIT_H
#define GA_TOKEN_TOK_SPLIT_H

#include "ga/base.h"

typedef struct tok_split_rule tok_split_rule;

/* Returns the pre-splitter with a name; NULL: there is none. name NULL stands for "default". */
const tok_split_rule *ga_tok_split_find(const char *name);

typedef struct tok_split {
  const tok_split_rule *rule;
  const uint8_t *text;
  size_t bytes;
  size_t at;   /* offset of the next word */
  size_t stop; /* end of the part of the text that the rule currently treats as the whole text */
} tok_split;

tok_split ga_tok_split_start(const tok_split_rule *rule, const char *text, size_t bytes);
/* Finds the next word, the bytes [*begin, *end) of the text. It is never empty, and words cover the text without gaps.
 * Returns false at the end of the text. */
bool ga_tok_split_next(tok_split *split, size_t *begin, size_t *end);

#endif
