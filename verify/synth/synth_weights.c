#include "verify/synth/synth_weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/quant.h"
#include "base/rng.h"
#include "base/status.h"
#include "cmdline/cmd.h"
#include "cmdline/interrupt.h"

#define STOCK_ELEMS ((size_t)1 << 20)
#define RUN_BLOCKS  1024u /* taken from one place of the stock */

/* --- stocks --- */

static void put_block(ga_dtype dtype, const float *x, unsigned char *block) {
  const uint16_t half = dtype == GA_F16 ? ga_f32_to_f16(x[0]) : ga_f32_to_bf16(x[0]);
  if (dtype == GA_F32)
    memcpy(block, x, sizeof *x);
  else if (dtype == GA_F16 || dtype == GA_BF16)
    memcpy(block, &half, sizeof half);
  else
    ga_quantise_block(dtype, x, block);
}

static ga_status fill_stock(synth_stock *s, uint64_t seed) {
  const ga_dtype_traits *t = ga_dtype_info(s->dtype);
  float x[GA_QUANT_MAX_BLOCK];
  ga_rng rng;
  s->block_bytes = (size_t)t->block_bytes;
  s->n_blocks = s->deviation > 0 ? STOCK_ELEMS / (size_t)t->block_elems : RUN_BLOCKS;
  s->blocks = malloc(s->n_blocks * s->block_bytes);
  if (!s->blocks) return ga_fail_nomem("random weights", s->n_blocks * s->block_bytes);
  ga_rng_seed(&rng, seed);
  for (size_t i = 0; i < s->n_blocks; i++) {
    for (int j = 0; j < t->block_elems; j++) x[j] = s->mean + s->deviation * (float)ga_rng_normal(&rng);
    put_block(s->dtype, x, s->blocks + i * s->block_bytes);
  }
  return GA_OK;
}

static ga_status add_stock(synth_weights *w, const synth_stock *wanted) {
  if (w->n_stocks == w->capacity) {
    const size_t capacity = 2 * w->capacity + 8;
    synth_stock *more = realloc(w->stocks, capacity * sizeof *more);
    if (!more) return ga_fail_nomem("random weights", capacity * sizeof *more);
    w->stocks = more;
    w->capacity = capacity;
  }
  synth_stock *s = &w->stocks[w->n_stocks];
  *s = *wanted;
  GA_TRY(fill_stock(s, w->seed * 1000003 + w->n_stocks));
  w->n_stocks++;
  return GA_OK;
}

void synth_weights_free(synth_weights *w) {
  for (size_t i = 0; i < w->n_stocks; i++) free(w->stocks[i].blocks);
  free(w->stocks);
  *w = (synth_weights){0};
}

/* --- tensors --- */

ga_status synth_tensor_of(synth_weights *w, ga_dtype dtype, float mean, float deviation, uint64_t index,
                          synth_tensor *out) {
  size_t i = 0;
  while (i < w->n_stocks &&
         (w->stocks[i].dtype != dtype || w->stocks[i].mean != mean || w->stocks[i].deviation != deviation))
    i++;
  if (i == w->n_stocks) GA_TRY(add_stock(w, &(synth_stock){.dtype = dtype, .mean = mean, .deviation = deviation}));
  *out = (synth_tensor){.all = w, .stock = i, .seed = (w->seed << 32) + index};
  return GA_OK;
}

/* Run number `run` of a tensor begins at a block that follows from both numbers alone: bytes may be asked for from
 * anywhere. */
static size_t first_block(const synth_tensor *t, const synth_stock *s, uint64_t run) {
  uint64_t state = t->seed ^ run * 0x9e3779b97f4a7c15u;
  return (size_t)(ga_splitmix64(&state) % s->n_blocks);
}

ga_status synth_tensor_bytes(void *user, uint64_t offset, void *data, size_t bytes) {
  const synth_tensor *t = user;
  const synth_stock *s = &t->all->stocks[t->stock];
  const uint64_t run_bytes = (uint64_t)RUN_BLOCKS * s->block_bytes,
                 stock_bytes = (uint64_t)s->n_blocks * s->block_bytes;
  for (size_t done = 0; done < bytes;) {
    const uint64_t at = offset + done, run = at / run_bytes, inside = at % run_bytes;
    const uint64_t from = (first_block(t, s, run) * s->block_bytes + inside) % stock_bytes;
    uint64_t n = run_bytes - inside;
    if (n > bytes - done) n = bytes - done;
    if (n > stock_bytes - from) n = stock_bytes - from;
    memcpy((char *)data + done, s->blocks + from, (size_t)n);
    done += (size_t)n;
  }
  t->all->done += bytes;
  cmd_progress("writing", t->all->done, t->all->total + 1); /* the last step is the end of the file */
  return interrupted() ? ga_fail(GA_ERR_CANCELLED, "stopped") : GA_OK;
}
