/* KERNEL    kv_store, sm80
 * COMPUTES  cache[slot[t]] = K[t] and V[t], rounded to the cache's type; equal to ga_ref_kv_store bit by bit, NaN apart
 * CONTRACT  slots below 0 or beyond the cache store nothing; no slot twice
 * DATA      gmem -> registers -> gmem: an element a lane, or a block of 32 of q8_0 and q4_0
 * BUDGET    THREADS lanes; units of THREADS pieces of one token's row, K's and then V's, round-robin
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/tile/quant.h"
#include "core/kargs_layer.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif

/* To nearest even, at most 448: exponents below -6 share that of the smallest normal. */
GA_DEV uint8_t e4m3_of(float x) {
  const float a = fminf(fabsf(x), 448.0f);
  int e = (int)(float_bits(a) >> 23) - 127;
  if (e < -6) e = -6;
  const float q = rintf(a * __uint_as_float((uint32_t)(127 + 3 - e) << 23));
  if (x != x) return 0x7f;
  return (uint8_t)((float_bits(x) >> 31 << 7) | ((uint32_t)(int)q + ((uint32_t)(e + 6) << 3)));
}

GA_DEV int round_within(float x, int low, int high) {
  if (!(x > (float)low)) return low;
  return x >= (float)high ? high : (int)rintf(x);
}

/* Blocks have no infinities: what is not finite counts as 0. */
GA_DEV float finite_at(const ga_kargs_kv_store *a, const void *x, int64_t i) {
  const float v = plain_get(a->x_dtype, x, i);
  return (float_bits(v) & 0x7f800000u) == 0x7f800000u ? 0.0f : v;
}

/* Block `b` of 32 elements from element i of x on. */
GA_DEV void store_block(const ga_kargs_kv_store *a, const void *x, int64_t i, uint8_t *b) {
  float most = 0;
  for (int e = 0; e < 32; e++) {
    const float v = finite_at(a, x, i + e);
    if (fabsf(v) > fabsf(most)) most = v;
  }
  const uint16_t d = elem_f16_of_f32(a->kv_dtype == T_Q8_0 ? fabsf(most) / 127 : most / -8);
  const float scale = elem_f32_of_f16(d), id = scale != 0 ? 1 / scale : 0;
  b[0] = (uint8_t)d;
  b[1] = (uint8_t)(d >> 8);
  for (int e = 0; e < 32 && a->kv_dtype == T_Q8_0; e++)
    b[2 + e] = (uint8_t)round_within(elem_mul(finite_at(a, x, i + e), id), -127, 127);
  for (int e = 0; e < 16 && a->kv_dtype == T_Q4_0; e++) {
    const int low = round_within(elem_mul(finite_at(a, x, i + e), id) + 8, 0, 15);
    b[2 + e] = (uint8_t)(low | round_within(elem_mul(finite_at(a, x, i + e + 16), id) + 8, 0, 15) << 4);
  }
}

GA_DEV void store_piece(const ga_kargs_kv_store *a, const void *x, int64_t stride, void *cache, int64_t width, int64_t t, int64_t piece) {
  const int64_t slot = a->slot[t];
  if (slot < 0 || slot >= a->slots) return;
  const int64_t from = t * stride, to = slot * width;
  if (a->kv_dtype >= T_Q4_0) {
    store_block(a, x, from + 32 * piece, (uint8_t *)cache + (to / 32 + piece) * quant_block_bytes(a->kv_dtype));
  } else {
    const float v = plain_get(a->x_dtype, x, from + piece);
    if (a->kv_dtype == T_E4M3) ((uint8_t *)cache)[to + piece] = e4m3_of(v);
    else plain_put(a->kv_dtype, cache, to + piece, v);
  }
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_kv_store a) {
  const int each = a.kv_dtype >= T_Q4_0 ? 32 : 1;
  const int64_t k_pieces = a.k_width / each, pieces = k_pieces + a.v_width / each;
  const int64_t per_token = (pieces + GA_P_THREADS - 1) / GA_P_THREADS;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t u = block_index(); u < per_token * a.tokens; u += block_count()) {
    const int64_t t = u / per_token, i = (u - t * per_token) * GA_P_THREADS + thread_index();
    if (i < k_pieces) store_piece(&a, a.k, a.k_stride, a.k_cache, a.k_width, t, i);
    else if (i < pieces) store_piece(&a, a.v, a.v_stride, a.v_cache, a.v_width, t, i - k_pieces);
  }
}
