/* Finds the method and the parameters whose plan is fastest on a model of the machine. */
#ifndef GA_VERIFY_DIST_CHOOSE_H
#define GA_VERIFY_DIST_CHOOSE_H

#include "verify/dist/machine.h"
#include "verify/dist/shape.h"

typedef struct dist_candidate {
  const char *name;           /* name of the method; NULL = no candidate */
  char grid[DIST_GRID_BYTES]; /* grid of ranks; "" = the method's own */
  int64_t inner;              /* ranks of the inner ring; 0 = the method's own */
  ga_dist_times times;
  int64_t sent; /* bytes that all ranks send */
} dist_candidate;

typedef struct dist_choice {
  dist_candidate best;
  dist_candidate own;  /* the best method with its own grid */
  dist_candidate next; /* the fastest candidate of all other methods */
  int tried;           /* number of grids of the best method that were tried */
  const char *reason;  /* why the best is faster than the next one, a static text; NULL = there is no other method */
} dist_choice;

/* Searches all methods, and the grids that the shape leaves open. devices: value of --device; these devices must be
 * able to run the method. GA_ERR_SHAPE: no method fits. */
GA_NODISCARD ga_status dist_choose(const dist_shape *s, const dist_machine *m, const char *devices, dist_choice *out);

#endif
