/* Checks of the verbs that start ranks: run, bench, reduce, links. */
#ifndef GA_CLI_DIST_WORKING_H
#define GA_CLI_DIST_WORKING_H

#include "verify/dist/ranks.h"
#include "verify/dist/shape.h"

/* Finds the rank of this process. GA_ERR_ARG where an option of ranks is wrong; verb: its name, for the text. */
GA_NODISCARD ga_status dist_check_ranks(const char *verb, dist_ranks *r);
/* Checks --copies: refuses unknown names, and the option itself where the device is the CPU. several: a list with
 * commas is allowed. */
GA_NODISCARD ga_status dist_check_ways(const dist_ranks *r, const char *copies, bool several);
/* Refuses types that attention over these devices does not support. */
GA_NODISCARD ga_status dist_check_types(const dist_ranks *r, const dist_shape *s);

#endif
