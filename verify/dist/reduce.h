/* Sums over ranks (ga/all_reduce.h): checked, then timed as graphs of calls, with and without a residual and a norm
 * after the sum. */
#ifndef GA_VERIFY_DIST_REDUCE_H
#define GA_VERIFY_DIST_REDUCE_H

#include "verify/dist/ranks.h"

enum { DIST_REDUCE_CALLS = 64 /* of a graph */, DIST_REDUCE_REPLAYS = 20, DIST_REDUCE_WIDTH = 4096 /* of the norm */ };

typedef struct dist_reduce_options {
  const dist_ranks *ranks;
  const char *type;  /* of numbers */
  const char *bytes; /* sizes with commas between, multiples of 16; NULL = 4096 to 1048576 */
} dist_reduce_options;

/* Microseconds of a call, median over replays of the slowest rank; NAN = not timed. */
typedef struct dist_reduce_row {
  int64_t bytes;
  int64_t rows; /* of the norm; 0 = the size is no whole number of them */
  double us, us_norm;
} dist_reduce_row;

typedef struct dist_reduce_found {
  dist_reduce_row *row; /* [n] */
  int32_t n;
} dist_reduce_found;

/* GA_ERR_ARG where an option is wrong. */
GA_NODISCARD ga_status dist_check_reduce(const dist_reduce_options *o);
/* GA_ERR_INTERNAL where a sum is wrong, or has other bits on other ranks. On the first rank *out gets the times;
 * release it with dist_reduce_free, also after a failure. */
GA_NODISCARD ga_status dist_reduce(const dist_reduce_options *o, dist_reduce_found *out);
void dist_reduce_free(dist_reduce_found *f);

#endif
