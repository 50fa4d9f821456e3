/* `ga bench --model`: times of prefill and decode of a whole model. */
#ifndef GA_VERIFY_BENCH_BENCH_MODEL_H
#define GA_VERIFY_BENCH_BENCH_MODEL_H

#include "verify/bench/front.h"

/* Measures the energy of prefill and decode, and prints joules per token. ids: [max(prompt, depth)] token ids. logits:
 * [vocab], overwritten. Returns GA_ERR_UNSUPPORTED if a device has no energy counter. */
GA_NODISCARD ga_status bench_model_energy(const bench_model_args *a, const bench_model_target *o, const int32_t *ids,
                                          float *logits);

#endif
