/* Sampling values that a model's own files recommend. */
#ifndef GA_CLI_SAMPLING_MODEL_H
#define GA_CLI_SAMPLING_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "ga/base.h"

typedef struct model_sampling {
  bool found; /* the files have at least one of the values */
  double temperature, top_p, min_p, repeat;
  int64_t top_k;
} model_sampling;

/* Reads the sampling values of the model at `path`. GGUF has them in
 * general.sampling.{temp,top_p,min_p,top_k,penalty_repeat}, safetensors in generation_config.json in the weights'
 * folder. If at least one value is found, missing values mean off: temperature 1, all tokens, no penalty. */
ga_status model_sampling_read(const char *path, model_sampling *out);

#endif
