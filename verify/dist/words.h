/* Words and lists of a command line. */
#ifndef GA_VERIFY_DIST_WORDS_H
#define GA_VERIFY_DIST_WORDS_H

#include "ga/base.h"

enum { DIST_WORD_BYTES = 16 };

/* Returns the index of `word` in names[n]; -1: it is not there. */
int32_t dist_word_index(const char *const *names, size_t n, const char *word);

/* Reads a list such as "5,7,9" into a new array, which the caller frees also after a failure. option: name of the
 * option without dashes. like: the kind of list with an example, for the error text. GA_ERR_ARG: any other text. */
GA_NODISCARD ga_status dist_read_numbers(const char *option, const char *like, const char *text, int64_t **out,
                                         int32_t *count);

/* Copies the word that begins at *at of a list separated by commas, and moves *at to the next word. False: no word
 * is left. */
bool dist_next_word(const char *list, size_t *at, char word[DIST_WORD_BYTES]);

#endif
