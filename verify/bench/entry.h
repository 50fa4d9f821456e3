/* One row of a timed group: its buffers, and one round of its calls. */
#ifndef GA_VERIFY_BENCH_ENTRY_H
#define GA_VERIFY_BENCH_ENTRY_H

#include "verify/bench/bench.h"

typedef struct bench_entry {
  check_case c;
  ga_ctx *ctx;
  /* --- n_sets copies of all arguments, one after the other, and one workspace --- */
  uint8_t *memory;
  size_t set_bytes;
  int n_sets, at;
  unsigned char (*io)[CHECK_MAX_IO]; /* [n_sets] arguments of the calls on each set */
  ga_plan_steps steps;               /* the launches of one call */
  void *workspace;
  /* --- a round: `calls` calls, each on the next set --- */
  int64_t calls;
  ga_event *start, *stop; /* events around a round, for devices with a clock */
  ga_graph *graph;        /* recording of the calls of a round; NULL: they are launched one by one */
  /* --- measured --- */
  double *samples; /* [n_samples] seconds of one call in each round */
  int64_t n_samples;
  double mhz, watts; /* sums over n_telemetry readings, which are taken while a round runs */
  int64_t n_telemetry;
  double next_telemetry; /* earliest time of the next reading, in seconds of the host's clock */
} bench_entry;

/* Opens a row. budget: total bytes of its buffer sets. name: receives the name of the shape. Release with
 * entry_close, also after a failure. */
ga_status entry_open(ga_ctx *ctx, const ga_kernel *kernel, int shape, size_t budget, const bench_options *o,
                     bench_entry *l, char *name);
void entry_close(bench_entry *l);

/* Runs calls until code and threads are warm. A device with a clock runs for `warm` seconds, so that its frequency
 * and power settle. Sets the number of calls of a round. */
ga_status entry_warm_up(bench_entry *l, double warm);
/* Runs one round; *seconds is the time of one call. */
ga_status entry_round(bench_entry *l, double *seconds);

#endif
