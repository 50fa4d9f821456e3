/* The layout of attention's 8-bit inputs in memory, for oracles, CPU kernels and checks. */
#ifndef GA_OPDEF_ATTN_FP8_H
#define GA_OPDEF_ATTN_FP8_H

#include "base/mem.h"
#include "base/rng.h"
#include "ga/attn_quant.h"

enum {
  GA_ATTN_FP8_BLOCK = 128, /* number of keys of a block; V is padded to whole blocks */
  GA_ATTN_FP8_DIM_MAX = 1024
};

/* Returns whether ga_attn_quant writes y as i8 and not as e4m3. Oracles of `ga check` write unrounded results instead:
 * f32 for i8, f64 for e4m3. */
static inline bool ga_attn_quant_is_i8(int32_t y_dtype) { return y_dtype == GA_I8 || y_dtype == GA_F32; }
/* Returns the largest magnitude of an element of y, in units of the scale. */
static inline int32_t ga_attn_quant_largest(int32_t y_dtype) { return ga_attn_quant_is_i8(y_dtype) ? 127 : 448; }

/* Returns whether Q, K and V are 8-bit and have scales. */
static inline bool ga_attn_is_scaled(const ga_attn_desc *d) { return d->q_dtype == GA_E4M3 || d->q_dtype == GA_I8; }
/* Returns the type of K. If Q is i8, K is, too, and kv_dtype is the type of V. */
static inline ga_dtype ga_attn_k_dtype(const ga_attn_desc *d) {
  return (ga_dtype)(d->q_dtype == GA_I8 ? GA_I8 : d->kv_dtype);
}

static inline int64_t ga_attn_fp8_padded(int64_t tokens) {
  return ga_div_up(tokens, GA_ATTN_FP8_BLOCK) * GA_ATTN_FP8_BLOCK;
}

/* Returns the column of V^T that holds a key. Within 32 keys, key 16 h + 8 b + 2 q + e is in column 16 h + 4 q + 2 b +
 * e (h, b and e 0 or 1, q 0 to 3). Four lanes share a row of S; lane q has columns 2 q and 2 q + 1 of each group of 8.
 * In the product with V its registers stand for four neighbouring columns of P (PTX ISA, wgmma fragments of m64nNk32).
 * With this order of V, P needs no shuffle. */
static inline int64_t ga_attn_fp8_slot(int64_t key) {
  return (key & ~(int64_t)15) | (key >> 1 & 3) << 2 | (key >> 3 & 1) << 1 | (key & 1);
}

static inline float ga_attn_scale_at(const ga_attn_scale *s, int64_t batch, int64_t head, int64_t token,
                                     int32_t scale_tokens) {
  return s->data[batch * s->batch + head * s->head + (scale_tokens ? token / scale_tokens * s->block : 0)];
}

/* Computes the signs of the Hadamard transform of a head: element i is negated if bit i % 64 of word i / 64 is set. */
static inline void ga_attn_quant_signs(uint32_t seed, uint64_t word[GA_ATTN_FP8_DIM_MAX / 64]) {
  uint64_t state = seed;
  for (int i = 0; i < GA_ATTN_FP8_DIM_MAX / 64; i++) word[i] = ga_splitmix64(&state);
}

#endif
