/* The time between steps in which the device computes nothing: from the end of one step's last kernel to the start of
 * the next one's first. Copies between steps count. Two events a step, recorded where the device has the work; only
 * for GA_ENGINE_TIME_STEPS. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ga/ctx.h"
#include "ga/engine.h"

#define STEP_GAP_PLACES 4    /* steps whose events are kept: two may be enqueued, and the one before them counts */
#define STEP_GAP_FINE   16   /* classes of gaps from x to 2 x */
#define STEP_GAP_LEAST  1e-7 /* seconds: the first class */
#define STEP_GAP_COUNTS (27 * STEP_GAP_FINE) /* up to 13 s */

typedef struct step_gaps {
  bool on;
  ga_event *begin[STEP_GAP_PLACES], *end[STEP_GAP_PLACES];
  bool follows[STEP_GAP_PLACES]; /* requests ran all the time since the step before */
  uint64_t n_enqueued, n_taken;
  bool paused;
  uint64_t counts[STEP_GAP_COUNTS], n; /* under the engine's lock */
} step_gaps;

GA_NODISCARD ga_status step_gaps_create(ga_ctx *ctx, step_gaps *g);
void step_gaps_destroy(step_gaps *g);
/* Called before and after a step's kernels are enqueued on the context's stream. If a measurement fails, the log
 * says so, and none is made any more; steps go on. */
void step_gaps_begin(ga_ctx *ctx, step_gaps *g);
void step_gaps_end(ga_ctx *ctx, step_gaps *g);
/* Called when the oldest step that was not taken yet is complete. Returns the seconds between the end of the step
 * before and its begin; -1 if there was no request to run in between, or if they are not known. */
double step_gaps_take(step_gaps *g);
/* Called when the newest step was discarded or failed, or when no request is left: no gap is counted before the next
 * step. */
void step_gaps_pause(step_gaps *g);
void step_gaps_count(step_gaps *g, double gap);
/* Returns the quantile `part` of all gaps, in seconds, as exact as the classes are; 0 without gaps. */
double step_gaps_quantile(const step_gaps *g, double part);
