/* Products of AMX tiles: 16 rows of X by 16 rows of W, 32 elements along k, bf16. Compile it with the flags of AMX. */
#ifndef GA_CPU_X86_AMX_AMX_TILES_H
#define GA_CPU_X86_AMX_AMX_TILES_H

#include <immintrin.h>
#include <stdatomic.h>

#include "cpu/x86_amx/amx_gemm.h"

#define GA_AMX_BLOCK 32 /* Number of rows of X and of W that are multiplied together. */

/* Shape of all eight tiles: 16 rows of 64 bytes. It is constant data, because gcc 12 takes ldtilecfg for reading 8
 * bytes and drops the other stores to a local. */
static const struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} amx_tile_config = {
    .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* Gives the thread's tiles their shape. _tile_release ends that. */
static inline void amx_configure(void) { _tile_loadconfig(&amx_tile_config); }

/* Keeps stores before, and loads after: the compiler does not always know that tile instructions read memory. */
GA_INLINE void amx_order(void) { atomic_signal_fence(memory_order_seq_cst); }

/* Sums the products of xt x wt tiles (1 or 2 each) over all of k into out [32][32]. X passes by while the same W is
 * used again and again. Its loads carry the hint not to push W out of the first-level cache (measured: 10 % faster). */
GA_INLINE void amx_multiply_tiles(const int xt, const int wt, const uint8_t *x, const uint8_t *w, int64_t k_tiles,
                                  float *out) {
  const uint8_t *x1 = x + k_tiles * GA_AMX_TILE_BYTES, *w1 = w + k_tiles * GA_AMX_TILE_BYTES;
  amx_order();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < k_tiles * GA_AMX_TILE_BYTES; i += GA_AMX_TILE_BYTES) {
    _tile_stream_loadd(4, x + i, 64);
    _tile_loadd(6, w + i, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (wt == 2) {
      _tile_loadd(7, w1 + i, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (xt == 2) {
      _tile_stream_loadd(5, x1 + i, 64);
      _tile_dpbf16ps(2, 5, 6);
      if (wt == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, out, 4 * GA_AMX_BLOCK);
  if (wt == 2) _tile_stored(1, out + 16, 4 * GA_AMX_BLOCK);
  if (xt == 2) _tile_stored(2, out + 16 * GA_AMX_BLOCK, 4 * GA_AMX_BLOCK);
  if (xt == 2 && wt == 2) _tile_stored(3, out + 16 * GA_AMX_BLOCK + 16, 4 * GA_AMX_BLOCK);
  amx_order();
}

/* Does the same for numbers of tiles that the compiler does not know. */
static inline void amx_multiply(int xt, int wt, const uint8_t *x, const uint8_t *w, int64_t k_tiles, float *out) {
  if (xt == 2 && wt == 2)
    amx_multiply_tiles(2, 2, x, w, k_tiles, out);
  else if (xt == 2)
    amx_multiply_tiles(2, 1, x, w, k_tiles, out);
  else if (wt == 2)
    amx_multiply_tiles(1, 2, x, w, k_tiles, out);
  else
    amx_multiply_tiles(1, 1, x, w, k_tiles, out);
}

/* Converts 32 elements of a row to bf16. n of them are there; the others are 0. */
GA_INLINE void amx_convert_32(const float *x, int64_t n, uint8_t *to) {
  const __mmask32 mask = n >= 32 ? ~0u : (1u << n) - 1;
  const __m512 x0 = _mm512_maskz_loadu_ps((__mmask16)mask, x),
               x1 = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), x + 16);
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(x1, x0));
}

#endif
