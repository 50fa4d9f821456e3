/* KERNEL    reduce_scatter, sm80: the sum of the rows that a rank has received from all ranks
 * COMPUTES  y = 0 + row of rank 0 + row of rank 1 + ..., in that order, in f32, rounded once
 * CONTRACT  rows of n elements; any alignment of the element (16 bytes at a time when a.vec16); y overlaps no row. The
 *           received rows are complete before the launch
 * DATA      gmem -> registers (16 bytes a lane and rank) -> gmem
 * BUDGET    THREADS lanes; a block takes units of THREADS * 16 bytes, round-robin
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/kern/dist/reduce_scatter_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: f32, f16 or bf16"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

#define GET   GA_CAT(elem_get_, GA_P_DTYPE)
#define PUT   GA_CAT(elem_put_, GA_P_DTYPE)
#define GET16 GA_CAT(elem_get16_, GA_P_DTYPE)
#define PUT16 GA_CAT(elem_put16_, GA_P_DTYPE)
typedef ga_kargs_reduce_scatter kargs;

enum { N = GA_CAT(ELEM_PER_16_, GA_P_DTYPE) };

/* Returns the row of rank p. The own row is not among the received ones. */
GA_DEV const void *row_of_rank(const kargs *a, int p) {
  if (p == a->rank) return a->own;
  return (const char *)a->received + (p < a->rank ? p : p - 1) * a->row_bytes;
}

GA_DEV void sum_wide(const kargs *a, int64_t i) {
  float sum[N], x[N];
  GA_UNROLL for (int e = 0; e < N; e++) sum[e] = 0.0f;
  GA_ROLL for (int p = 0; p < a->ranks; p++) {
    GET16(x, row_of_rank(a, p), i);
    GA_UNROLL for (int e = 0; e < N; e++) sum[e] += x[e];
  }
  PUT16(a->y, i, sum);
}

GA_DEV void sum_one(const kargs *a, int64_t i) {
  float sum = 0.0f;
  GA_ROLL for (int p = 0; p < a->ranks; p++) sum += GET(row_of_rank(a, p), i);
  PUT(a->y, i, sum);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_reduce_scatter a) {
  const int64_t step = (int64_t)block_count() * GA_P_THREADS * N;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t i = ((int64_t)block_index() * GA_P_THREADS + thread_index()) * N; i < a.n; i += step) {
    if (a.vec16 && i + N <= a.n) {
      sum_wide(&a, i);
    } else {
      GA_ROLL for (int64_t k = i; k < a.n && k < i + N; k++) sum_one(&a, k);
    }
  }
}
