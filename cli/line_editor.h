/* Reads the lines of a conversation: with editing, pasting, lines that continue, and a history. */
#ifndef GA_CLI_LINE_EDITOR_H
#define GA_CLI_LINE_EDITOR_H

#include <stdbool.h>

#include "ga/base.h"

typedef struct line_editor line_editor;

/* Makes an editor on a terminal (stdin and stdout). keep_history: the history file of past_lines.h is read and
 * written. */
ga_status line_editor_create(bool keep_history, line_editor **out);
void line_editor_destroy(line_editor *e); /* NULL is fine */
/* Reads one line without its newline, malloc'd. Pasted text is part of the line, with its newlines. NULL: the input
 * has ended, or Ctrl-C was pressed, which interrupted() says. */
char *line_editor_read(line_editor *e, const char *prompt);
/* Adds a text to the history of the arrow keys; several lines are one entry. */
void line_editor_remember(line_editor *e, const char *text);

#endif
