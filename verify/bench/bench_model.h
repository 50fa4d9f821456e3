/* ga bench --model: prefill and decode of a whole model. */
#ifndef GA_VERIFY_BENCH_BENCH_MODEL_H
#define GA_VERIFY_BENCH_BENCH_MODEL_H

#include "cli/open.h"

typedef struct bench_model_args {
  open_args open;
  int64_t prompt, decode, depth, repeat; /* tokens, tokens, tokens in the cache before decoding, rounds */
  double energy;                         /* seconds of a window; 0 = times instead of joules */
  bool json;
} bench_model_args;

int bench_model(bench_model_args *a);

/* Joules a token, printed. ids: [max(prompt, depth)]; logits: [vocab] of room. GA_ERR_UNSUPPORTED where a device shows
 * no counter. */
GA_NODISCARD ga_status bench_model_energy(const bench_model_args *a, opened *o, const int32_t *ids, float *logits);

#endif
