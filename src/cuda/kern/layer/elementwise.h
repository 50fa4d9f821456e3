/* The common kernel of elementwise ops (act_sm80.cu, add_sm80.cu), which loops over the rows of Y. */
#pragma once
#include "cuda/dev/ptx/base.h"

/* ELEMENTWISE_KERNEL(kargs, n, wide, one) defines the kernel. The argument struct kargs has rows, width and vec16.
 * wide(&a, row, col) processes n elements (16 bytes) from column col on; one(&a, row, col) processes one element.
 * UNIT is the number of elements that a thread block processes at a time. */
#define ELEMENTWISE_KERNEL(kargs, n, wide, one)                                                                       \
  GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST kargs a) {                                                    \
    enum { UNIT = n * GA_P_THREADS };                                                                                 \
    const int64_t per_row = (a.width + UNIT - 1) / UNIT, units = per_row * a.rows;                                    \
    grid_dependency_wait();                                                                                           \
    grid_launch_dependents();                                                                                         \
    for (int64_t u = block_index(); u < units; u += block_count()) {                                                  \
      const int64_t row = u / per_row, first = (u - row * per_row) * UNIT, col = first + (int64_t)thread_index() * n; \
      if (a.vec16 && col + n <= a.width) {                                                                            \
        wide(&a, row, col);                                                                                           \
      } else {                                                                                                        \
        for (int64_t c = col; c < a.width && c < col + n; c++) one(&a, row, c);                                       \
      }                                                                                                               \
    }                                                                                                                 \
  }
