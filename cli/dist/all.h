/* Comparison of all methods. */
#ifndef GA_CLI_DIST_ALL_H
#define GA_CLI_DIST_ALL_H

#include "verify/dist/machine.h"
#include "verify/dist/shape.h"

/* Prints a line, or a JSON object, for each method; for a method that does not fit the shape, the reason. machine: adds
 * simulated times; NULL = none. */
GA_NODISCARD ga_status dist_show_all(const dist_shape *s, const dist_machine *machine, bool json);

#endif
