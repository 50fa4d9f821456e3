/* KERNEL    mla_store, sm80
 * COMPUTES  cache[slot[t]] = [norm(c), rope(r)] of each row [c, r] of X (ga/mla.h), rounded once to the cache's type
 * CONTRACT  slots below 0 or beyond the cache store nothing; no slot twice; a row has at most 1024 elements
 * DATA      an element a lane: gmem -> register -> gmem. A lane loads the partner of a rotated element, too
 * WORK      a block has a token at a time, all its elements at once
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     once a token with a norm: sums of squares of warps -> their reads. Successive
 *                                    tokens use two sets of sums alternately
 * BUDGET    THREADS lanes; 256 B of shared memory
 */
#include "cuda/dev/tile/block_row.h"
#include "cuda/dev/tile/rotary.h"
#include "cuda/kern/mla/mla_store_args.h"

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

enum { MOST = 1024 /* elements of a row */, EACH = MOST / GA_P_THREADS /* of a lane */ };

/* Returns this lane's element i of the rotated key, of which element 0 is element `from` of X. */
GA_DEV float turned(const ga_kargs_mla_store *a, int64_t from, int i, int position) {
  const int half = a->rot_dim / 2;
  const bool neox = a->pairs == PAIRS_NEOX, is_first = neox ? i < half : i % 2 == 0;
  const int other = i + (is_first ? 1 : -1) * (neox ? half : 1), pair = neox ? i % half : i / 2;
  float c, s;
  rope_cos_sin(position, a->inv_freq[pair], &c, &s);
  const float x = plain_get(a->x_dtype, a->x, from + i), y = plain_get(a->x_dtype, a->x, from + other);
  return a->magnitude * (is_first ? x * c - y * s : y * s + x * c);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_mla_store a) {
  GA_SHARED row_shared shared;
  const int width = a.v_dim + a.rot_dim;
  float weight[EACH];
  GA_UNROLL for (int e = 0; e < EACH; e++) {
    const int i = thread_index() + e * GA_P_THREADS;
    weight[e] = a.norm && i < a.v_dim ? a.norm[i] : 1.0f;
  }
  grid_dependency_wait();
  grid_launch_dependents();
  int turn = 0;
  for (int64_t t = block_index(); t < a.tokens; t += block_count()) {
    const int64_t slot = a.slot[t], from = t * a.x_stride, to = slot * width;
    float x[EACH], squares = 0, factor = 1;
    if (slot < 0 || slot >= a.slots) continue;
    GA_UNROLL for (int e = 0; e < EACH; e++) {
      const int i = thread_index() + e * GA_P_THREADS;
      x[e] = i < a.v_dim ? plain_get(a.x_dtype, a.x, from + i) : 0.0f;
      squares += x[e] * x[e];
    }
    if (a.norm) factor = 1.0f / sqrtf(row_sum(&shared, turn++, GA_P_THREADS, squares) / (float)a.v_dim + a.norm_eps);
    GA_UNROLL for (int e = 0; e < EACH; e++) {
      const int i = thread_index() + e * GA_P_THREADS;
      if (i >= width) continue;
      const float y = i < a.v_dim ? x[e] * factor * weight[e] : turned(&a, from + a.v_dim, i - a.v_dim, a.positions[t]);
      plain_put(a.kv_dtype, a.cache, to + i, y);
    }
  }
}
