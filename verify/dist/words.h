/* Reads words and lists of a command line. */
#ifndef GA_VERIFY_DIST_WORDS_H
#define GA_VERIFY_DIST_WORDS_H

#include "ga/base.h"

enum { DIST_WORD_BYTES = 16 };

/* Returns the index of `word` in the n texts `names`; -1: it is not among them. */
int32_t dist_word_index(const char *const *names, size_t n, const char *word);

/* Reads a list of numbers such as "5,7,9" into a new array *out, which the caller frees, also after a failure. option:
 * name of the option, without dashes. like: the kind of list with an example, for the error text. Returns GA_ERR_ARG
 * for any other text. */
GA_NODISCARD ga_status dist_read_numbers(const char *option, const char *like, const char *text, int64_t **out,
                                         int32_t *count);

/* Copies to `word` the next word of a list separated by commas, which begins at offset *at. Moves *at past it. Returns
 * false if no word is left. */
bool dist_next_word(const char *list, size_t *at, char word[DIST_WORD_BYTES]);

#endif
