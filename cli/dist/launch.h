/* Processes of this program, one for each rank. */
#ifndef GA_CLI_DIST_LAUNCH_H
#define GA_CLI_DIST_LAUNCH_H

#include "ga/base.h"

/* Starts them with the words of argv, waits for their end, and speaks for all of them. ranks: at most 64. Returns an
 * exit code. */
int dist_launch(int32_t ranks, char **argv);

#endif
