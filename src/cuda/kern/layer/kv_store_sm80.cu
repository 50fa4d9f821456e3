/* KERNEL    kv_store, sm80
 * COMPUTES  cache[slot[t]] = K[t] and V[t], rounded to the cache's type; equal to ga_ref_kv_store bit by bit, NaN apart. With rot_dim K turns on
 *           its way and Q in place, as the rope kernel has it
 * CONTRACT  slots below 0 or beyond the cache store nothing; no slot twice
 * DATA      gmem -> registers -> gmem: an element of K or V, or a pair of Q, a lane; 32 of K or V are a block of q8_0 and q4_0
 * BUDGET    THREADS lanes; a warp takes 32 elements or pairs of one token, round-robin
 */
#include "cuda/dev/tile/e4m3.h"
#include "cuda/dev/tile/rotary.h"
#include "core/kargs_layer.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif

GA_DEV int round_within(float x, int low, int high) {
  if (!(x > (float)low)) return low;
  return x >= (float)high ? high : (int)rintf(x);
}

/* Blocks have no infinities: what is not finite counts as 0. */
GA_DEV float finite(float x) { return (float_bits(x) & 0x7f800000u) == 0x7f800000u ? 0.0f : x; }

/* The lanes' element of largest size, the first of equals. */
GA_DEV float largest(float x) {
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

/* The warp's 32 elements as block b. */
GA_DEV void store_block(int type, float x, uint8_t *b) {
  const int lane = thread_index() % 32;
  const float v = finite(x), most = largest(v);
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

/* Element i of a token's row of K, turned, or of V. */
GA_DEV float value_at(const ga_kargs_kv_store *a, const void *x, int64_t from, int i, int position, bool is_k) {
  const float v = plain_get(a->x_dtype, x, from + i);
  if (!is_k || !a->rot_dim) return v;
  const int e = i % a->head_dim, half = a->rot_dim / 2;
  if (e >= a->rot_dim) return v;
  const bool neox = a->pairs == PAIRS_NEOX, first = neox ? e < half : e % 2 == 0;
  const int p = !neox ? e / 2 : first ? e : e - half, step = neox ? half : 1;
  const float other = plain_get(a->x_dtype, x, from + i + (first ? step : -step));
  float c, s;
  turn_of(position, a->inv_freq[p], &c, &s);
  return a->magnitude * (first ? v * c - other * s : other * s + v * c);
}

/* A warp's 32 elements from `first` on of token t's row of K or V. */
GA_DEV void store(const ga_kargs_kv_store *a, int64_t t, int first, bool is_k) {
  const int width = is_k ? a->k_width : a->v_width, i = first + thread_index() % 32;
  const int64_t slot = a->slot[t], to = slot * width + i;
  void *cache = is_k ? a->k_cache : a->v_cache;
  const int position = is_k && a->rot_dim ? a->positions[t] : 0;
  if (slot < 0 || slot >= a->slots) return;
  const float v = i < width ? value_at(a, is_k ? a->k : a->v, t * (is_k ? a->k_stride : a->v_stride), i, position, is_k) : 0.0f;
  if (a->kv_dtype >= T_Q4_0) store_block(a->kv_dtype, v, (uint8_t *)cache + (slot * width + first) / 32 * quant_block_bytes(a->kv_dtype));
  else if (i >= width) return;
  else if (a->kv_dtype == T_E4M3) ((uint8_t *)cache)[to] = e4m3_of(v);
  else plain_put(a->kv_dtype, cache, to, v);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_kv_store a) {
  const int k_warps = (a.k_width + 31) / 32, v_warps = (a.v_width + 31) / 32, half = a.rot_dim / 2, pairs = a.q_heads * half;
  const int per_token = k_warps + v_warps + (pairs + 31) / 32;
  grid_dependency_wait();
  grid_launch_dependents();
  const int64_t warps = (int64_t)block_count() * (GA_P_THREADS / 32);
  for (int64_t u = (int64_t)block_index() * (GA_P_THREADS / 32) + thread_index() / 32; u < a.tokens * per_token; u += warps) {
    const int64_t t = u / per_token;
    const int at = (int)(u - t * per_token), i = (at - k_warps - v_warps) * 32 + thread_index() % 32;
    if (at < k_warps) store(&a, t, at * 32, true);
    else if (at < k_warps + v_warps) store(&a, t, (at - k_warps) * 32, false);
    else if (i < pairs)
      turn_pair(a.x_dtype, a.q, t * a.q_stride + i / half * a.head_dim, i % half, half, a.pairs, a.positions[t], a.inv_freq[i % half], a.magnitude);
  }
}
