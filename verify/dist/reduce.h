/* `ga dist reduce`: sums over ranks (ga/all_reduce.h) are checked and then timed, with and without a residual and a
 * norm after the sum. The timed calls are recorded as graphs. */
#ifndef GA_VERIFY_DIST_REDUCE_H
#define GA_VERIFY_DIST_REDUCE_H

#include "verify/dist/ranks.h"

enum {
  DIST_REDUCE_CALLS = 64,   /* number of calls in a recorded graph */
  DIST_REDUCE_REPLAYS = 20, /* number of launches of the graph */
  DIST_REDUCE_WIDTH = 4096  /* number of elements of a row whose norm is computed */
};

typedef struct dist_reduce_options {
  const dist_ranks *ranks;
  const char *type;  /* type of the numbers, such as "bf16" */
  const char *bytes; /* sizes of the arrays in bytes, multiples of 16, separated by commas; NULL = 4096 to 1048576 */
} dist_reduce_options;

/* Results for one size. us and us_norm are microseconds of a call without and with a norm: the median over launches on
 * the slowest rank. NAN = not timed. */
typedef struct dist_reduce_row {
  int64_t bytes;
  int64_t rows; /* number of rows whose norm is computed; 0 = the size is not a whole number of rows */
  double us, us_norm;
} dist_reduce_row;

typedef struct dist_reduce_found {
  dist_reduce_row *row; /* [n] results, one for each size */
  int32_t n;
} dist_reduce_found;

/* Checks the options. Returns GA_ERR_ARG if one is wrong. */
GA_NODISCARD ga_status dist_check_reduce(const dist_reduce_options *o);
/* Checks and times the sums. The first rank gets the times in *out. The caller frees *out with dist_reduce_free, also
 * after a failure. Returns GA_ERR_INTERNAL if a sum is wrong, or has different bits on different ranks. */
GA_NODISCARD ga_status dist_reduce(const dist_reduce_options *o, dist_reduce_found *out);
void dist_reduce_free(dist_reduce_found *f);

#endif
