/* The checks that all verbs with a shape share, and the method of -m auto. */
#ifndef GA_CLI_DIST_AUTO_H
#define GA_CLI_DIST_AUTO_H

#include "verify/dist/machine.h"
#include "verify/dist/shape.h"

/* Refuses an unknown method with GA_ERR_ARG, and lists all on stderr; "all" and "auto" are known. */
GA_NODISCARD ga_status dist_check_method(const char *method);

/* Opens the machine, which the caller closes also after a failure. For the method "auto" it writes the fastest
 * method and its grid to the shape, and prints the reason unless quiet. devices: value of --device. */
GA_NODISCARD ga_status dist_resolve_auto(dist_shape *s, dist_machine *m, const char *devices, bool quiet);

#endif
