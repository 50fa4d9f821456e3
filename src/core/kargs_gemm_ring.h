/* Arguments of the products by a ring of packed weights (gemm_t16_sm90a.cu). C11 and CUDA C. */
#ifndef GA_CORE_KARGS_GEMM_RING_H
#define GA_CORE_KARGS_GEMM_RING_H

#include "core/kargs_gemm.h"

typedef struct ga_kargs_gemm_ring {
  ga_kargs_gemm gemm; /* copies: columns of X in shared memory, three digits of each row */
  int32_t depth; /* units of W in the ring of a warp */
  int32_t early; /* of those, asked for before the kernel ahead has ended; the others behind the loads of X */
  int32_t units_each, units_longer; /* of a part of k: so many, and one more in the first parts */
  int32_t tiles_each, tiles_longer; /* of a group of rows, likewise */
} ga_kargs_gemm_ring;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_ring) == sizeof(ga_kargs_gemm) + 24);
#endif
