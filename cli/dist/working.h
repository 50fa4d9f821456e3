/* Checks of options for the verbs of `ga dist` that start ranks: run, bench, reduce, links. */
#ifndef GA_CLI_DIST_WORKING_H
#define GA_CLI_DIST_WORKING_H

#include "verify/dist/ranks.h"
#include "verify/dist/shape.h"

/* Finds the rank of this process. Returns GA_ERR_ARG if an option of ranks is wrong. verb: name of the verb, for the
 * error text. */
GA_NODISCARD ga_status dist_check_ranks(const char *verb, dist_ranks *r);
/* Checks the value `copies` of --copies. Unknown names are refused, and so is the option if the device is the CPU.
 * several: a list with commas is allowed. */
GA_NODISCARD ga_status dist_check_ways(const dist_ranks *r, const char *copies, bool several);
/* Checks that the ranks' devices can compute attention with the types of the shape. */
GA_NODISCARD ga_status dist_check_types(const dist_ranks *r, const dist_shape *s);

#endif
