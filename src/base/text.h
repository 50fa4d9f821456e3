/* Characters of other people's text that would do something on a screen: names in files, texts in errors. */
#ifndef GA_BASE_TEXT_H
#define GA_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of such a character at s (n >= 1 are there), 0 for all else: controls C0, DEL and C1, and those that turn the
 * direction of writing (Unicode 15, 23.2 and Trojan Source, arXiv 2111.00169). */
size_t ga_text_control(const char *s, size_t n);

bool ga_ends_with(const char *text, const char *end);

#endif
