/* Writing text of a model to a terminal, and handling keys that are pressed while it is generated. */
#ifndef GA_CMDLINE_TERMINAL_H
#define GA_CMDLINE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Writes UTF-8 text and flushes. On a terminal, control characters other than newline and tab are dropped. With them
 * a model could set the clipboard, the title, or the meaning of keys (ECMA-48, xterm's OSC 52). Files and pipes get
 * every byte. False: writing failed. */
bool terminal_write(FILE *out, const char *text, size_t bytes);

/* Returns the current columns of the terminal; 80 if they are not known. */
size_t terminal_columns(FILE *out);
/* Returns whether styles may be used: not if $NO_COLOR is set (no-color.org), or if the terminal is called dumb. */
bool terminal_has_colour(void);

/* Sets the terminal for a conversation until terminal_leave. Keys are not echoed, and wait for the line editor.
 * Pasted text comes between marks (bracketed paste). A signal that ends or stops the process also calls
 * terminal_leave. */
void terminal_enter(void);
void terminal_leave(void);
/* Sets the mode of terminal_enter again, after other code has changed the terminal's mode. */
void terminal_quiet(void);

#endif
