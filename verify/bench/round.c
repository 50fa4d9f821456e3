/* Taking the time of a round: by the host's clock, or by a device's events round a recorded graph. */

#include "base/clock.h"
#include "verify/bench/entry.h"

#define HOST_ROUND_SECONDS   50e-6 /* shorter calls are repeated within a round: the clock has a grain of some 30 ns */
#define DEVICE_ROUND_SECONDS 1e-3  /* starting a graph and its events take some 10 us */
#define MAX_CALLS            4096
#define TELEMETRY_SECONDS    0.05
#define TELEMETRY_SHARE      50.0 /* so many times as long as a reading takes pass without one */

bool bench_has_clock(const ga_device *device) { return device->caps.sms > 0; }

static ga_status launch_entry(bench_entry *l) {
  GA_TRY(ga_plan_steps_launch(&l->steps, l->c.desc, l->io[l->at], l->workspace, l->ctx->stream));
  l->at = l->at + 1 == l->n_sets ? 0 : l->at + 1;
  return GA_OK;
}

static ga_status launch_all(bench_entry *l) {
  if (l->graph) return ga_graph_launch(l->ctx, l->graph, NULL);
  for (int64_t i = 0; i < l->calls; i++) GA_TRY(launch_entry(l));
  return GA_OK;
}

static ga_status host_round(bench_entry *l, double *seconds) {
  GA_TRY(ga_stream_sync(l->ctx, NULL));
  const double start = ga_seconds();
  GA_TRY(launch_all(l));
  GA_TRY(ga_stream_sync(l->ctx, NULL));
  *seconds = (ga_seconds() - start) / (double)l->calls;
  return GA_OK;
}

/* Read while the round's work runs, and seldom: it may take longer than the round, and a GPU that waits for it cools
 * down. */
static void sample_telemetry(bench_entry *l) {
  ga_device *device = l->ctx->device;
  ga_telemetry g;
  const double start = ga_seconds();
  if (!device->instruments || start < l->next_telemetry) return;
  device->instruments->read(device, &g);
  l->mhz += g.sm_mhz;
  l->watts += g.watts;
  l->n_telemetry++;
  const double end = ga_seconds();
  l->next_telemetry = end + fmax(TELEMETRY_SECONDS, TELEMETRY_SHARE * (end - start));
}

static ga_status device_round(bench_entry *l, double *seconds) {
  double ms;
  GA_TRY(ga_event_record(l->ctx, l->start, NULL));
  GA_TRY(launch_all(l));
  GA_TRY(ga_event_record(l->ctx, l->stop, NULL));
  sample_telemetry(l);
  GA_TRY(ga_event_elapsed(l->start, l->stop, &ms));
  *seconds = ms * 1e-3 / (double)l->calls;
  return GA_OK;
}

ga_status entry_round(bench_entry *l, double *seconds) {
  return bench_has_clock(l->ctx->device) ? device_round(l, seconds) : host_round(l, seconds);
}

/* The calls of a round as one graph, so that the host's part of a launch is not timed. A device that records none (the
 * emulator) launches one by one, and the report says so. */
static ga_status record_launch(bench_entry *l) {
  if (ga_graph_begin(l->ctx, NULL) != GA_OK) return GA_OK;
  ga_status status = launch_all(l);
  ga_graph *graph;
  ga_status ended = ga_graph_end(l->ctx, NULL, &graph);
  if (status != GA_OK && ended == GA_OK) ga_graph_destroy(graph);
  GA_TRY(status);
  GA_TRY(ended);
  l->graph = graph;
  return GA_OK;
}

/* Whole rounds of the sets, so that every round does the same. */
static ga_status settle_device(bench_entry *l, double seconds, double warm) {
  const double rounds = DEVICE_ROUND_SECONDS / (fmax(seconds, 1e-7) * l->n_sets);
  const int64_t most = ga_max_i64(MAX_CALLS / l->n_sets, 1);
  l->calls = l->n_sets * ga_min_i64((int64_t)rounds + 1, most);
  l->at = 0;
  GA_TRY(record_launch(l));
  for (double spent = 0; spent < warm; spent += seconds * (double)l->calls) GA_TRY(device_round(l, &seconds));
  l->next_telemetry = 0;
  return GA_OK;
}

ga_status entry_warm_up(bench_entry *l, double warm) {
  double seconds = 0;
  l->calls = 1;
  l->next_telemetry = HUGE_VAL;
  for (int i = 0; i < 3; i++) GA_TRY(entry_round(l, &seconds));
  if (bench_has_clock(l->ctx->device)) return settle_device(l, seconds, warm);
  if (seconds < HOST_ROUND_SECONDS) l->calls = (int64_t)(HOST_ROUND_SECONDS / fmax(seconds, 1e-8)) + 1;
  return GA_OK;
}
