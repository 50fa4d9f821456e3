/* Functions that store one element of K or V in the cache: its rotation, and its conversion to the cache's type. */
#pragma once
#include "cuda/dev/tile/rotary.h"
#include "cuda/kern/layer/layer_args.h"

/* Rotation of one element of a head: c is the cosine and s the sine of its angle. */
typedef struct {
  float c, s;
  /* Distance from the element to the other element of its pair. 0: the element is not rotated. */
  int partner;
} element_rotation;

GA_DEV element_rotation rotation_of_element(const ga_kargs_kv_store *a, int e, int position) {
  const int half = a->rot_dim / 2;
  const bool neox = a->pairs == PAIRS_NEOX, first = neox ? e < half : e % 2 == 0;
  element_rotation t = {1, 0, 0};
  if (e >= a->rot_dim) return t;
  t.partner = (first ? 1 : -1) * (neox ? half : 1);
  rope_cos_sin(position, a->inv_freq[neox ? first ? e : e - half : e / 2], &t.c, &t.s);
  return t;
}

GA_DEV float rotated(const ga_kargs_kv_store *a, const element_rotation *t, float v, float other) {
  if (!t->partner) return v;
  return a->magnitude * (t->partner > 0 ? v * t->c - other * t->s : other * t->s + v * t->c);
}

GA_DEV int round_within(float x, int low, int high) {
  if (!(x > (float)low)) return low;
  return x >= (float)high ? high : (int)rintf(x);
}

/* Returns x, or 0 if x is not finite, because quantised blocks have no infinities. */
GA_DEV float finite(float x) { return (float_bits(x) & 0x7f800000u) == 0x7f800000u ? 0.0f : x; }

/* Returns the element of largest magnitude over the warp's lanes; among elements of equal magnitude, the element of the
 * lowest lane. */
GA_DEV float largest_of_warp(float x) {
  int at = thread_index() % 32;
  GA_UNROLL for (int m = 1; m < 32; m *= 2) {
    const float other = shfl_xor_f32(x, m);
    const int other_at = (int)shfl_xor_u32((uint32_t)at, m);
    const bool larger = fabsf(other) > fabsf(x) || (fabsf(other) == fabsf(x) && other_at < at);
    x = larger ? other : x;
    at = larger ? other_at : at;
  }
  return x;
}

/* Stores 32 elements, one from each lane of the warp, as the quantised block at b. */
GA_DEV void store_block(int type, float x, uint8_t *b) {
  const int lane = thread_index() % 32;
  const float v = finite(x), most = largest_of_warp(v);
  const uint16_t d = elem_f16_of_f32(type == T_Q8_0 ? fabsf(most) / 127 : most / -8);
  const float scale = elem_f32_of_f16(d), id = scale != 0 ? 1 / scale : 0;
  if (lane < 2) b[lane] = (uint8_t)(d >> 8 * lane);
  if (type == T_Q8_0) {
    b[2 + lane] = (uint8_t)round_within(elem_mul(v, id), -127, 127);
    return;
  }
  const uint32_t code = (uint32_t)round_within(elem_mul(v, id) + 8, 0, 15), high = shfl_down_u32(code, 16);
  if (lane < 16) b[2 + lane] = (uint8_t)(code | high << 4);
}

/* Stores y as element i of row `slot` of a cache whose type is not e4m3. For block types all lanes of the warp must
 * call with 32 consecutive elements; i is this lane's element. */
GA_DEV void store_element(const ga_kargs_kv_store *a, void *cache, int64_t slot, int width, int i, float y) {
  const int lane = thread_index() % 32;
  if (a->kv_dtype >= T_Q4_0)
    store_block(a->kv_dtype, y, (uint8_t *)cache + (slot * width + i - lane) / 32 * quant_block_bytes(a->kv_dtype));
  else if (i >= width)
    return;
  else
    plain_put(a->kv_dtype, cache, slot * width + i, y);
}
