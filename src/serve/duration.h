/* Durations as Ollama writes them. */
#ifndef GA_SERVE_DURATION_H
#define GA_SERVE_DURATION_H

#include <stdbool.h>

/* Reads a number of seconds, or numbers with units: "5m", "1h30m", "-1". False: another text. */
bool sv_read_duration(const char *text, double *seconds);

#endif
