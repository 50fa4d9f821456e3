/* ga bench --model: prefill and decode of a whole model. */
#ifndef TOOL_BENCH_MODEL_H
#define TOOL_BENCH_MODEL_H

#include "tools/ga/open.h"

typedef struct bench_model_args {
  open_args open;
  int64_t prompt, decode, depth, repeat; /* tokens, tokens, tokens in the cache before decoding, rounds */
  bool json;
} bench_model_args;

int bench_model(bench_model_args *a);

#endif
