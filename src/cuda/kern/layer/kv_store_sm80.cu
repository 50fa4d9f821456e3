/* KERNEL    kv_store, sm80
 * COMPUTES  cache[slot[t]] = K[t] and V[t], rounded to the cache's type; equal to ga_ref_kv_store bit by bit, NaN apart. With rot_dim K turns on
 *           its way and Q in place, as the rope kernel has it
 * CONTRACT  slots below 0 or beyond the cache store nothing; no slot twice
 * DATA      gmem -> registers -> gmem: an element of K or V, or a pair of Q, a lane; 32 of K or V are a block of q8_0 and q4_0
 * WORK      an angle is worked out once for `chunk` heads: a warp takes a run of 32 elements or pairs in so many heads of one token
 * BUDGET    THREADS lanes; docs/perf/models.md has times
 */
#include "cuda/kern/layer/kv_element.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif

enum { AHEAD = 4 /* loads of a lane under way */ };

/* Runs of 32 elements of token t's row of K or V: `first`, first + step and so on, n of them; of K all are one place of their heads. */
GA_DEV void store_runs(const ga_kargs_kv_store *a, int64_t t, int first, int step, int n, bool is_k) {
  const int width = is_k ? a->k_width : a->v_width, lane = thread_index() % 32, i0 = first * 32 + lane;
  const int64_t slot = a->slot[t], from = t * (is_k ? a->k_stride : a->v_stride);
  const void *x = is_k ? a->k : a->v;
  void *cache = is_k ? a->k_cache : a->v_cache;
  element_turn turn = {1, 0, 0};
  if (slot < 0 || slot >= a->slots) return;
  if (is_k && a->rot_dim && i0 < width) turn = turn_of_element(a, i0 % a->head_dim, a->positions[t]);
  for (int j = 0; j < n; j += AHEAD) {
    float v[AHEAD], other[AHEAD];
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = i0 + (j + b) * step * 32;
      v[b] = other[b] = 0;
      if (j + b >= n || i >= width) continue;
      v[b] = plain_get(a->x_dtype, x, from + i);
      if (turn.partner) other[b] = plain_get(a->x_dtype, x, from + i + turn.partner);
    }
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = i0 + (j + b) * step * 32;
      if (j + b >= n) break;
      store_element(a, cache, slot, width, i, turned(a, &turn, v[b], other[b]));
    }
  }
}

/* Pair `pair` of n heads of token t's row of Q, in place. */
GA_DEV void turn_heads(const ga_kargs_kv_store *a, int64_t t, int pair, int head, int n) {
  const int half = a->rot_dim / 2, first = a->pairs == PAIRS_NEOX ? pair : 2 * pair, partner = a->pairs == PAIRS_NEOX ? half : 1;
  const int64_t at0 = t * a->q_stride + (int64_t)head * a->head_dim + first;
  float c, s;
  if (pair >= half) return;
  turn_of(a->positions[t], a->inv_freq[pair], &c, &s);
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

GA_DEV int at_most(int x, int most) { return x < most ? x : most; }

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_kv_store a) {
  /* Units of a token: of K a run of 32 in `chunk` heads (where heads are whole runs; else of the row), of V `chunk` runs, of Q 32 pairs in
   * `chunk` heads. */
  const bool whole = a.head_dim > 0 && a.head_dim % 32 == 0;
  const int k_runs = whole ? a.head_dim / 32 : a.k_width / 32 + 1, k_heads = whole ? a.k_width / a.head_dim : 1;
  const int v_runs = (a.v_width + 31) / 32, q_runs = (a.rot_dim / 2 + 31) / 32;
  const int k_units = k_runs * ((k_heads + a.chunk - 1) / a.chunk), v_units = (v_runs + a.chunk - 1) / a.chunk;
  const int per_token = k_units + v_units + q_runs * ((a.q_heads + a.chunk - 1) / a.chunk);
  grid_dependency_wait();
  grid_launch_dependents();
  const int64_t warps = (int64_t)block_count() * (GA_P_THREADS / 32);
  for (int64_t u = (int64_t)block_index() * (GA_P_THREADS / 32) + thread_index() / 32; u < a.tokens * per_token; u += warps) {
    const int64_t t = u >> 31 ? u / per_token : (int)u / per_token;
    const int at = (int)(u - t * per_token), v = (at - k_units) * a.chunk, q = at - k_units - v_units, head = at / k_runs * a.chunk;
    if (at < k_units) store_runs(&a, t, head * k_runs + at % k_runs, k_runs, at_most(a.chunk, k_heads - head), true);
    else if (q < 0) store_runs(&a, t, v, 1, at_most(a.chunk, v_runs - v), false);
    else turn_heads(&a, t, q % q_runs * 32 + thread_index() % 32, q / q_runs * a.chunk, at_most(a.chunk, a.q_heads - q / q_runs * a.chunk));
  }
}
