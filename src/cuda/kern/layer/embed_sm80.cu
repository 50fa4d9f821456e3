/* KERNEL    embed, sm80
 * COMPUTES  Y[t] = scale * table[ids[t]], table of any GGUF type in the file's own blocks
 * CONTRACT  ids outside the table give NaN rows. The CPU backend refuses them; on a GPU the host checks only ids that
 *           it can read
 * DATA      gmem -> registers, one element a lane: a token's row is a few KiB
 * BUDGET    THREADS lanes; a block takes pieces of THREADS elements of a row, round-robin
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/tile/quant.h"
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

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_embed a) {
  const int64_t per_row = (a.width + GA_P_THREADS - 1) / GA_P_THREADS, units = per_row * a.tokens;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t u = block_index(); u < units; u += block_count()) {
    const int64_t t = u / per_row, c = (u - t * per_row) * GA_P_THREADS + thread_index();
    if (c >= a.width) continue;
    const int64_t id = a.ids[t];
    const bool there = id >= 0 && id < a.vocab;
    const float x = there ? quant_at(a.w_dtype, a.table, id * a.width + c) : __uint_as_float(0x7fc00000u);
    plain_put(a.y_dtype, a.y, t * a.y_stride + c, a.scale * x);
  }
}
