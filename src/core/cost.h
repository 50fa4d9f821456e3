/* Predicted times of kernels. The planner compares them, and plans show them.
 *
 * A kernel predicts the microseconds of a call. If its family has no model of its own, the prediction is a sum of three
 * times. They are the time of a launch, of the operations at the device's rate, and of the bytes at its bandwidth. The
 * sum is divided by the kernel's `speed` (per cent, in its .toml). The rates of a GPU are in a file of src/cuda/costs,
 * per multiprocessor. The rates of a CPU are those of one thread with AVX-512. docs/results/planner.md has predictions
 * beside measurements. */
#ifndef GA_CORE_COST_H
#define GA_CORE_COST_H

#include "core/kernel.h"

/* Returns the predicted microseconds of one launch with this work, on a device at 100 per cent of its rates. */
double ga_work_us(const ga_work *work, const ga_caps *caps);

/* Returns the predicted microseconds of `kernel` for desc, which it must accept. */
double ga_cost_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);

#endif
