/* Text that a model made, on a terminal. */
#ifndef GA_CLI_TERMINAL_H
#define GA_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Writes text (UTF-8) and flushes. On a terminal control characters other than newline and tab are left out: a model
 * may otherwise set the clipboard, the title, or what keys mean (ECMA-48, xterm's OSC 52). Files and pipes get every
 * byte. False when it cannot be written. */
bool terminal_write(FILE *out, const char *text, size_t bytes);

#endif
