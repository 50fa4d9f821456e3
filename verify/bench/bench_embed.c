#include <stdio.h>

#include "verify/bench/bench.h"

static const int32_t types[] = {GA_F32, GA_F16, GA_Q8_0, GA_Q4_K};

/* Two for each type: one token, and a prompt. */
static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  (void)kernel;
  ga_embed_desc *d = desc;
  *d = (ga_embed_desc)GA_EMBED_DESC_INIT;
  d->w_dtype = types[i / 2];
  d->tokens = i % 2 ? 512 : 1;
  d->vocab = 8192;
  d->width = d->y_stride = 2048;
  (void)snprintf(name, BENCH_NAME, "%lldx2048 %s", (long long)d->tokens, ga_dtype_name((ga_dtype)d->w_dtype));
  return true;
}

/* The rows that are looked up, not the table. */
static double bytes(const void *desc) {
  const ga_embed_desc *d = desc;
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->w_dtype);
  return (double)d->tokens * (double)d->width * (4.0 + (double)t->block_bytes / t->block_elems);
}

const bench_op bench_embed = {
    .n_shapes = 2 * (int)GA_COUNT_OF(types), .shape = shape, .bytes = bytes, .bits = 1 /* good ids */};
