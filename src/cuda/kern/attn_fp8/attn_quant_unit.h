/* Units of work of the quantisers attn_quant_sm90a.cu and attn_quant_values_sm90a.cu. A unit is 128 tokens of a
 * head. */
#pragma once
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"

typedef const ga_kargs_attn_quant *args;

/* A unit of work: 128 tokens of a head. Consecutive units have consecutive heads, which are adjacent in memory. */
typedef struct {
  int batch, block, head;
} block_coord;

GA_DEV block_coord block_coord_of(args a, int unit) {
  const int blocks = unit / a->heads;
  const block_coord p = {blocks / a->units_per_head, blocks % a->units_per_head, unit % a->heads};
  return p;
}
/* Returns the largest `most` of the warp's lanes. All must be at least 0. */
GA_DEV float warp_most(float most) { return float_of(redux_max_i32(bits_of(most))); }
