/* Packed weights (cpu_pack.h) to bf16 tiles for AMX.
 *
 * A code becomes a float by putting its byte into the mantissa of a power of two: 0x43 in the top byte and the code in
 * the next is 128 + code for codes below 128; 0x47, 0 and the code is 2^15 + code for codes of 8 bits. One fused
 * multiplication by d with the constant m - (128 or 2^15 + offset) d gives the weight. The constant is rounded to f32,
 * which moves a weight by at most 2^-17 d (or 2^-9 d): less than the rounding to bf16 of all but the smallest codes. */
#include "cpu/x86_amx/amx_gemm.h"
#include "cpu/x86_avx512/x16_load.h"

/* (x & mask) | c: ternary truth table with x = 0xf0, mask = 0xcc, c = 0xaa. */
#define AND_OR 0xea

/* Word 2r of the result is word r of the low half, word 2r + 1 word r of the high half. */
GA_INLINE __m512i interleave_halves(__m512i halves) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, halves);
}

/* Elements k (low words) and k + 1 of 16 rows, rounded to nearest even. */
GA_INLINE void store_pair(uint8_t *to, __m512 even, __m512 odd) {
  const __m512bh halves = _mm512_cvtne2ps_pbh(odd, even);
  _mm512_storeu_si512(to, interleave_halves((__m512i)halves));
}

/* Element j of each dword of codes as d * code + c; `wide`: codes of 8 bits. */
GA_INLINE __m512 dequant_weights(__m512i codes, const int j, const bool wide, __m512 d, __m512 c) {
  const int to = wide ? 1 : 2; /* byte of the float that takes the code */
  __m512i x = j > to   ? _mm512_srli_epi32(codes, (uint8_t)(8 * (j - to)))
              : j < to ? _mm512_slli_epi32(codes, (uint8_t)(8 * (to - j)))
                       : codes;
  x = _mm512_ternarylogic_epi32(x, _mm512_set1_epi32(0xff << 8 * to), _mm512_set1_epi32(wide ? 0x47000000 : 0x43000000),
                                AND_OR);
  return _mm512_fmadd_ps(_mm512_castsi512_ps(x), d, c);
}

/* Constant after inlining: everything from `load` to `has_min`. */
GA_INLINE void dequant_blocks(x16_loader load, const int group, const int head_bytes, const int record_bytes,
                              const int runs, const int offset, const int has_min, const uint8_t *panel, int64_t k,
                              uint8_t *tiles) {
  const int64_t blocks = k / 32;
  const int steps = 8 / runs; /* of a run */
  const bool wide = offset == 128;
  const float base = (wide ? 32768.0f : 128.0f) + (float)offset;
  const uint8_t *record = panel + ((((blocks + group - 1) / group * head_bytes) + 63) & ~(int64_t)63);
  for (int64_t b = 0; b < blocks; b++, record += record_bytes, tiles += GA_AMX_TILE_BYTES) {
    x16_block w;
    load(panel + b / group * head_bytes, record, b % group, 0, &w);
    GA_UNROLL for (int run = 0; run < runs; run++) {
      const __m512 d = w.d[run], c = has_min ? _mm512_fnmadd_ps(_mm512_set1_ps(base), d, w.m[run])
                                             : _mm512_mul_ps(_mm512_set1_ps(-base), d);
      GA_UNROLL for (int i = 0; i < steps; i++) {
        const int t = steps * run + i;
        store_pair(tiles + 128 * t, dequant_weights(w.q[t], 0, wide, d, c), dequant_weights(w.q[t], 1, wide, d, c));
        store_pair(tiles + 128 * t + 64, dequant_weights(w.q[t], 2, wide, d, c),
                   dequant_weights(w.q[t], 3, wide, d, c));
      }
    }
  }
}

#define IMPL(name, group, head, record, runs, offset, has_min, most)                              \
  static void dequant_##name(const uint8_t *panel, int64_t k, uint8_t *tiles) {                   \
    dequant_blocks(x16_load_##name, group, head, record, runs, offset, has_min, panel, k, tiles); \
  }                                                                                               \
  const ga_amx_impl ga_amx_##name = {.dequant = dequant_##name};
GA_X16_QUANTS(IMPL)

static void dequant_f16(const uint8_t *panel, int64_t k, uint8_t *tiles) {
  for (int64_t i = 0; i < ga_div_up(k, 32) * 32; i += 2, tiles += 64)
    store_pair(tiles, i < k ? x16_halves(panel + 32 * i, 0) : _mm512_setzero_ps(),
               i + 1 < k ? x16_halves(panel + 32 * (i + 1), 0) : _mm512_setzero_ps());
}

/* Pairs already; only the end along k is padded. */
static void dequant_bf16(const uint8_t *panel, int64_t k, uint8_t *tiles) {
  for (int64_t i = 0; i < ga_div_up(k, 32) * 32; i += 2, tiles += 64)
    _mm512_storeu_si512(tiles, i < k ? _mm512_loadu_si512(panel + 32 * i) : _mm512_setzero_si512());
}

const ga_amx_impl ga_amx_f16 = {.dequant = dequant_f16};
const ga_amx_impl ga_amx_bf16 = {.dequant = dequant_bf16};
