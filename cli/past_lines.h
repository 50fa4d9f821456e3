/* The lines typed in earlier conversations, as one JSON text a line. The file is $XDG_STATE_HOME/ga/chat_history, else
 * ~/.local/state/ga/chat_history; only its owner can read it (XDG Base Directory Specification 0.8). */
#ifndef GA_CLI_PAST_LINES_H
#define GA_CLI_PAST_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { PAST_LINES_MOST = 1000 };

/* Calls `each` for the last PAST_LINES_MOST lines, the oldest first. False: lines cannot be kept; the reason is
 * printed on stderr. */
bool past_lines_load(void (*each)(void *user, const char *line), void *user);
/* Appends a line to the file. Several programs may do so at the same time. */
bool past_lines_add(const char *line);

#endif
