/* KERNEL    pack, sm80: native weights to GA_LAYOUT_MMA_PACKED (cuda/kern/gemm/packed.h)
 * COMPUTES  the words of W's blocks, each at the place where its lane reads it, with no bit changed
 * CONTRACT  rows are padded to 16 and k to whole units with zeros (scale 0)
 * DATA      byte by byte from the file's blocks; it runs once, when a model is loaded
 * BUDGET    THREADS lanes; warps write units, round-robin: each lane writes the words that it later reads
 */
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/gemm/packed.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

/* The stored code of element (row, k), 0 outside of the matrix. */
GA_DEV uint32_t code_of(const ga_kargs_pack *a, int64_t row, int64_t k) {
  const int t = a->w_dtype;
  if (row >= a->n || k >= a->k) return 0;
  const int64_t i = row * a->k + k;
  if (PACKED_PLAIN(t)) return ((const uint16_t *)a->src)[i];
  const int shift = quant_block_shift(t), e = (int)(i & ((1 << shift) - 1));
  const uint8_t *b = (const uint8_t *)a->src + (i >> shift) * quant_block_bytes(t);
  if (t == T_E4M3_128) return b[4 + e];
  if (t == T_IQ4_NL) return (uint32_t)quant_nibble(b + 2, e);
  if (t == T_IQ4_XS) return (uint32_t)quant_nibble(b + 8 + 16 * (e >> 5), e & 31);
  if (t == T_MXFP4) return (uint32_t)quant_nibble(b + 1, e);
  if (t == T_NVFP4) return (uint32_t)(b[4 + e / 16 * 8 + (e & 7)] >> (e & 8 ? 4 : 0) & 15);
  const int q = quant_parts_at(t, a->src, i).q;
  return (uint32_t)(q + (t == T_Q4_0   ? 8
                         : t == T_Q5_0 ? 16
                         : t == T_Q6_K ? 32
                         : t == T_Q3_K ? 4
                                       : 0)) &
         (t == T_Q8_0 ? 255u : 63u);
}

/* The part of a code that part `bits` (4, 2 or 1) of the unit holds. */
GA_DEV uint32_t part_of_code(int t, uint32_t code, int bits) {
  if (bits == 4) return code & 15;
  if (bits == 2) return PACKED_HAS4(t) ? code >> 4 : code & 3;
  return PACKED_HAS4(t) ? code >> 4 & 1 : code >> 2 & 1;
}

/* Word i of a lane's codes. */
GA_DEV uint32_t code_word(const ga_kargs_pack *a, int64_t row0, int64_t k0, int lane, int i) {
  const int t = a->w_dtype, g = lane / 4, q = lane % 4, w4 = PACKED_W4(t), w2 = PACKED_W2(t);
  uint32_t word = 0;
  if (PACKED_PLAIN(t) || (i < w4 && PACKED_HAS8(t))) {
    const int group = PACKED_PLAIN(t) ? i / 8 : i / 4, s = PACKED_PLAIN(t) ? i / 4 % 2 : i / 2 % 2, r = i % 2,
              h = i / 2 % 2;
    for (int e = 0; e < (PACKED_PLAIN(t) ? 2 : 4); e++) {
      const int at = PACKED_PLAIN(t) ? 2 * h + e : e == 1 ? 2 : e == 2 ? 1 : e; /* bytes i = 0, 2, 1, 3 */
      word |= code_of(a, row0 + g + 8 * r, k0 + 32 * group + packed_element(q, s, at))
              << e * (PACKED_PLAIN(t) ? 16 : 8);
    }
    return word;
  }
  const int bits = i < w4 ? 4 : i < w4 + w2 ? 2 : 1, first = i < w4 ? i : i < w4 + w2 ? i - w4 : i - w4 - w2;
  const int n = 16 / bits; /* registers of a word: 4, 8 or 16 */
  for (int reg = 0; reg < n; reg++) {
    const int step = first * n / 4 + reg / 4, j = reg % 4; /* of all steps of the unit */
    const int in_byte = bits == 2 ? 4 * (step % 2) : 4 * (step / 2 % 2) + 2 * (step % 2);
    for (int e = 0; e < 2; e++) {
      const int64_t k = k0 + 32 * (step / 2) + packed_element(q, step % 2, 2 * (j / 2) + e);
      const uint32_t code = code_of(a, row0 + g + 8 * (j % 2), k);
      if (PACKED_FP4(t) || PACKED_IQ4(t))
        word |= code << (16 * (j % 2) + 4 * (e * 2 + j / 2)); /* nibbles i = 0, 2, 1, 3 of a row */
      else if (bits == 4)
        word |= part_of_code(t, code, bits) << (4 * reg + 16 * e);
      else
        word |= part_of_code(t, code, bits) << (8 * (j / 2) + in_byte + bits * (j % 2) + 16 * e);
    }
  }
  return word;
}

/* The bytes of the block of (row, k), null outside of the matrix. */
GA_DEV const uint8_t *block_of(const ga_kargs_pack *a, int64_t row, int64_t k) {
  const int t = a->w_dtype;
  if (row >= a->n || k >= a->k) return 0;
  return (const uint8_t *)a->src + ((row * a->k + k) >> quant_block_shift(t)) * quant_block_bytes(t);
}
GA_DEV uint32_t bytes_at(const uint8_t *b, int at, int n) {
  uint32_t x = 0;
  for (int i = 0; b && i < n; i++) x |= (uint32_t)b[at + i] << 8 * i;
  return x;
}

/* Scale i of a block of NVFP4: its sign means nothing, its NaN is 0, so that readers need not look. */
GA_DEV uint32_t scale_e4m3(const uint8_t *b, int i) {
  const uint32_t x = bytes_at(b, i, 1) & 0x7fu;
  return x == 0x7fu ? 0 : x;
}

/* Word i of the scales of g. */
GA_DEV uint32_t scale_word(const ga_kargs_pack *a, int64_t row0, int64_t k0, int g, int i) {
  const int t = a->w_dtype;
  const uint8_t *low = block_of(a, row0 + g, k0), *high = block_of(a, row0 + g + 8, k0);
  if (t == T_Q4_K || t == T_Q5_K)
    return i % 4 < 3 ? bytes_at(i < 4 ? low : high, 4 + i % 4 * 4, 4) : bytes_at(i < 4 ? low : high, 0, 4);
  if (t == T_Q6_K && i < 8) return bytes_at(i < 4 ? low : high, 192 + i % 4 * 4, 4);
  if (t == T_Q6_K) return bytes_at(low, 208, 2) | bytes_at(high, 208, 2) << 16;
  if (t == T_Q2_K) return i < 8 ? bytes_at(i < 4 ? low : high, i % 4 * 4, 4) : bytes_at(i == 8 ? low : high, 80, 4);
  if (t == T_Q3_K && i < 6) return bytes_at(i < 3 ? low : high, 96 + i % 3 * 4, 4);
  if (t == T_Q3_K) return bytes_at(low, 108, 2) | bytes_at(high, 108, 2) << 16;
  if (t == T_IQ4_XS) return bytes_at(i < 2 ? low : high, i % 2 * 4, 4);
  if (PACKED_ONE_RUN(t)) return bytes_at(i ? high : low, 0, 4);
  if (t == T_MXFP4) {
    uint32_t x = 0;
    for (int e = 0; e < 4; e++)
      x |= bytes_at(block_of(a, row0 + g + 8 * (e % 2), k0 + 32 * (2 * i + e / 2)), 0, 1) << 8 * e;
    return x;
  }
  if (t == T_NVFP4) {
    low = block_of(a, row0 + g, k0 + 32 * i), high = block_of(a, row0 + g + 8, k0 + 32 * i);
    const int d = i % 2 * 2;
    return scale_e4m3(low, d) | scale_e4m3(high, d) << 8 | scale_e4m3(low, d + 1) << 16 | scale_e4m3(high, d + 1) << 24;
  }
  low = block_of(a, row0 + g, k0 + 32 * (i % 4)), high = block_of(a, row0 + g + 8, k0 + 32 * (i % 4));
  return bytes_at(low, i / 4 * 2, 2) | bytes_at(high, i / 4 * 2, 2) << 16;
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_pack a) {
  const int lane = thread_index() % 32, warp = thread_index() / 32, warps = GA_P_THREADS / 32, t = a.w_dtype;
  const int64_t all = (a.n + GA_PACKED_ROWS - 1) / GA_PACKED_ROWS * a.units;
  for (int64_t u = (int64_t)block_index() * warps + warp; u < all; u += (int64_t)block_count() * warps) {
    const int64_t row0 = u / a.units * GA_PACKED_ROWS, k0 = u % a.units * a.unit_k;
    uint8_t *unit = (uint8_t *)a.dst + u * a.unit_bytes;
    for (int i = 0; i < PACKED_CODES(t); i++)
      stg_i32((int32_t *)(unit + packed_code_at(t, i, lane)), (int)code_word(&a, row0, k0, lane, i));
    if (lane % 4) continue;
    for (int i = 0; i < PACKED_WS(t); i++)
      stg_i32((int32_t *)(unit + packed_scale_at(t, i, lane / 4)), (int)scale_word(&a, row0, k0, lane / 4, i));
  }
}
