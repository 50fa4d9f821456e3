/* Figures of distributed attention, formatted for people. */
#ifndef GA_CLI_DIST_FIGURES_H
#define GA_CLI_DIST_FIGURES_H

#include "ga/dist.h"

/* Writes a number of bytes in at most 8 characters, such as "1.5 MB". Returns `text`. */
const char *dist_short_bytes(int64_t bytes, char text[16]);
/* Returns the efficiency of a division of work: one device's simulated time / (the ranks' simulated time x their
 * number). 1 is perfect. */
double dist_of_one_device(const ga_dist_times *t, int64_t ranks);

#endif
