/* GA_LAYOUT_X16: the order of weights that every SIMD matrix product of the CPU reads, for decode and prefill alike.
 *
 * A panel holds sixteen rows of W, and panels follow each other. The last panel has rows of zeros if W ends before.
 * Along k a panel is cut into blocks of 32 elements:
 *
 *   panel = heads | records          heads, records and the next panel begin at multiples of 64 bytes
 *   head:    scales of the 16 rows for one block (or for 8 blocks, in types with 256 elements in a GGUF block)
 *   record:  codes of the 16 rows for one block
 *
 * A vector register then holds the same elements of 16 rows. Codes are stored in steps t = 0..7 of 4 elements: a row's
 * step t is a 32-bit word, the 4 bytes of elements 4t..4t+3. One vpdpbusd multiplies the words of 16 rows by 4
 * activations. V, H, ... are vectors of 64 bytes, where word r is row r and its byte j is element 4t + j:
 *
 *   8 bits   8 x V[t]                          V[t] has the codes of step t
 *   4 bits   4 x V[t], t < 4                   low nibble: step t, high nibble: step t + 4 (the order of q4_0's bytes)
 *   5 bits   H | low 4 bits as 4 bits          bit t of a byte of H is bit 4 of the code at step t
 *   6 bits   H0 H1 | low 4 bits as 4 bits      bits 2t..2t+1 of H0 (of H1 for t - 4) are bits 4 and 5 at step t
 *   2 bits   H0 H1                             bits 2t..2t+1 of H0 (of H1 for t - 4) are the code at step t
 *   3 bits   low 2 bits as 2 bits | H          bit t of a byte of H is bit 2 of the code at step t
 *
 *   type     head (16 of each)                                          head per  record
 *   q4_0     f16 d                                                      block     4 bits
 *   q4_1     f16 d, f16 m                                               block     4 bits
 *   q5_0     f16 d                                                      block     5 bits
 *   q5_1     f16 d, f16 m                                               block     5 bits
 *   q8_0     f16 d                                                      block     8 bits, element + 128
 *   iq4_nl   f16 d                                                      block     4 bits
 *   mxfp4    u8 exponent                                                block     4 bits
 *   nvfp4    2 x u8 scale (one for 16 elements; 0x7f becomes 0)         block     4 bits
 *   q4_k     f16 d, f16 dmin, 8 x u8 scale, 8 x u8 min                  8 blocks  4 bits
 *   q5_k     the same as q4_k                                           8 blocks  5 bits
 *   q6_k     f16 d, 16 x i8 scale                                       8 blocks  6 bits
 *   q2_k     f16 d, f16 dmin, 16 x u8 scale and min as in GGUF          8 blocks  2 bits
 *   q3_k     f16 d, 16 x i8 scale                                       8 blocks  3 bits
 *   iq4_xs   f16 d, 8 x i8 scale                                        8 blocks  4 bits
 *
 * Packed weights have the size of the GGUF weights, except where 6-bit scales are stored in 8 bits: q4_k + 2.8 %, q5_k
 * 2.3, iq4_xs 1.5, q3_k 3.6. Plain types (f32, f16, bf16) have no head. Their record is one element of 16 rows (f32,
 * f16), or two elements (bf16, as 32-bit words for vdpbf16ps and AMX). */
#ifndef GA_CPU_CPU_PACK_H
#define GA_CPU_CPU_PACK_H

#include "base/mem.h"
#include "cpu/cpu_kernels.h"

#define GA_X16_ROWS 16

typedef struct ga_x16_format {
  ga_dtype dtype;
  /* Number of elements of a row in a record: 32 for quantised types, 2 for bf16, 1 for f32 and f16. */
  int32_t step;
  /* Number of records that share a head. */
  int32_t group;
  /* Bytes of a head, the scales of 16 rows for `group` records. */
  int32_t head_bytes;
  /* Bytes of a record, the codes of 16 rows. */
  int32_t record_bytes;
  /* Number of scales per row of a record: 2 if 16 elements share a scale, else 1. */
  int32_t runs;
  /* Number that is subtracted from the unsigned codes to get signed values. 0 for types with a minimum. */
  int32_t offset;
  bool has_min;
} ga_x16_format;

/* Returns the format of a type, a static object. Returns NULL if the type cannot be packed. */
const ga_x16_format *ga_x16_format_of(ga_dtype dtype);

static inline int64_t x16_records(const ga_x16_format *f, int64_t k) { return ga_div_up(k, f->step); }
/* Returns the bytes of all heads of a panel with k elements in a row, which is the offset of its records. */
static inline int64_t x16_head_bytes(const ga_x16_format *f, int64_t k) {
  return f->head_bytes ? (ga_div_up(x16_records(f, k), f->group) * f->head_bytes + 63) & ~(int64_t)63 : 0;
}
static inline int64_t x16_panel_bytes(const ga_x16_format *f, int64_t k) {
  return (x16_head_bytes(f, k) + x16_records(f, k) * f->record_bytes + 63) & ~(int64_t)63;
}

#endif
