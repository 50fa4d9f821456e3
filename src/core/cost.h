/* Predicted times: what the planner compares rows by, and what plans show.
 *
 * A row predicts the microseconds that a call of it takes. Where its family has no model of its own, the prediction is
 * that of the op: a launch, the operations at the device's rate, and the bytes at its bandwidth, divided by the `speed`
 * of the row (per cent, in its .toml). The rates are those of an H200, scaled by multiprocessors, and of one thread of
 * an AVX-512 CPU, by threads. docs/results/planner.md has predictions beside measurements. */
#ifndef GA_CORE_COST_H
#define GA_CORE_COST_H

#include "core/kernel.h"

/* What a call does. */
typedef struct ga_work {
  double flops, bytes;
} ga_work;

/* Of an op's description; each input is read once. */
ga_work ga_work_of(ga_op op, const void *desc);
/* Microseconds of one launch on a device at 100 per cent of its rates. */
double ga_work_us(const ga_work *work, const ga_caps *caps);

/* Predicted microseconds of a row that takes desc. */
double ga_cost_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);

/* Pairs of a query and a key that a mask leaves, of one head of one sequence. */
double ga_attn_pairs(int64_t max_q, int64_t max_kv, bool causal, int64_t window);

#endif
