/* The checks that all verbs of `ga dist` with a shape share, and the choice of a method for -m auto. */
#ifndef GA_CLI_DIST_AUTO_H
#define GA_CLI_DIST_AUTO_H

#include "verify/dist/machine.h"
#include "verify/dist/shape.h"

/* Returns GA_ERR_ARG for an unknown method, and lists the known ones on stderr. "all" and "auto" are known, too. */
GA_NODISCARD ga_status dist_check_method(const char *method);

/* Opens the machine *m, which the caller closes also after a failure. For the method "auto", sets method and grid of
 * the shape to the fastest ones, and prints the reason unless quiet. devices: value of --device. */
GA_NODISCARD ga_status dist_resolve_auto(dist_shape *s, dist_machine *m, const char *devices, bool quiet);

#endif
