/* Reads the lines that a user types in a conversation: with editing, pasting, lines that continue, and a history. */
#ifndef GA_CLI_LINE_EDITOR_H
#define GA_CLI_LINE_EDITOR_H

#include <stdbool.h>

#include "ga/base.h"

typedef struct line_editor line_editor;

/* Creates an editor on a terminal (stdin and stdout). keep_history: the history file of past_lines.h is read and
 * written. */
ga_status line_editor_create(bool keep_history, line_editor **out);
void line_editor_destroy(line_editor *e); /* frees the editor; NULL is accepted */
/* Reads one line without its newline; the caller frees it with free. Pasted text is part of the line, with its
 * newlines. Returns NULL if the input has ended, or after Ctrl-C, in which case interrupted() is true. */
char *line_editor_read(line_editor *e, const char *prompt);
/* Adds a text to the history that the arrow keys show. A text of several lines is one entry. */
void line_editor_remember(line_editor *e, const char *text);

#endif
