/* The checks that all verbs with a shape share, and the method of -m auto. */
#ifndef GA_CLI_DIST_AUTO_H
#define GA_CLI_DIST_AUTO_H

#include "verify/dist/machine.h"
#include "verify/dist/shape.h"

/* GA_ERR_ARG for a method that is none, after a line on stderr that lists all; "all" and "auto" are allowed. */
GA_NODISCARD ga_status dist_check_method(const char *method);

/* Opens the machine, which the caller closes also after a failure, and puts the method and grid of "auto" into the
 * shape. devices: the list of --device. Says on stdout why, unless quiet. */
GA_NODISCARD ga_status dist_resolve_auto(dist_shape *s, dist_machine *m, const char *devices, bool quiet);

#endif
