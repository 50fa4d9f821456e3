/* What was typed in earlier conversations: one JSON text a line in $XDG_STATE_HOME/ga/chat_history, else in
 * ~/.local/state/ga/chat_history, for its owner alone (XDG Base Directory Specification 0.8). */
#ifndef GA_CLI_PAST_LINES_H
#define GA_CLI_PAST_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { PAST_LINES_MOST = 1000 };

/* Hands on the last PAST_LINES_MOST of them, the oldest first. False, and told on stderr, when none can be kept. */
bool past_lines_load(void (*each)(void *user, const char *line), void *user);
/* Appends one. Programs that run at once do not disturb each other. */
bool past_lines_add(const char *line);

#endif
