/* Predicted times, by which the planner compares rows, and which plans show.
 *
 * A row predicts the microseconds that a call of it takes. Where its family has no model of its own, the prediction is
 * that of the op: a launch, the operations at the device's rate, and the bytes at its bandwidth, divided by the `speed`
 * of the row (per cent, in its .toml). A GPU's rates are in a file of src/cuda/costs, scaled by multiprocessors.
 * A CPU's are those of one thread with AVX-512, scaled by threads. docs/results/planner.md has predictions beside
 * measurements. */
#ifndef GA_CORE_COST_H
#define GA_CORE_COST_H

#include "core/kernel.h"

/* Microseconds of one launch on a device at 100 per cent of its rates. */
double ga_work_us(const ga_work *work, const ga_caps *caps);

/* Predicted microseconds of a row that takes desc. */
double ga_cost_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);

#endif
