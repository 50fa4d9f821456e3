/* KERNEL    kv_store, normed, sm80
 * COMPUTES  each head of Q and K divided by sqrt(mean of its squares + eps), times weights, then rotated like in the
 *           rope kernel: Q in place, K into cache[slot[t]], and V with it, rounded to the cache's type like in
 *           kv_store_sm80.cu
 * CONTRACT  slots below 0 or beyond the cache store nothing; no slot twice; heads of at most THREADS elements
 * DATA      an element a lane: gmem -> register -> gmem. Pairs of a rotation are exchanged in shared memory, so that
 *           Q may be in place
 * WORK      a block has as many heads of a token at a time as fit, whole warps each, `chunk` times in a row: Q's heads,
 *           K's, V's. Data that depends only on the place in a head is loaded before the previous kernel has ended
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     twice an iteration of the loop: sums of squares -> their reads; normed elements ->
 *                                    their reads
 * BUDGET    THREADS lanes; little code, because one token also waits for its instructions. A warp a head, eight
 *           elements a lane unrolled (147 registers), lost more at heads of 256 than the launches it saved
 *           (docs/log/models.md)
 */
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/layer/kv_element.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

typedef struct {
  float sum[GA_P_THREADS / 32]; /* of a warp's squares */
  float value[GA_P_THREADS];    /* normed */
} head_shared;

/* This lane's element of a head: v of Q, K or V as it came. */
typedef struct {
  bool here, is_q, is_k;
  int at; /* in its row of the cache, or of Q */
  float v;
} element;

GA_DEV element element_of(const ga_kargs_kv_store *a, int64_t t, int kv_heads, int v_dim, int h, int e) {
  element x;
  x.is_q = h < a->q_heads;
  x.is_k = !x.is_q && h < a->q_heads + kv_heads;
  const int dim = x.is_q || x.is_k ? a->head_dim : v_dim;
  x.here = e < dim && h < a->q_heads + 2 * kv_heads;
  x.at = (x.is_q ? h : x.is_k ? h - a->q_heads : h - a->q_heads - kv_heads) * dim + e;
  const int64_t row = t * (x.is_q ? a->q_stride : x.is_k ? a->k_stride : a->v_stride);
  x.v = x.here ? plain_get(a->x_dtype, x.is_q ? a->q : x.is_k ? a->k : a->v, row + x.at) : 0.0f;
  return x;
}

/* v normed, with `lanes` lanes from `first` on that have the others of its head. All threads of the block call. */
GA_DEV float normed(const ga_kargs_kv_store *a, head_shared *s, int first, int lanes, float v, float weight) {
  const float squares = row_sum_warp(v * v);
  float sum = 0;
  if (thread_index() % 32 == 0) s->sum[thread_index() / 32] = squares;
  block_sync();
  for (int w = first / 32; w < (first + lanes) / 32; w++) sum += s->sum[w];
  return v * (1.0f / sqrtf(sum / (float)a->head_dim + a->norm_eps)) * weight;
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_kv_store a) {
  GA_SHARED head_shared shared;
  const int kv_heads = a.k_width / a.head_dim, v_dim = a.v_width / kv_heads, heads = a.q_heads + 2 * kv_heads;
  const int at_once = GA_P_THREADS / a.lanes, a_unit = at_once * a.chunk,
            units = (heads + a_unit - 1) / a_unit; /* of a token */
  const int mine = thread_index() / a.lanes, first = mine * a.lanes;
  const bool here = mine < at_once; /* the others come to barriers only */
  const int e = here ? thread_index() - first : GA_P_THREADS;
  const float q_weight = e < a.head_dim ? a.q_norm[e] : 0, k_weight = e < a.head_dim ? a.k_norm[e] : 0;
  element_rotation rotation = {1, 0, 0};
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t u = block_index(); u < a.tokens * units; u += block_count()) {
    const int64_t t = u >> 31 ? u / units : (int)u / units;
    const int h0 = (int)(u - t * units) * a_unit, end = h0 + a_unit < heads ? h0 + a_unit : heads;
    for (int h = h0; h < end; h += at_once) {
      const element x = element_of(&a, t, kv_heads, v_dim, h + mine, e);
      if (h == h0 && e < a.head_dim) rotation = rotation_of_element(&a, e, a.positions[t]); /* x is under way */
      const int64_t slot = a.slot[t];
      const float y = normed(&a, &shared, first, here ? a.lanes : 0, x.v, x.is_q ? q_weight : k_weight);
      shared.value[thread_index()] = y;
      block_sync(); /* also: sums are read before those of the next heads are written */
      const float z = rotated(&a, &rotation, y, shared.value[thread_index() + rotation.partner]);
      if (!x.here) continue;
      if (x.is_q)
        plain_put(a.x_dtype, a.q, t * a.q_stride + x.at, z);
      else if (slot < 0 || slot >= a.slots)
        continue;
      else if (x.is_k)
        store_element(&a, a.k_cache, slot, a.k_width, x.at, z);
      else
        store_element(&a, a.v_cache, slot, a.v_width, x.at, x.v);
    }
  }
}
