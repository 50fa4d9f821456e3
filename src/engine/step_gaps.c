#include "engine/step_gaps.h"

#include <math.h>

#include "base/log.h"
#include "base/status.h"

ga_status step_gaps_create(ga_ctx *ctx, step_gaps *g) {
  for (int i = 0; i < STEP_GAP_PLACES; i++) {
    GA_TRY(ga_event_create(ctx, &g->begin[i]));
    GA_TRY(ga_event_create(ctx, &g->end[i]));
  }
  g->on = g->paused = true;
  return GA_OK;
}

void step_gaps_destroy(step_gaps *g) {
  for (int i = 0; i < STEP_GAP_PLACES; i++) {
    ga_event_destroy(g->begin[i]);
    ga_event_destroy(g->end[i]);
  }
}

static void note_measured(step_gaps *g, ga_status status) {
  if (status == GA_OK) return;
  g->on = false;
  ga_log(GA_LOG_WARN, "gaps between steps are no longer measured: %s", ga_error_text());
}

void step_gaps_begin(ga_ctx *ctx, step_gaps *g) {
  if (g->on) note_measured(g, ga_event_record(ctx, g->begin[g->n_enqueued % STEP_GAP_PLACES], NULL));
}

void step_gaps_end(ga_ctx *ctx, step_gaps *g) {
  if (!g->on) return;
  const uint64_t at = g->n_enqueued++ % STEP_GAP_PLACES;
  g->follows[at] = !g->paused;
  g->paused = false;
  note_measured(g, ga_event_record(ctx, g->end[at], NULL));
}

double step_gaps_take(step_gaps *g) {
  if (!g->on || g->n_taken == g->n_enqueued) return -1;
  const uint64_t at = g->n_taken++ % STEP_GAP_PLACES, before = (at + STEP_GAP_PLACES - 1) % STEP_GAP_PLACES;
  double ms = 0;
  if (!g->follows[at]) return -1;
  note_measured(g, ga_event_elapsed(g->end[before], g->begin[at], &ms));
  return g->on ? ms * 1e-3 : -1;
}

void step_gaps_pause(step_gaps *g) {
  g->n_taken = g->n_enqueued;
  g->paused = true;
}

void step_gaps_count(step_gaps *g, double gap) {
  const double at = gap > STEP_GAP_LEAST ? ceil(log2(gap / STEP_GAP_LEAST) * STEP_GAP_FINE) : 0;
  g->counts[at < STEP_GAP_COUNTS - 1 ? (int)at : STEP_GAP_COUNTS - 1]++;
  g->n++;
}

double step_gaps_quantile(const step_gaps *g, double part) {
  const double wanted = part * (double)g->n;
  uint64_t seen = 0;
  for (int i = 0; i < STEP_GAP_COUNTS && g->n; i++) {
    seen += g->counts[i];
    if ((double)seen >= wanted) return STEP_GAP_LEAST * exp2((double)i / STEP_GAP_FINE);
  }
  return 0;
}
