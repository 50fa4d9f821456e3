/* Finds the method of distributed attention, and its parameters, whose plan is fastest in simulations of a machine. */
#ifndef GA_VERIFY_DIST_CHOOSE_H
#define GA_VERIFY_DIST_CHOOSE_H

#include "verify/dist/machine.h"
#include "verify/dist/shape.h"

typedef struct dist_candidate {
  const char *name;           /* name of the method; NULL = there is no candidate */
  char grid[DIST_GRID_BYTES]; /* grid of ranks as text; "" = the method's own */
  int64_t inner;              /* number of ranks of the inner ring; 0 = the method's own */
  ga_dist_times times;
  int64_t sent; /* bytes that all ranks send */
} dist_candidate;

typedef struct dist_choice {
  dist_candidate best;
  dist_candidate own;  /* the candidate of the best method that has the method's own grid */
  dist_candidate next; /* the fastest candidate among all methods except the best one */
  int tried;           /* number of grids of the best method that were tried */
  const char *reason;  /* why the best is faster than the next, a static text; NULL = there is no other method */
} dist_choice;

/* Simulates all methods, with all grids that the shape leaves open. devices: value of --device; these devices must be
 * able to run the method. Returns GA_ERR_SHAPE if no method fits. */
GA_NODISCARD ga_status dist_choose(const dist_shape *s, const dist_machine *m, const char *devices, dist_choice *out);

#endif
