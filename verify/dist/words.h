/* Words and lists of a command line. */
#ifndef GA_VERIFY_DIST_WORDS_H
#define GA_VERIFY_DIST_WORDS_H

#include "ga/base.h"

enum { DIST_WORD_BYTES = 16 };

/* The index of `word` in names[n]; -1 = it is not there. */
int32_t dist_word_index(const char *const *names, size_t n, const char *word);

/* Reads "5,7,9" into a new array, which the caller frees also after a failure. option: its name without dashes. like:
 * the kind of list with an example, for the error text. GA_ERR_ARG for any other text. */
GA_NODISCARD ga_status dist_read_numbers(const char *option, const char *like, const char *text, int64_t **out,
                                         int32_t *count);

/* Copies the word of a list with commas that begins at *at, and moves *at to the next one. False: no word is left. */
bool dist_next_word(const char *list, size_t *at, char word[DIST_WORD_BYTES]);

#endif
