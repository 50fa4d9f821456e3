/* The lines typed in earlier conversations, one JSON string a line. The file is $XDG_STATE_HOME/ga/chat_history, else
 * ~/.local/state/ga/chat_history (XDG Base Directory Specification 0.8). Only its owner can read it. */
#ifndef GA_CLI_PAST_LINES_H
#define GA_CLI_PAST_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { PAST_LINES_MOST = 1000 };

/* Calls `each` for the last PAST_LINES_MOST lines of the file, the oldest first. Returns false if lines cannot be kept;
 * the reason is then printed on stderr. */
bool past_lines_load(void (*each)(void *user, const char *line), void *user);
/* Appends a line to the file. Several programs may do so at the same time. Returns false after a failure. */
bool past_lines_add(const char *line);

#endif
