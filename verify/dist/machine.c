#include "verify/dist/machine.h"

#include "base/status.h"

/* Fitted to eight runs of zigzag and ring on two H200 (docs/results/distributed.md): rows that leave their state run at
 * this part of the plain rate, and partial results pass through memory at this rate, 46 % of an H200's. */
#define STATE_PART    0.78
#define MEMORY_GBYTES 2200.0
/* Fitted to gathered keys forward on two and four H200; the other two are guesses. */
#define GPU_LATENCY_US   8.0
#define GPU_LAUNCH_US    15.0
#define OTHER_LATENCY_US 5.0
#define OTHER_LAUNCH_US  5.0
/* One H200, head dim 128: as deal.c has it; bench/h200/attention-bwd.json, in any order, 512 to 16384 tokens. Sums in a
 * fixed order wait for each other: fitted to two runs on two H200. */
#define START_KEYS            230.0
#define START_QUERIES         400.0
#define START_QUERIES_ORDERED 2050.0
/* One H200's backward by its forward rate, in any and in a fixed order: medians of shapes from 16384 tokens on. */
#define BACKWARD_PART         0.87
#define BACKWARD_ORDERED_PART 0.73

static double or_measured(double given, double measured) { return given >= 0 ? given : measured; }

/* -1 asks for the measured figure; other numbers below 0 are refused. */
static ga_status check_figures(const dist_machine *m) {
  const double given[] = {m->latency, m->launch, m->memory_gbytes, m->start_keys, m->start_queries};
  static const char *const names[] = {"latency", "launch", "memory-gbytes", "start-keys", "start-queries"};
  for (size_t i = 0; i < GA_COUNT_OF(given); i++)
    GA_REQUIRE(given[i] >= 0 || given[i] == -1, GA_ERR_ARG, "--%s %g: must be 0 or more, or -1", names[i], given[i]);
  return GA_OK;
}

static void fill_measured(dist_machine *m, bool on_gpus, bool unordered) {
  const bool gpus = on_gpus || m->merged_tflops > 0 || m->memory_gbytes > 0 || m->curves.n[DIST_RATES_MERGED],
             own = m->merged_tflops > 0; /* own: with passes over memory, unless those are named */
  m->latency = or_measured(m->latency, gpus ? GPU_LATENCY_US : OTHER_LATENCY_US);
  m->launch = or_measured(m->launch, gpus ? GPU_LAUNCH_US : OTHER_LAUNCH_US);
  m->memory_gbytes = or_measured(m->memory_gbytes, gpus && !own ? MEMORY_GBYTES : 0);
  if (m->backward_tflops <= 0)
    m->backward_tflops = gpus ? m->tflops * (unordered ? BACKWARD_PART : BACKWARD_ORDERED_PART) : 0;
  m->start_keys = or_measured(m->start_keys, gpus ? START_KEYS : 0);
  m->start_queries = or_measured(m->start_queries, !gpus ? 0 : unordered ? START_QUERIES : START_QUERIES_ORDERED);
  if (gpus && !own) m->merged_tflops = STATE_PART * m->tflops;
}

ga_status dist_machine_open(dist_machine *m, bool on_gpus, bool unordered) {
  if (m->rates) GA_TRY(dist_rates_load(m->rates, &m->curves));
  GA_TRY(check_figures(m));
  fill_measured(m, on_gpus, unordered);
  return GA_OK;
}

void dist_machine_close(dist_machine *m) { dist_rates_free(&m->curves); }

ga_status dist_simulate(const dist_machine *m, const ga_dist_plan *plan, ga_dist_times *times) {
  const dist_rates *c = &m->curves;
  ga_dist_machine to = GA_DIST_MACHINE_INIT;
  to.flops = m->tflops * 1e12, to.bytes_per_second = m->gbytes * 1e9, to.merged_flops = m->merged_tflops * 1e12;
  to.latency = m->latency * 1e-6, to.launch = m->launch * 1e-6;
  to.memory_bytes_per_second = m->memory_gbytes * 1e9, to.backward_flops = m->backward_tflops * 1e12;
  to.start_keys = m->start_keys, to.start_queries = m->start_queries;
  to.jitter = m->jitter / 100, to.spread = m->spread / 100, to.link_spread = m->link_spread / 100;
  to.draws = (int32_t)m->draws, to.seed = (uint64_t)m->seed;
  to.plain = c->points[DIST_RATES_PLAIN], to.plain_points = c->n[DIST_RATES_PLAIN];
  to.merged = c->points[DIST_RATES_MERGED], to.merged_points = c->n[DIST_RATES_MERGED];
  to.backward = c->points[DIST_RATES_BACKWARD], to.backward_points = c->n[DIST_RATES_BACKWARD];
  to.link = c->points[DIST_RATES_LINK], to.link_points = c->n[DIST_RATES_LINK];
  return ga_dist_plan_simulate(plan, &to, times);
}
