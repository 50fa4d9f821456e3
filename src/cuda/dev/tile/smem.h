/* Shared-memory tiles of 16-bit elements. A tile consists of panels of 64 columns, so a row of a panel has 128 bytes.
 * The 16-byte chunk c of row r is stored at place c ^ (r % 8) of the row. This 128-byte swizzle is the same for bulk
 * copies, wgmma and ldmatrix. A panel starts at a multiple of 1024 bytes. */
#pragma once
#include "cuda/dev/ptx/mma.h"

enum { PANEL_COLS = 64, PANEL_ROW_BYTES = 128 };

/* Returns the address of 16-byte chunk `chunk` (8 columns) of row `row` of a panel. */
GA_DEV uint32_t panel_chunk(uint32_t panel, uint32_t row, uint32_t chunk) {
  return panel + row * PANEL_ROW_BYTES + ((chunk ^ (row & 7)) << 4);
}

/* desc returns the wgmma descriptor of a swizzled tile, from its low word. desc_k_major and desc_n_major return the low
 * word for a tile at shared address a.
 * Low word: a / 16 | lbo / 16 << 16, to which offsets in units of 16 bytes may be added.
 * High word: sbo / 16 and the swizzle mode, the same for every tile here. The stride byte offset sbo is 1024, 8 rows.
 * desc_k_major, k contiguous: the leading byte offset lbo is not used; the next 16 elements along k are at +2.
 * desc_n_major, n contiguous: lbo is the distance of panels of 64 columns; the next 16 along k are at +128. */
GA_DEV uint64_t desc(uint32_t low) { return (uint64_t)low | (uint64_t)(1u << 30 | 1024 >> 4) << 32; }
GA_DEV uint32_t desc_k_major(uint32_t a) { return a >> 4 | 1u << 16; }
GA_DEV uint32_t desc_n_major(uint32_t a, uint32_t panel_bytes) { return a >> 4 | (panel_bytes >> 4) << 16; }

/* Loads the 16 rows of a warp, from row0 on, of a tile of `steps` x 16 columns. The result has fragments of operand A
 * of mma and wgmma, 4 registers for every 16 columns. */
GA_DEV void load_a(uint32_t *a, uint32_t tile, uint32_t panel_bytes, int row0, int steps, int lane) {
  const uint32_t row = (uint32_t)(row0 + (lane & 15));
  GA_UNROLL for (int k = 0; k < steps; k++) ldmatrix_x4(
      a + 4 * k, panel_chunk(tile + (uint32_t)(k / 4) * panel_bytes, row, (uint32_t)((k % 4) * 2 + (lane >> 4))));
}
/* Stores the 16 rows of a warp, from row0 on, of a register tile that tile_pack_bf16 or tile_pack_f16 has packed. n is
 * the number of columns of the tile. This function is the inverse of load_a. */
GA_DEV void tile_store(uint32_t tile, uint32_t panel_bytes, int row0, const uint32_t *a, int n, int lane) {
  const uint32_t row = (uint32_t)(row0 + (lane & 15));
  GA_UNROLL for (int k = 0; k < n / 16; k++)
      stmatrix_x4(panel_chunk(tile + (uint32_t)(k / 4) * panel_bytes, row, (uint32_t)((k % 4) * 2 + (lane >> 4))),
                  a[4 * k], a[4 * k + 1], a[4 * k + 2], a[4 * k + 3]);
}
