/* Code that the verbs plan, verify and simulate of `ga dist` share. These verbs examine plans and start no ranks. */
#ifndef GA_CLI_DIST_VIEW_H
#define GA_CLI_DIST_VIEW_H

#include "cli/dist/options.h"
#include "verify/dist/machine.h"
#include "verify/dist/shape.h"

/* The options that the verbs plan, verify and simulate share. */
typedef struct dist_view {
  dist_shape shape;
  dist_machine machine;
  const char *device;
  bool json;
} dist_view;
#define DIST_VIEW_INIT \
  { .shape = DIST_SHAPE_INIT, .machine = DIST_MACHINE_INIT, .device = "cpu" }

/* Rows of a verb's option table that set the fields of `v`, a dist_view. */
#define DIST_VIEW_OPTIONS(v)                                                                                        \
  DIST_METHOD((v).shape.method, "ring, zigzag, ulysses, ...; auto = the fastest by simulate; all = compare them"),  \
      DIST_RANKS((v).shape.ranks, 4096, "number of ranks; else 4"), DIST_SHAPE_OPTIONS((v).shape),                  \
      DIST_WORD("device", (v).device, "LIST", "the machine of simulate and -m auto: cpu, or cuda:0 = one of GPUs"), \
      DIST_MACHINE_OPTIONS((v).machine)

/* Makes the plan of the options and calls `show` with it. With -m all it instead prints a line for each method;
 * with_times adds simulated times. quiet: -m auto does not print its choice. Returns an exit code. */
int dist_view_plan(const char *verb, dist_view *v, bool quiet, bool with_times,
                   ga_status (*show)(const dist_task *, const ga_dist_plan *));

#endif
