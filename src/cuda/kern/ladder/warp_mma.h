/* Common parts of kernels 04 and 05 of the ladder: a warp's products on 16 rows, with mma.sync (mma.h has the
 * layouts). */
#pragma once
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/kern/ladder/ladder.h"

/* Loads `n` rows of 128 columns, from row `row` on, to a shared-memory tile of two panels, by cp.async. Rows from
 * `rows` on become zero. */
GA_DEV void load_tile(uint32_t to, const uint16_t *from, int64_t stride, int row, int rows, int n, int threads) {
  const int chunk = thread_index() % (D / 8);
  const uint32_t panel = to + (uint32_t)(chunk / 8 * n * PANEL_ROW_BYTES);
  GA_UNROLL for (int i = 0; i < n * (D / 8) / threads; i++) {
    const int r = thread_index() / (D / 8) + i * (threads / (D / 8)), in = row + r < rows;
    cp_async_16(panel_chunk(panel, (uint32_t)r, (uint32_t)(chunk % 8)),
                from + (in ? (row + r) * stride : 0) + 8 * chunk, in ? 16 : 0);
  }
}
/* Computes s (16 x n) = q k^T, for q (16 x 128) in fragments and k (n x 128) in shared memory. */
GA_DEV void warp_qk(float *s, const uint32_t *q, uint32_t k_tile, int n, int lane) {
  GA_UNROLL for (int i = 0; i < n / 2; i++) s[i] = 0.f;
  GA_UNROLL for (int k = 0; k < D / 16; k++) GA_UNROLL for (int j = 0; j < n / 16; j++) {
    uint32_t b[4]; /* 16 keys: two 8-column groups of S */
    ldmatrix_x4(b, panel_chunk(k_tile + (uint32_t)(k / 4 * n * PANEL_ROW_BYTES),
                               (uint32_t)(16 * j + (lane & 7) + (lane >> 4 << 3)),
                               (uint32_t)(k % 4 * 2 + (lane >> 3 & 1))));
    mma_m16n8k16_bf16(s + 8 * j, q + 4 * k, b[0], b[1]);
    mma_m16n8k16_bf16(s + 8 * j + 4, q + 4 * k, b[2], b[3]);
  }
}
/* Computes o (16 x 128) += p v, for p (16 x n) in fragments and v (n x 128) in shared memory. */
GA_DEV void warp_pv(float *o, const uint32_t *p, uint32_t v_tile, int n, int lane) {
  GA_UNROLL for (int k = 0; k < n / 16; k++) GA_UNROLL for (int j = 0; j < D / 16; j++) {
    uint32_t b[4]; /* 16 columns of V, transposed by the load */
    ldmatrix_x4_trans(b, panel_chunk(v_tile + (uint32_t)(j / 4 * n * PANEL_ROW_BYTES), (uint32_t)(16 * k + (lane & 15)),
                                     (uint32_t)(j % 4 * 2 + (lane >> 4))));
    mma_m16n8k16_bf16(o + 8 * j, p + 4 * k, b[0], b[1]);
    mma_m16n8k16_bf16(o + 8 * j + 4, p + 4 * k, b[2], b[3]);
  }
}
