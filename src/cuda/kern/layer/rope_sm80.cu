/* KERNEL    rope, sm80
 * COMPUTES  pair p of each head of X turns by position * inv_freq[p]; magnitude times cos and sin
 * CONTRACT  in place; pairs (2i, 2i+1) or (i, i + rot/2); angles are reduced in double, as ga_ref_rope has them
 * DATA      gmem -> registers -> gmem, one pair a lane
 * BUDGET    THREADS lanes; units of THREADS pairs of one token, round-robin
 */
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/tile/quant.h"
#include "core/kargs_layer.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif

enum { PAIRS_NEOX = 1 }; /* ga_rope_pairs */

/* The angle is reduced in double: far positions keep their phase. */
GA_DEV void turn_of(int position, float freq, float *cosine, float *sine) {
  const double turns = (double)position * (double)freq * 0.15915494309189535 /* 1 / 2 pi */;
  sincos_pi((float)(2.0 * (turns - rint(turns))), sine, cosine);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_rope a) {
  const int half = a.rot_dim / 2;
  const int64_t pairs = (int64_t)a.heads * half, per_token = (pairs + GA_P_THREADS - 1) / GA_P_THREADS;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t u = block_index(); u < per_token * a.tokens; u += block_count()) {
    const int64_t t = u / per_token, i = (u - t * per_token) * GA_P_THREADS + thread_index();
    if (i >= pairs) continue;
    const int64_t h = i / half, p = i - h * half, head = t * a.x_stride + h * a.head_dim;
    const int64_t at0 = head + (a.pairs == PAIRS_NEOX ? p : 2 * p), at1 = a.pairs == PAIRS_NEOX ? at0 + half : at0 + 1;
    float c, s;
    turn_of(a.positions[t], a.inv_freq[p], &c, &s);
    const float x0 = plain_get(a.x_dtype, a.x, at0), x1 = plain_get(a.x_dtype, a.x, at1);
    plain_put(a.x_dtype, a.x, at0, a.magnitude * (x0 * c - x1 * s));
    plain_put(a.x_dtype, a.x, at1, a.magnitude * (x0 * s + x1 * c));
  }
}
