/* Text that a model made, on a terminal; and what keys do there while it is made. */
#ifndef GA_CMDLINE_TERMINAL_H
#define GA_CMDLINE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Writes text (UTF-8) and flushes. On a terminal control characters other than newline and tab are left out: a model
 * may otherwise set the clipboard, the title, or what keys mean (ECMA-48, xterm's OSC 52). Files and pipes get every
 * byte. False when it cannot be written. */
bool terminal_write(FILE *out, const char *text, size_t bytes);

/* Columns of the terminal at this moment; 80 where it does not tell. */
size_t terminal_columns(FILE *out);
/* False with $NO_COLOR (no-color.org) and on a terminal that is called dumb. */
bool terminal_has_colour(void);

/* For a conversation, until terminal_leave, which is also called when a signal ends or stops the process: keys are not
 * shown and wait for who reads them, which is the line editor; what is pasted comes between marks (bracketed paste). */
void terminal_enter(void);
void terminal_leave(void);
/* Again, after something else has set the terminal's mode. */
void terminal_quiet(void);

#endif
