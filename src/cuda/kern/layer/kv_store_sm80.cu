/* KERNEL    kv_store, sm80
 * COMPUTES  cache[slot[t]] = K[t] and V[t], rounded to the cache's type, in e4m3 with a scale a head; equal to
 *           ga_ref_kv_store bit by bit, NaN apart. With rot_dim K is rotated before the store and Q in place, like in
 *           the rope kernel
 * CONTRACT  slots below 0 or beyond the cache store nothing; no slot twice
 * DATA      gmem -> registers -> gmem: an element of K or V, or a pair of Q, a lane; 32 of K or V are a block of q8_0
 *           and q4_0. In e4m3 a warp has a head at once: up to RUNS elements a lane
 * WORK      an angle is computed once for `chunk` heads: a warp takes a run of 32 elements or pairs in `chunk` heads of
 *           one token
 * BUDGET    THREADS lanes. Two variants: a head of e4m3 in a warp takes 118 registers, all other types 80
 *           (docs/log/cuda-decode.md)
 */
#include "cuda/dev/tile/e4m3.h"
#include "cuda/kern/layer/kv_element.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SCALED
#error "GA_P_SCALED: 1: of e4m3, with scales; 0: of all other types"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { AHEAD = 4 /* loads of a lane under way */, RUNS = 8 /* of 32 elements, of a head in e4m3 */ };

/* Runs of 32 elements of token t's row of K or V: `first`, first + step and so on, n of them; of K all are one place of
 * their heads. */
GA_DEV void store_runs(const ga_kargs_kv_store *a, int64_t t, int first, int step, int n, bool is_k) {
  const int width = is_k ? a->k_width : a->v_width, lane = thread_index() % 32, i0 = first * 32 + lane;
  const int64_t slot = a->slot[t], from = t * (is_k ? a->k_stride : a->v_stride);
  const void *x = is_k ? a->k : a->v;
  void *cache = is_k ? a->k_cache : a->v_cache;
  element_rotation rotation = {1, 0, 0};
  if (slot < 0 || slot >= a->slots) return;
  if (is_k && a->rot_dim && i0 < width) rotation = rotation_of_element(a, i0 % a->head_dim, a->positions[t]);
  for (int j = 0; j < n; j += AHEAD) {
    float v[AHEAD], other[AHEAD];
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = i0 + (j + b) * step * 32;
      v[b] = other[b] = 0;
      if (j + b >= n || i >= width) continue;
      v[b] = plain_get(a->x_dtype, x, from + i);
      if (rotation.partner) other[b] = plain_get(a->x_dtype, x, from + i + rotation.partner);
    }
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = i0 + (j + b) * step * 32;
      if (j + b >= n) break;
      store_element(a, cache, slot, width, i, rotated(a, &rotation, v[b], other[b]));
    }
  }
}

/* Heads [head, head + n) of token t's row of K or V in e4m3: a lane has elements lane, lane + 32 and so on. */
GA_DEV void store_scaled(const ga_kargs_kv_store *a, int64_t t, int head, int n, bool is_k) {
  const int heads = a->k_width / a->head_dim, dim = is_k ? a->head_dim : a->v_width / heads, lane = thread_index() % 32;
  const int64_t slot = a->slot[t];
  const void *x = is_k ? a->k : a->v;
  uint8_t *cache = (uint8_t *)(is_k ? a->k_cache : a->v_cache);
  float *scale = is_k ? a->k_scale : a->v_scale;
  element_rotation rotation[RUNS];
  if (slot < 0 || slot >= a->slots) return;
  GA_UNROLL for (int r = 0; r < RUNS; r++) {
    const element_rotation none = {1, 0, 0};
    rotation[r] = none;
    if (is_k && a->rot_dim && 32 * r + lane < dim) rotation[r] = rotation_of_element(a, 32 * r + lane, a->positions[t]);
  }
  for (int h = head; h < head + n; h++) {
    const int64_t from = t * (is_k ? a->k_stride : a->v_stride) + (int64_t)h * dim + lane,
                  to = (slot * heads + h) * dim + lane;
    float y[RUNS], other[RUNS], most = 0;
    GA_UNROLL for (int r = 0; r < RUNS; r++) { /* all loads under way at once */
      y[r] = 32 * r + lane < dim ? plain_get(a->x_dtype, x, from + 32 * r) : 0.0f;
      other[r] = rotation[r].partner ? plain_get(a->x_dtype, x, from + 32 * r + rotation[r].partner) : 0.0f;
    }
    GA_UNROLL for (int r = 0; r < RUNS; r++) {
      y[r] = rotated(a, &rotation[r], y[r], other[r]);
      most = fmaxf(most, fabsf(y[r])); /* which is no NaN: bits in the order of numbers */
    }
    const float unit = e4m3_scale(__uint_as_float((uint32_t)redux_max_i32((int)float_bits(most))));
    GA_UNROLL for (int r = 0; r < RUNS; r++) if (32 * r + lane < dim) cache[to + 32 * r] = e4m3_of(y[r] / unit);
    if (lane == 0) scale[(int64_t)h * a->slots + slot] = unit;
  }
}

/* Pair `pair` of n heads of token t's row of Q, in place. */
GA_DEV void rope_heads(const ga_kargs_kv_store *a, int64_t t, int pair, int head, int n) {
  const int half = a->rot_dim / 2, first = a->pairs == PAIRS_NEOX ? pair : 2 * pair,
            partner = a->pairs == PAIRS_NEOX ? half : 1;
  const int64_t at0 = t * a->q_stride + (int64_t)head * a->head_dim + first;
  float c, s;
  if (pair >= half) return;
  rope_cos_sin(a->positions[t], a->inv_freq[pair], &c, &s);
  for (int j = 0; j < n; j += AHEAD) {
    float x[AHEAD], y[AHEAD];
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      x[b] = y[b] = 0;
      if (j + b >= n) continue;
      x[b] = plain_get(a->x_dtype, a->q, at0 + (j + b) * a->head_dim);
      y[b] = plain_get(a->x_dtype, a->q, at0 + (j + b) * a->head_dim + partner);
    }
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      if (j + b >= n) break;
      plain_put(a->x_dtype, a->q, at0 + (j + b) * a->head_dim, a->magnitude * (x[b] * c - y[b] * s));
      plain_put(a->x_dtype, a->q, at0 + (j + b) * a->head_dim + partner, a->magnitude * (x[b] * s + y[b] * c));
    }
  }
}

GA_DEV int imin(int x, int most) { return x < most ? x : most; }

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_kv_store a) {
  /* Units of a token: of K a run of 32 in `chunk` heads (where heads are whole runs; else of the row), of V `chunk`
   * runs, of Q 32 pairs in `chunk` heads. In e4m3 a head is one run. */
  const bool scaled = GA_P_SCALED, whole = scaled || a.head_dim % 32 == 0;
  const int k_heads = whole ? a.k_width / a.head_dim : 1, k_runs = scaled  ? 1
                                                                   : whole ? a.head_dim / 32
                                                                           : a.k_width / 32 + 1;
  const int v_runs = scaled ? k_heads : (a.v_width + 31) / 32, q_runs = (a.rot_dim / 2 + 31) / 32;
  const int k_units = k_runs * ((k_heads + a.chunk - 1) / a.chunk), v_units = (v_runs + a.chunk - 1) / a.chunk;
  const int per_token = k_units + v_units + q_runs * ((a.q_heads + a.chunk - 1) / a.chunk);
  grid_dependency_wait();
  grid_launch_dependents();
  const int64_t warps = (int64_t)block_count() * (GA_P_THREADS / 32);
  for (int64_t u = (int64_t)block_index() * (GA_P_THREADS / 32) + thread_index() / 32; u < a.tokens * per_token;
       u += warps) {
    const int64_t t = u >> 31 ? u / per_token : (int)u / per_token;
    const int at = (int)(u - t * per_token), v = (at - k_units) * a.chunk, q = at - k_units - v_units,
              head = at / k_runs * a.chunk;
    if (scaled && at < k_units)
      store_scaled(&a, t, head, imin(a.chunk, k_heads - head), true);
    else if (scaled && q < 0)
      store_scaled(&a, t, v, imin(a.chunk, k_heads - v), false);
    else if (at < k_units)
      store_runs(&a, t, head * k_runs + at % k_runs, k_runs, imin(a.chunk, k_heads - head), true);
    else if (q < 0)
      store_runs(&a, t, v, 1, imin(a.chunk, v_runs - v), false);
    else
      rope_heads(&a, t, q % q_runs * 32 + thread_index() % 32, q / q_runs * a.chunk,
                 imin(a.chunk, a.q_heads - q / q_runs * a.chunk));
  }
}
