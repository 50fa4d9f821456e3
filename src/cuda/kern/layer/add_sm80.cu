/* KERNEL    add, sm80
 * COMPUTES  Y = scale * f * X + B, rows of `width`, with a factor f for each row, or none; B may be one row, or absent
 * CONTRACT  strides in elements, any alignment of the element (16 bytes at a time when a.vec16); y may be x or b
 * DATA      gmem -> registers (16 bytes a lane) -> gmem
 * BUDGET    THREADS lanes; a block takes units of THREADS * 16 bytes of one row, round-robin
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/kern/layer/elementwise.h"
#include "cuda/kern/layer/layer_args.h"

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
typedef ga_kargs_add kargs;

enum { N = GA_CAT(ELEM_PER_16_, GA_P_DTYPE) };

GA_DEV float factor_of(const kargs *a, int64_t row) {
  return a->factors ? a->scale * a->factors[row * a->factor_stride] : a->scale;
}

GA_DEV void elements_wide(const kargs *a, int64_t row, int64_t col) {
  float x[N], b[N];
  const float scale = factor_of(a, row);
  GET16(x, a->x, row * a->x_stride + col);
  if (a->b) GET16(b, a->b, row * a->b_stride + col);
  GA_UNROLL for (int e = 0; e < N; e++) x[e] = a->b ? scale * x[e] + b[e] : scale * x[e];
  PUT16(a->y, row * a->y_stride + col, x);
}

GA_DEV void element_one(const kargs *a, int64_t row, int64_t col) {
  float x = factor_of(a, row) * GET(a->x, row * a->x_stride + col);
  if (a->b) x += GET(a->b, row * a->b_stride + col);
  PUT(a->y, row * a->y_stride + col, x);
}

ELEMENTWISE_KERNEL(kargs, N, elements_wide, element_one)
