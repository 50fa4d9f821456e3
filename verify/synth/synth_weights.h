/* Random weights of any type, which are made while a model file is written. */
#ifndef GA_VERIFY_SYNTH_WEIGHTS_H
#define GA_VERIFY_SYNTH_WEIGHTS_H

#include "ga/llm.h"

/* A stock of quantised values, normally distributed. The values of tensors are parts of it that begin at random places.
 * Drawing each of 8e9 values would take minutes, and the speed of a model does not depend on its values. */
typedef struct synth_stock {
  ga_dtype dtype;
  float mean, deviation;
  size_t block_bytes, n_blocks;
  unsigned char *blocks;
} synth_stock;

/* The state that the tensors of a file share. */
typedef struct synth_weights {
  uint64_t seed;
  synth_stock *stocks;
  size_t n_stocks, capacity;
  uint64_t done, total; /* numbers of bytes written (done) and of all bytes (total), for the progress line */
} synth_weights;

/* One tensor of the file, as the source for ga_gguf_put_tensor_from. */
typedef struct synth_tensor {
  synth_weights *all;
  size_t stock;
  uint64_t seed;
} synth_tensor;

/* Makes a tensor whose values have this mean and standard deviation. Tensors with different `index` have different
 * values. */
GA_NODISCARD ga_status synth_tensor_of(synth_weights *w, ga_dtype dtype, float mean, float deviation, uint64_t index,
                                       synth_tensor *out);
/* Makes bytes of a tensor's data: a ga_gguf_source_fn. user is a synth_tensor. Returns GA_ERR_CANCELLED after
 * Ctrl-C. */
ga_status synth_tensor_bytes(void *user, uint64_t offset, void *data, size_t bytes);
void synth_weights_free(synth_weights *w);

#endif
