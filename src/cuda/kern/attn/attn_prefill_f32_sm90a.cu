/* KERNEL    attn_prefill_f32, sm90a: conversions before and after 16-bit attention when q and o are f32
 * COMPUTES  y = x in another type: q to that of K and V, later o from it. Values beyond the type's range become
 *           infinite
 * CONTRACT  see attn_prefill_f32_args.h. Another variant does the attention between them (attn_prefill_f32_sm90a.c)
 * BUDGET    256 lanes; a lane takes 8 columns
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/attn/attn_prefill_f32_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

GA_KERNEL(256, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_cast a) {
  const int64_t per = a.cols / 8, n = a.batch * a.tokens * a.heads * per;
  grid_launch_dependents();
  grid_dependency_wait();
  for (int64_t i = (int64_t)block_index() * 256 + thread_index(); i < n; i += (int64_t)block_count() * 256) {
    const int64_t col = i % per * 8, row = i / per, head = row % a.heads, token = row / a.heads % a.tokens,
                  batch = row / a.heads / a.tokens;
    const int64_t from = batch * a.x_stride[0] + token * a.x_stride[1] + head * a.x_stride[2] + col;
    const int64_t to = batch * a.y_stride[0] + token * a.y_stride[1] + head * a.y_stride[2] + col;
    float x[8];
    GA_UNROLL for (int e = 0; e < 8; e++) x[e] = plain_get(a.x_dtype, a.x, from + e);
    GA_UNROLL for (int e = 0; e < 8; e++) plain_put(a.y_dtype, a.y, to + e, x[e]);
  }
}
