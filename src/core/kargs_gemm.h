/* Arguments of the GEMM and pack kernels: one struct by value, the same bytes on the host and on the device. C11 and CUDA C. */
#ifndef GA_CORE_KARGS_GEMM_H
#define GA_CORE_KARGS_GEMM_H

#include <stdint.h>

#ifdef __cplusplus
#define GA_KARGS_GEMM_ASSERT(c) static_assert(c, #c)
#else
#define GA_KARGS_GEMM_ASSERT(c) _Static_assert(c, #c)
#endif

/* Y [m, n] = epilogue(X [m, k] W^T). Strides in elements; types are ga_dtype. */
typedef struct ga_kargs_gemm {
  const void *x, *w;
  void *y;
  const float *bias;          /* [n] or null */
  const void *gate, *residual; /* rows as y, or null */
  float *partial;             /* sums of the parts of k, when splits > 1 */
  int32_t *counter;           /* zeroed words, one a group of rows, left zeroed; when splits > 1 */
  int64_t m, n, k, x_stride, y_stride;
  int32_t w_dtype, x_dtype, y_dtype;
  int32_t act; /* ga_act_kind */
  float scale;
  int32_t splits;
} ga_kargs_gemm;

/* Native weights to packed ones. */
typedef struct ga_kargs_pack {
  const void *src;
  void *dst;
  int64_t n, k;
  int32_t w_dtype, reserved;
} ga_kargs_pack;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm) == 128);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_pack) == 40);
#endif
