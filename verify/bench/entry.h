/* One row in a group that is timed: its buffers, and how one round of it is taken. */
#ifndef GA_VERIFY_BENCH_ENTRY_H
#define GA_VERIFY_BENCH_ENTRY_H

#include "verify/bench/bench.h"

typedef struct bench_entry {
  check_case c;
  ga_ctx *ctx;
  /* --- n_sets copies of all arguments behind each other, and one workspace --- */
  uint8_t *memory;
  size_t set_bytes;
  int n_sets, at;
  unsigned char (*io)[CHECK_MAX_IO]; /* of each set */
  ga_plan_steps steps;               /* the launches of a call */
  void *workspace;
  /* --- a round: `calls` calls, each on the next set --- */
  int64_t calls;
  ga_event *start, *stop; /* of a device with a clock of its own */
  ga_graph *graph;        /* the calls of a round, recorded; NULL: they are launched one by one */
  /* --- seen --- */
  double *samples; /* seconds of a call, by round */
  int64_t n_samples;
  double mhz, watts; /* sums over n_telemetry readings, taken while a round ran */
  int64_t n_telemetry;
  double next_telemetry; /* not before: seconds of the host's clock */
} bench_entry;

/* budget: bytes to rotate through. name: of the shape. Even when it fails, entry_close gives back what there is. */
ga_status entry_open(ga_ctx *ctx, const ga_kernel *kernel, int shape, size_t budget, const bench_options *o,
                     bench_entry *l, char *name);
void entry_close(bench_entry *l);

/* Runs until code and threads are warm, and a device with its own clock for `warm` seconds, so that its clocks and
 * power settle. Decides how many calls a round has. */
ga_status entry_warm_up(bench_entry *l, double warm);
/* One round: seconds of one call. */
ga_status entry_round(bench_entry *l, double *seconds);

#endif
