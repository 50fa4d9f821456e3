/* Units of work of attn_quant_sm90a.cu and attn_quant_values_sm90a.cu. */
#pragma once
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"

typedef const ga_kargs_attn_quant *args;

/* A unit of 128 tokens of a head. Heads vary fastest, because the heads of a token are adjacent. */
typedef struct {
  int batch, block, head;
} block_coord;

GA_DEV block_coord block_coord_of(args a, int unit) {
  const int blocks = unit / a->heads;
  const block_coord p = {blocks / a->units_per_head, blocks % a->units_per_head, unit % a->heads};
  return p;
}
/* Returns the largest of a warp's values, none of which is below 0. */
GA_DEV float warp_most(float most) { return float_of(redux_max_i32(bits_of(most))); }
