#include "cpu/cpu_layer.h"

/* Below this many elements a region costs more than it gains. */
#define ROWS_WORTH 16384

typedef struct rows_job {
  cpu_rows_fn fn;
  const void *job;
} rows_job;

static void run_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const rows_job *r = arg;
  r->fn(r->job, begin, end);
}

void cpu_rows_run(const ga_stream *stream, int64_t rows, int64_t row_elems, cpu_rows_fn fn, const void *job) {
  rows_job r = {.fn = fn, .job = job};
  ga_pool_run_ranges(rows * row_elems < ROWS_WORTH ? NULL : cpu_pool(stream), rows, 1, run_rows, &r);
}
