/* Copies of rows of 16-bit elements from global to shared memory, 8 columns at a time. Rows may have any stride and
 * width. */
#pragma once
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/mem.h"

/* Copies 8 columns, from column `col` on, of the row that starts at element `at` of base. Columns from `cols` on become
 * zero. With in = 0 nothing is read, and all become zero.
 *
 * vec16 promises that the source is 16-byte aligned and that cols is a multiple of 8. The copy is then asynchronous: it
 * is complete once the thread has waited for its cp.async group. */
GA_DEV void chunk_copy(uint32_t dst, const void *base, int64_t at, int col, int cols, int in, int vec16) {
  if (vec16) {
    const int bytes = in && col < cols ? 16 : 0;
    cp_async_16(dst, (const uint16_t *)base + (bytes ? at + col : 0), bytes);
    return;
  }
  uint32_t x[4] = {0, 0, 0, 0};
  GA_UNROLL for (int e = 0; e < 8; e++) if (in && col + e < cols) x[e / 2] |=
      (uint32_t)ldg_u16((const uint16_t *)base + at + col + e) << 16 * (e % 2);
  sts_i4(dst, (int)x[0], (int)x[1], (int)x[2], (int)x[3]);
}
