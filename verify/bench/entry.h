/* One entry of a timed group: a row of the kernel table, its buffers, and one round of its calls. */
#ifndef GA_VERIFY_BENCH_ENTRY_H
#define GA_VERIFY_BENCH_ENTRY_H

#include "verify/bench/bench.h"

typedef struct bench_entry {
  check_case c;
  ga_ctx *ctx;
  /* --- n_sets copies of all arguments, one after the other in `memory`, and one workspace --- */
  uint8_t *memory;
  size_t set_bytes;
  int n_sets, at;
  unsigned char (*io)[CHECK_MAX_IO]; /* [n_sets] io struct of the op for each set of arguments */
  ga_plan_steps steps;               /* the launches of one call */
  void *workspace;
  /* --- a round: `calls` calls, each on the next set of arguments --- */
  int64_t calls;
  ga_event *start, *stop; /* events before and after a round, for devices whose events measure time */
  ga_graph *graph;        /* recording of the calls of a round; NULL: they are launched one by one */
  /* --- measured --- */
  double *samples; /* [n_samples] seconds of one call, measured in each round */
  int64_t n_samples;
  /* clock in MHz and power in W: sums over n_telemetry readings, which are taken while a round runs */
  double mhz, watts;
  int64_t n_telemetry;
  double next_telemetry; /* earliest time of the next reading of clock and power, in seconds of the host's clock */
} bench_entry;

/* Opens an entry for the row `kernel` on standard shape number `shape`. budget: total bytes of its sets of arguments.
 * Writes the shape's name to `name`. The caller releases the entry with entry_close, also after a failure. */
ga_status entry_open(ga_ctx *ctx, const ga_kernel *kernel, int shape, size_t budget, const bench_options *o,
                     bench_entry *l, char *name);
void entry_close(bench_entry *l);

/* Runs calls until code and threads are warm. A device whose events measure time runs for `warm` seconds, so that its
 * frequency and power settle. Sets the number of calls of a round. */
ga_status entry_warm_up(bench_entry *l, double warm);
/* Runs one round of calls, and sets *seconds to the time of one call. */
ga_status entry_round(bench_entry *l, double *seconds);

#endif
