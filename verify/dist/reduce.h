/* Sums over ranks (ga/all_reduce.h): checked, then timed as graphs of calls, with and without a residual and a norm
 * after the sum. */
#ifndef GA_VERIFY_DIST_REDUCE_H
#define GA_VERIFY_DIST_REDUCE_H

#include "verify/dist/ranks.h"

enum {
  DIST_REDUCE_CALLS = 64,   /* calls in a graph */
  DIST_REDUCE_REPLAYS = 20, /* launches of the graph */
  DIST_REDUCE_WIDTH = 4096  /* elements of a row that is normed */
};

typedef struct dist_reduce_options {
  const dist_ranks *ranks;
  const char *type;  /* element type of the numbers */
  const char *bytes; /* sizes in bytes, multiples of 16, separated by commas; NULL = 4096 to 1048576 */
} dist_reduce_options;

/* Microseconds of a call: the median over replays of the slowest rank. NAN = not timed. */
typedef struct dist_reduce_row {
  int64_t bytes;
  int64_t rows; /* rows that are normed; 0 = the size is no whole number of rows */
  double us, us_norm;
} dist_reduce_row;

typedef struct dist_reduce_found {
  dist_reduce_row *row; /* [n] times, one row for each size */
  int32_t n;
} dist_reduce_found;

/* Checks the options. GA_ERR_ARG: one is wrong. */
GA_NODISCARD ga_status dist_check_reduce(const dist_reduce_options *o);
/* Checks and times the sums. The first rank gets the times in *out; release with dist_reduce_free, also after a
 * failure. GA_ERR_INTERNAL: a sum is wrong, or has different bits on different ranks. */
GA_NODISCARD ga_status dist_reduce(const dist_reduce_options *o, dist_reduce_found *out);
void dist_reduce_free(dist_reduce_found *f);

#endif
