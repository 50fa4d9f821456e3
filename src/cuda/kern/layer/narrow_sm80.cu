/* KERNEL    convert f32 to 16 bits, sm80
 * COMPUTES  Y = X, rounded to nearest even
 * CONTRACT  both contiguous, any alignment of the element (16 bytes at a time when a.vec16)
 * DATA      gmem -> registers (32 bytes a lane) -> gmem
 * BUDGET    THREADS lanes; a block takes units of THREADS * 8 elements, round-robin
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/kern/layer/layer_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: f16 or bf16"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

#define PUT   GA_CAT(elem_put_, GA_P_DTYPE)
#define PUT16 GA_CAT(elem_put16_, GA_P_DTYPE)
enum { N = 8 };

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_narrow a) {
  const int64_t step = (int64_t)block_count() * GA_P_THREADS * N;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t i = ((int64_t)block_index() * GA_P_THREADS + thread_index()) * N; i < a.n; i += step) {
    float x[N];
    if (a.vec16 && i + N <= a.n) {
      elem_get16_f32(x, a.x, i);
      elem_get16_f32(x + 4, a.x, i + 4);
      PUT16(a.y, i, x);
    } else {
      for (int64_t k = i; k < a.n && k < i + N; k++) PUT(a.y, k, a.x[k]);
    }
  }
}
