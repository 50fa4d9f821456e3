/* Shared-memory tiles of 16-bit elements. A tile consists of panels of 64 columns, whose rows have 128 bytes. 16-byte
 * chunk c of row r is stored at chunk c ^ (r % 8). This 128-byte swizzle is the same for bulk copies, wgmma and
 * ldmatrix. A panel starts at a multiple of 1024 bytes. */
#pragma once
#include "cuda/dev/ptx/mma.h"

enum { PANEL_COLS = 64, PANEL_ROW_BYTES = 128 };

/* Returns the address of 16-byte chunk `chunk` (8 columns) of row `row` of a panel. */
GA_DEV uint32_t panel_chunk(uint32_t panel, uint32_t row, uint32_t chunk) {
  return panel + row * PANEL_ROW_BYTES + ((chunk ^ (row & 7)) << 4);
}

/* Builds the wgmma descriptor of a swizzled tile at address a.
 * Low word: a / 16 | lbo / 16 << 16, to which offsets in units of 16 bytes may be added.
 * High word: sbo / 16 and the swizzle mode, the same for every tile here (sbo = 1024: the next 8 rows).
 * Contiguous k: lbo is unused; the next 16 of k are at +2.
 * Contiguous n: lbo is the distance of the 64-column panels; the next 16 of k are at +128 (2048 bytes). */
GA_DEV uint64_t desc(uint32_t low) { return (uint64_t)low | (uint64_t)(1u << 30 | 1024 >> 4) << 32; }
GA_DEV uint32_t desc_k_major(uint32_t a) { return a >> 4 | 1u << 16; }
GA_DEV uint32_t desc_n_major(uint32_t a, uint32_t panel_bytes) { return a >> 4 | (panel_bytes >> 4) << 16; }

/* Loads one warp's 16 rows (from row0 on) of a tile of `steps` x 16 columns as A fragments, 4 registers per 16
 * columns. */
GA_DEV void load_a(uint32_t *a, uint32_t tile, uint32_t panel_bytes, int row0, int steps, int lane) {
  const uint32_t row = (uint32_t)(row0 + (lane & 15));
  GA_UNROLL for (int k = 0; k < steps; k++) ldmatrix_x4(
      a + 4 * k, panel_chunk(tile + (uint32_t)(k / 4) * panel_bytes, row, (uint32_t)((k % 4) * 2 + (lane >> 4))));
}
/* Stores one warp's 16 rows of a packed register tile of n columns to a shared-memory tile, the inverse of load_a. */
GA_DEV void tile_store(uint32_t tile, uint32_t panel_bytes, int row0, const uint32_t *a, int n, int lane) {
  const uint32_t row = (uint32_t)(row0 + (lane & 15));
  GA_UNROLL for (int k = 0; k < n / 16; k++)
      stmatrix_x4(panel_chunk(tile + (uint32_t)(k / 4) * panel_bytes, row, (uint32_t)((k % 4) * 2 + (lane >> 4))),
                  a[4 * k], a[4 * k + 1], a[4 * k + 2], a[4 * k + 3]);
}
