/* Control characters in untrusted text, such as names in files, which must not reach a terminal. */
#ifndef GA_BASE_TEXT_H
#define GA_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the number of bytes of the control character at s, or 0 when there is none. n >= 1 bytes are readable.
 * Control characters are C0, DEL, C1, and the characters that change the direction of writing (Unicode 15, 23.2 and
 * Trojan Source, arXiv 2111.00169). */
size_t ga_text_control(const char *s, size_t n);

bool ga_ends_with(const char *text, const char *end);

#endif
