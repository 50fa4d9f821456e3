/* The time between steps in which the device computes nothing. It lasts from the end of a step's last kernel to the
 * start of the next step's first kernel. The time of copies between steps is part of the gap. Two events a step measure
 * it, on the stream that has the step's work, and only with GA_ENGINE_TIME_STEPS. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ga/ctx.h"
#include "ga/engine.h"

/* number of steps whose events are kept: two that may be in flight, the step before them, and one more */
#define STEP_GAP_PLACES 4
#define STEP_GAP_FINE   16                   /* number of classes of gaps, by their length, for each factor of 2 */
#define STEP_GAP_LEAST  1e-7                 /* lower bound of the first class, in seconds */
#define STEP_GAP_COUNTS (27 * STEP_GAP_FINE) /* number of classes; the last one ends at 13 seconds */

typedef struct step_gaps {
  bool on;
  ga_event *begin[STEP_GAP_PLACES], *end[STEP_GAP_PLACES];
  bool follows[STEP_GAP_PLACES]; /* [place] requests ran without a break since the previous step */
  uint64_t n_enqueued, n_taken;
  bool paused;
  /* counts[class] is the number of gaps of a class, n the number of all gaps; guarded by the engine's lock */
  uint64_t counts[STEP_GAP_COUNTS], n;
} step_gaps;

GA_NODISCARD ga_status step_gaps_create(ga_ctx *ctx, step_gaps *g);
void step_gaps_destroy(step_gaps *g);
/* Called before and after a step's kernels are enqueued on the context's stream. If a measurement fails, the log says
 * so, and no more gaps are measured; steps go on. */
void step_gaps_begin(ga_ctx *ctx, step_gaps *g);
void step_gaps_end(ga_ctx *ctx, step_gaps *g);
/* Measures the gap before the oldest step that this function has not measured yet; the step must be complete. Returns
 * the seconds from the previous step's end to this step's begin; -1: no request ran in between, or the time is not
 * known. */
double step_gaps_take(step_gaps *g);
/* Is called when the newest step was discarded or failed, or when no request is left. The gap before the next step is
 * not counted. */
void step_gaps_pause(step_gaps *g);
void step_gaps_count(step_gaps *g, double gap);
/* Returns the quantile `part` (0 to 1) of all gaps in seconds, exact to the width of a class; 0 if there are no
 * gaps. */
double step_gaps_quantile(const step_gaps *g, double part);
