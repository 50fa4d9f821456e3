/* `ga dist -m all`: a comparison of all methods of distributed attention. */
#ifndef GA_CLI_DIST_ALL_H
#define GA_CLI_DIST_ALL_H

#include "verify/dist/machine.h"
#include "verify/dist/shape.h"

/* Prints a line, or a JSON object, for each method. For a method that does not fit the shape, the line gives the
 * reason. machine: the lines have simulated times on this machine; NULL = no times. */
GA_NODISCARD ga_status dist_show_all(const dist_shape *s, const dist_machine *machine, bool json);

#endif
