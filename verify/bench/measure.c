/* Timing a group of rows that do the same work. */
#include <stdlib.h>

#include "core/cost.h"
#include "verify/bench/entry.h"

#define MIN_SAMPLES   11
#define LEAST_SAMPLES 5 /* of rows so slow that MIN_SAMPLES take four times as long as they were given */

static void shuffle(int *order, int n, ga_rng *rng) {
  for (int i = n - 1; i > 0; i--) {
    int j = (int)ga_rng_below(rng, (uint64_t)i + 1), t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
}

/* Rounds: every entry once, in a new order. */
static ga_status interleave_rounds(bench_entry *entries, int n, const bench_options *o) {
  ga_rng rng;
  int order[BENCH_MAX_ROWS];
  double spent = 0;
  ga_rng_seed(&rng, o->seed);
  for (int i = 0; i < n; i++) order[i] = i;
  for (int round = 0; round < BENCH_MAX_SAMPLES; round++) {
    double share = spent / (o->seconds * n);
    if ((round >= MIN_SAMPLES && share > 1) || (round >= LEAST_SAMPLES && share > 4)) break;
    shuffle(order, n, &rng);
    for (int i = 0; i < n; i++) {
      bench_entry *l = &entries[order[i]];
      double seconds;
      GA_TRY(entry_round(l, &seconds));
      l->samples[l->n_samples++] = seconds;
      spent += seconds * (double)l->calls;
    }
  }
  return GA_OK;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void bench_percentiles(double *x, int64_t n, bench_result *out) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  out->median = n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
  out->p10 = x[(n - 1) / 10];
  out->p90 = x[(n - 1) - (n - 1) / 10];
}

/* Every argument once. */
static double bytes_of_args(const check_args *a) {
  double bytes = 0;
  for (int i = 0; i < a->n; i++) {
    const check_arg *arg = &a->arg[i];
    const ga_dtype_traits *t = ga_dtype_info(arg->dtype);
    bytes += (double)check_count(arg) / t->block_elems * t->block_bytes * (arg->role == CHECK_INOUT ? 2 : 1);
  }
  return bytes;
}

static void conclude(bench_entry *l, bench_result *out) {
  const bench_op *bench = bench_op_of(l->c.kernel->op);
  out->kernel = l->c.kernel;
  out->samples = l->n_samples;
  out->calls = l->calls;
  out->n_sets = l->n_sets;
  out->timer = l->graph ? "graph" : l->start ? "events" : "host";
  out->predicted = 1e-6 * ga_cost_us(l->c.kernel, l->c.desc, &l->ctx->device->caps);
  out->flops = bench->flops ? bench->flops(l->c.desc) : 0;
  out->bytes = bench->bytes ? bench->bytes(l->c.desc) : bytes_of_args(&l->c.row);
  if (l->n_telemetry) {
    out->mhz = l->mhz / (double)l->n_telemetry;
    out->watts = l->watts / (double)l->n_telemetry;
  }
  bench_percentiles(l->samples, l->n_samples, out);
}

ga_status bench_group(ga_ctx *ctx, const ga_kernel *const *rows, int n, int shape, const bench_options *o,
                      bench_result *out) {
  void *p;
  GA_REQUIRE(n >= 1 && n <= BENCH_MAX_ROWS, GA_ERR_ARG, "bench: %d rows at once; at most %d", n, BENCH_MAX_ROWS);
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof(bench_entry), "bench", &p));
  bench_entry *entries = p;
  ga_status status = GA_OK;
  /* On the host a round is often one call, and the entries rotate together; a device's round goes through all of
   * its sets. */
  const size_t budget = bench_rotation(ctx->device) / (size_t)(bench_has_clock(ctx->device) ? 1 : n);
  for (int i = 0; i < n && status == GA_OK; i++)
    status = entry_open(ctx, rows[i], shape, budget, o, &entries[i], out[i].shape);
  for (int i = 0; i < n && status == GA_OK; i++) status = entry_warm_up(&entries[i], o->seconds / 2);
  if (status == GA_OK) status = interleave_rounds(entries, n, o);
  for (int i = 0; i < n; i++) {
    if (status == GA_OK) conclude(&entries[i], &out[i]);
    entry_close(&entries[i]);
  }
  ga_mem_free(entries);
  return status;
}
