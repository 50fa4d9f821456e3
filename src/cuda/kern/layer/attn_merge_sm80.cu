/* KERNEL    attn_merge, sm80
 * COMPUTES  partial results of attention over two sets of keys, merged by their LSE (ga/layer.h)
 * CONTRACT  f32, strides in elements, any alignment of the element
 * DATA      gmem -> registers -> gmem; O and its LSE in place
 * BUDGET    THREADS lanes; a warp takes a row of a head, round-robin
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/tile/block_row.h"
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

#define LN2 0.693147181f
enum { WARP = 32, WARPS = GA_P_THREADS / WARP };

/* Merges one row of a head, with one warp. */
GA_DEV void merge_attn_row(const ga_kargs_attn_merge *a, int64_t row, int32_t head, int lane) {
  float *o = a->o + row * a->o_token + head * a->o_head, *lse = a->lse + head * a->lse_head + row;
  const float *part = a->part + row * a->part_token + head * a->part_head;
  const int64_t at = head * a->part_lse_head + row;
  const float l = a->part_l ? a->part_l[at] : 1.0f, given = a->part_lse[at], old = *lse;
  const float more = a->part_l ? LN2 * (given + log2f(l)) : given;
  warp_sync(); /* all lanes have read the LSE */
  if (more == GA_NEG_INFINITY) return;
  const float top = old > more ? old : more, w_old = expf(old - top), w_more = expf(more - top);
  const float sum = w_old + w_more, mine = w_old / sum, theirs = w_more / sum;
  for (int32_t c = lane; c < a->dim; c += WARP) {
    const float kept = old == GA_NEG_INFINITY ? 0.0f : mine * o[c];
    o[c] = kept + theirs * (part[c] / l);
  }
  if (lane == 0) *lse = top + logf(sum);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_merge a) {
  const int64_t rows = a.rows * a.heads;
  const int warp = thread_index() / WARP, lane = thread_index() % WARP;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t i = (int64_t)block_index() * WARPS + warp; i < rows; i += (int64_t)block_count() * WARPS)
    merge_attn_row(&a, i / a.heads, (int32_t)(i % a.heads), lane);
}
