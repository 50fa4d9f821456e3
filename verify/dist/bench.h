/* Times methods in shuffled rounds, compared with one device that does all the work alone. */
#ifndef GA_VERIFY_DIST_BENCH_H
#define GA_VERIFY_DIST_BENCH_H

#include "verify/dist/ranks.h"
#include "verify/dist/shape.h"

enum { DIST_MOST_CONTENDERS = 72 }; /* the most pairs of a method and a way of copies */

typedef struct dist_bench_options {
  const dist_ranks *ranks;
  const dist_shape *shape; /* shape.method: one method, several separated by commas, or "all" */
  const char *copies;      /* ways of copying blocks, separated by commas; NULL = chosen by the run */
  int64_t rounds;          /* number of rounds, 1 or more */
} dist_bench_options;

/* Times are in seconds; a round takes as long as its slowest rank. */
typedef struct dist_bench_row {
  char name[32];              /* name of the method; "one device" */
  char copies[8];             /* way of copying blocks; "" on a CPU, and for one device */
  double median, least, most; /* seconds: median, least and most of the rounds */
  double tflops;              /* 10^12 operations per second of a rank */
  double of_one;              /* median over the rounds of one device's time / (ranks x the method's time) */
  int64_t sent;               /* bytes that all ranks send; 0 for one device */
  int64_t memory;             /* bytes of the rank that needs most memory; 0 for one device */
} dist_bench_row;

typedef struct dist_bench_found {
  dist_bench_row row[DIST_MOST_CONTENDERS + 1]; /* [n] rows; the first is one device */
  int n;
  double rate_size; /* tokens of the plain causal call for which one device's rate holds; 0 = none */
} dist_bench_found;

/* Times the methods. The first rank gets the times in *out. With "all", methods that do not fit the shape are
 * skipped and named on stderr. */
GA_NODISCARD ga_status dist_bench(const dist_bench_options *o, dist_bench_found *out);

#endif
