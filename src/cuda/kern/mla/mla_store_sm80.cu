/* KERNEL    mla_store, sm80
 * COMPUTES  cache[slot[t]] = [norm(c), rope(r)] of each row [c, r] of X (ga/mla.h), rounded once to the cache's type.
 *           e4m3: codes, a scale for each 128 of them, and the key in bf16
 * CONTRACT  slots below 0 or beyond the cache store nothing; no slot twice; a row has at most 1024 elements
 * DATA      an element a lane: gmem -> register -> gmem. A lane loads the partner of a rotated element, too
 * WORK      a block has a token at a time, all its elements at once
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     once a token with a norm: sums of squares of warps -> their reads; of e4m3 once
 *                                    a block: maxima of warps -> their reads. Successive barriers use two sets of
 *                                    numbers alternately
 * BUDGET    THREADS lanes; 256 B of shared memory
 */
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/dev/tile/e4m3.h"
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
static_assert(GA_P_THREADS == 128, "lanes have an element each of a block of codes");

/* Returns the scale of a block whose largest magnitude is `most`, as ga_mla_scale of opdef/mla_at.h. */
GA_DEV float scale_of_codes(float most) {
  const float least = most / 448.0f;
  const uint32_t bits = float_bits(least), e = (bits >> 23) + ((bits & 0x7fffffu) != 0);
  return least > 0 ? __uint_as_float((e < 17 ? 17 : e > 246 ? 246 : e) << 23) : 1.0f;
}

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
  const bool codes = a.kv_dtype == T_E4M3;
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
    uint8_t *row = (uint8_t *)a.cache + slot * (a.v_dim + a.v_dim / 32 + 2 * a.rot_dim); /* of codes */
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
      if (codes && e * GA_P_THREADS < a.v_dim) {
        const float y = x[e] * factor * weight[e];
        const float scale = scale_of_codes(row_max(&shared, turn++, GA_P_THREADS, y != y ? 0.0f : fabsf(y)));
        row[i] = e4m3_of(y / scale);
        if (thread_index() == 0) stg_f32((float *)(row + a.v_dim) + e, scale);
        continue;
      }
      if (i >= width) continue;
      const float y = i < a.v_dim ? x[e] * factor * weight[e] : turned(&a, from + a.v_dim, i - a.v_dim, a.positions[t]);
      if (codes)
        elem_put_bf16(row + a.v_dim + a.v_dim / 32, i - a.v_dim, y);
      else
        plain_put(a.kv_dtype, a.cache, to + i, y);
    }
  }
}
