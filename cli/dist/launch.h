/* Starts processes of this program, one for each rank. */
#ifndef GA_CLI_DIST_LAUNCH_H
#define GA_CLI_DIST_LAUNCH_H

#include "ga/base.h"

/* Starts one process for each of at most 64 ranks, with the arguments argv. Waits for all, and prints one error for
 * them. Returns an exit code. */
int dist_launch(int32_t ranks, char **argv);

#endif
