/* KERNEL    rope, sm80
 * COMPUTES  pair p of each head of X is rotated by position * inv_freq[p]; magnitude multiplies cos and sin
 * CONTRACT  in place; pairs (2i, 2i+1) or (i, i + rot/2); angles are reduced in double, like in ga_ref_rope
 * DATA      gmem -> registers -> gmem, one pair a lane
 * BUDGET    THREADS lanes; units of THREADS pairs of one token, round-robin
 */
#include "cuda/dev/tile/rotary.h"
#include "cuda/kern/layer/layer_args.h"

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

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_rope a) {
  const int half = a.rot_dim / 2;
  const int64_t pairs = (int64_t)a.heads * half, per_token = (pairs + GA_P_THREADS - 1) / GA_P_THREADS;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t u = block_index(); u < per_token * a.tokens; u += block_count()) {
    const int64_t t = u / per_token, i = (u - t * per_token) * GA_P_THREADS + thread_index();
    if (i >= pairs) continue;
    const int64_t h = i / half, p = i - h * half;
    rope_pair(a.x_dtype, a.x, t * a.x_stride + h * a.head_dim, p, half, a.pairs, a.positions[t], a.inv_freq[p],
              a.magnitude);
  }
}
