/* Times methods in shuffled rounds, compared with one device that does all the work alone. */
#ifndef GA_VERIFY_DIST_BENCH_H
#define GA_VERIFY_DIST_BENCH_H

#include "verify/dist/ranks.h"
#include "verify/dist/shape.h"

enum { DIST_MOST_CONTENDERS = 72 }; /* methods, with each way of copies */

typedef struct dist_bench_options {
  const dist_ranks *ranks;
  const dist_shape *shape; /* method: one, several with commas between, or "all" */
  const char *copies;      /* ways of blocks with commas between; NULL = as the run chooses */
  int64_t rounds;          /* 1 or more */
} dist_bench_options;

/* Times are in seconds; a round takes as long as its slowest rank. */
typedef struct dist_bench_row {
  char name[32];              /* of the method; "one device" */
  char copies[8];             /* "" on a CPU, and for one device */
  double median, least, most; /* over rounds */
  double tflops;              /* of a rank, 10^12 operations a second */
  double of_one;              /* median over rounds of one device's time / (ranks x the method's) */
  int64_t sent, memory;       /* bytes of all ranks; of the rank that has most; 0 for one device */
} dist_bench_row;

typedef struct dist_bench_found {
  dist_bench_row row[DIST_MOST_CONTENDERS + 1]; /* one device first */
  int n;
  double rate_size; /* tokens of the plain causal call that one device's rate stands for; 0 = none */
} dist_bench_found;

/* Times the methods. On the first rank *out gets the times. With "all", methods that do not fit the shape are skipped
 * and named on stderr. */
GA_NODISCARD ga_status dist_bench(const dist_bench_options *o, dist_bench_found *out);

#endif
