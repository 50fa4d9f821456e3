/* Units of work of the quantisers attn_quant_sm90a.cu and attn_quant_values_sm90a.cu. */
#pragma once
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"

typedef const ga_kargs_attn_quant *args;

/* A unit of work: 128 tokens of a head. Consecutive units have consecutive heads, because the heads of a token are
 * adjacent. */
typedef struct {
  int batch, block, head;
} block_coord;

GA_DEV block_coord block_coord_of(args a, int unit) {
  const int blocks = unit / a->heads;
  const block_coord p = {blocks / a->units_per_head, blocks % a->units_per_head, unit % a->heads};
  return p;
}
/* Returns the largest of the lanes' values, all of which are at least 0. */
GA_DEV float warp_most(float most) { return float_of(redux_max_i32(bits_of(most))); }
