/* Random weights of any type, made while they are written. */
#ifndef GA_VERIFY_SYNTH_WEIGHTS_H
#define GA_VERIFY_SYNTH_WEIGHTS_H

#include "ga/llm.h"

/* A stock of normally distributed, quantised values, from which tensors are cut at random places. Drawing each of 8e9
 * values would take minutes, and speed does not depend on them. */
typedef struct synth_stock {
  ga_dtype dtype;
  float mean, deviation;
  size_t block_bytes, n_blocks;
  unsigned char *blocks;
} synth_stock;

/* State that the tensors of a file share. */
typedef struct synth_weights {
  uint64_t seed;
  synth_stock *stocks;
  size_t n_stocks, capacity;
  uint64_t done, total; /* bytes, for the progress line */
} synth_weights;

/* One tensor: the source for ga_gguf_put_tensor_from. */
typedef struct synth_tensor {
  synth_weights *all;
  size_t stock;
  uint64_t seed;
} synth_tensor;

/* Makes a tensor of values with this mean and standard deviation; tensors of different index differ. */
GA_NODISCARD ga_status synth_tensor_of(synth_weights *w, ga_dtype dtype, float mean, float deviation, uint64_t index,
                                       synth_tensor *out);
/* Makes bytes of a tensor, as ga_gguf_source_fn; user is a synth_tensor. GA_ERR_CANCELLED after an interrupt. */
ga_status synth_tensor_bytes(void *user, uint64_t offset, void *data, size_t bytes);
void synth_weights_free(synth_weights *w);

#endif
