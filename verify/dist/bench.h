/* Times methods of distributed attention in rounds of random order. They are compared with one device that does all the
 * work alone. */
#ifndef GA_VERIFY_DIST_BENCH_H
#define GA_VERIFY_DIST_BENCH_H

#include "verify/dist/ranks.h"
#include "verify/dist/shape.h"

enum { DIST_MOST_CONTENDERS = 72 }; /* largest number of pairs of a method and a way of copying blocks */

typedef struct dist_bench_options {
  const dist_ranks *ranks;
  const dist_shape *shape; /* shape.method: one method, several separated by commas, or "all" */
  const char *copies;      /* ways of copying blocks between GPUs, separated by commas; NULL = the run chooses */
  int64_t rounds;          /* number of rounds, 1 or more */
} dist_bench_options;

/* The results of one method. Times are in seconds; the time of a round is that of its slowest rank. */
typedef struct dist_bench_row {
  char name[32];              /* name of the method, or "one device" */
  char copies[8];             /* way of copying blocks between GPUs; "" on a CPU, and for one device */
  double median, least, most; /* median, least and largest time over the rounds, in seconds */
  double tflops;              /* 10^12 arithmetic operations per second on each rank */
  /* efficiency: median over the rounds of one device's time / (ranks x the method's time) */
  double of_one;
  int64_t sent;   /* bytes that all ranks send; 0 for one device */
  int64_t memory; /* bytes of memory on the rank that needs most; 0 for one device */
} dist_bench_row;

typedef struct dist_bench_found {
  dist_bench_row row[DIST_MOST_CONTENDERS + 1]; /* [n] rows; the first is one device */
  int n;
  double rate_size; /* one device's rate holds for a plain causal call of this number of tokens; 0 = no rate is known */
} dist_bench_found;

/* Times the methods. The first rank gets the times in *out. With the method "all", methods that do not fit the shape
 * are skipped and named on stderr. */
GA_NODISCARD ga_status dist_bench(const dist_bench_options *o, dist_bench_found *out);

#endif
