/* How a model wants to be sampled, by its own files. */
#ifndef GA_CLI_SAMPLING_MODEL_H
#define GA_CLI_SAMPLING_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "ga/base.h"

typedef struct model_sampling {
  bool found; /* its files say something */
  double temperature, top_p, min_p, repeat;
  int64_t top_k;
} model_sampling;

/* GGUF: general.sampling.{temp,top_p,min_p,top_k,penalty_repeat}; safetensors: generation_config.json beside the
 * weights. What they leave out, where they say anything, is off: temperature 1, all tokens, no penalty. */
ga_status model_sampling_read(const char *path, model_sampling *out);

#endif
