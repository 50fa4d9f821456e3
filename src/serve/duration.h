/* Durations in the form of Ollama's interface. */
#ifndef GA_SERVE_DURATION_H
#define GA_SERVE_DURATION_H

#include <stdbool.h>

/* Reads a duration: a number of seconds, or numbers with units, such as "5m", "1h30m" or "-1". Returns false for other
 * texts. */
bool sv_read_duration(const char *text, double *seconds);

#endif
