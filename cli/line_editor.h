/* What a person types in a conversation: lines that can be edited, pasted, spread over several, and found again. */
#ifndef GA_CLI_LINE_EDITOR_H
#define GA_CLI_LINE_EDITOR_H

#include <stdbool.h>

#include "ga/base.h"

typedef struct line_editor line_editor;

/* On a terminal (stdin and stdout); keep_history: over sessions, in past_lines_path(). */
ga_status line_editor_create(bool keep_history, line_editor **out);
void line_editor_destroy(line_editor *e); /* NULL is fine */
/* One line without its newline, malloc'd. A paste is part of a line, with its newlines. NULL at the end, and after
 * Ctrl-C, which interrupted() tells. */
char *line_editor_read(line_editor *e, const char *prompt);
/* To be found with the arrow keys; several lines are one entry. */
void line_editor_remember(line_editor *e, const char *text);

#endif
