/* Printing of notes, errors and help: on a terminal, lines are broken between words. */
#ifndef GA_CMDLINE_WORDS_H
#define GA_CMDLINE_WORDS_H

#include <stdarg.h>
#include <stdio.h>

#include "ga/base.h"

/* Prints as fprintf does. On a terminal, a line that is too long is broken between words, and continues after `indent`
 * spaces. Pipes and files get the text unchanged. Control characters must have been escaped (cmd_put_text). */
void words_print(FILE *f, size_t indent, const char *format, ...) GA_PRINTF(3, 4);
void words_vprint(FILE *f, size_t indent, const char *format, va_list args);

#endif
