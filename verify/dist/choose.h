/* The method, and its parameters, whose plan is fastest on a model of the machine. */
#ifndef GA_VERIFY_DIST_CHOOSE_H
#define GA_VERIFY_DIST_CHOOSE_H

#include "verify/dist/machine.h"
#include "verify/dist/shape.h"

typedef struct dist_candidate {
  const char *name;           /* of the method; NULL = none */
  char grid[DIST_GRID_BYTES]; /* "" = the method's own */
  int64_t inner;              /* ranks of the inner ring; 0 = the method's own */
  ga_dist_times times;
  int64_t sent; /* bytes of all ranks */
} dist_candidate;

typedef struct dist_choice {
  dist_candidate best, own; /* own: the best method with its own grid */
  dist_candidate next;      /* the fastest of all other methods */
  int tried;                /* grids of the best method */
  const char *reason;       /* why it is faster than the next one; static. NULL = there is no other */
} dist_choice;

/* Searches all methods, and the grids that the shape leaves open. devices: the list of --device, which must be able to
 * run the method. GA_ERR_SHAPE where no method fits. */
GA_NODISCARD ga_status dist_choose(const dist_shape *s, const dist_machine *m, const char *devices, dist_choice *out);

#endif
