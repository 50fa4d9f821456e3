/* GA_LAYOUT_X16: the order of weights that every SIMD matrix product of the CPU reads, for decode and prefill alike.
 *
 * Sixteen rows of W make a panel; panels follow each other; missing rows of the last one are zeros. Along k a panel is
 * cut into blocks of 32 elements:
 *
 *   panel = heads | records          each part starts at a multiple of 64 bytes, the panel's size is one too
 *   head:    scales of the 16 rows for one block (or for 8 blocks, the native 256-element types)
 *   record:  codes of the 16 rows for one block
 *
 * One vector register then holds the same item of 16 rows. Codes are stored in steps t = 0..7 of 4 elements: a row's
 * step t is a dword, the 4 bytes of elements 4t..4t+3. One vpdpbusd multiplies the dwords of 16 rows by 4 activations.
 * V, H, ... are 64-byte vectors, where dword r is row r and its byte j is element 4t + j:
 *
 *   8 bits   8 x V[t]                          element
 *   4 bits   4 x V[t], t < 4                   low nibble: step t, high nibble: step t + 4 (the order of q4_0's bytes)
 *   5 bits   H | as 4 bits                     bit t of a byte of H is the fifth bit at step t
 *   6 bits   H0 H1 | as 4 bits                 bits 2t..2t+1 of H0 (of H1 for t - 4) are bits 4 and 5 at step t
 *   3 bits   H0 H1 | H                         as above, H on top
 *   2 bits   H0 H1
 *
 *   type     head (16 of each)                                          head per  record
 *   q4_0     f16 d                                                      block     4 bits
 *   q4_1     f16 d, f16 m                                               block     4 bits
 *   q5_0     f16 d                                                      block     5 bits
 *   q5_1     f16 d, f16 m                                               block     5 bits
 *   q8_0     f16 d                                                      block     8 bits, element + 128
 *   iq4_nl   f16 d                                                      block     4 bits
 *   mxfp4    u8 exponent                                                block     4 bits
 *   nvfp4    2 x u8 scale (one for 16 elements; 0x7f made 0)            block     4 bits
 *   q4_k     f16 d, f16 dmin, 8 x u8 scale, 8 x u8 min                  8 blocks  4 bits
 *   q5_k     the same                                                   8 blocks  5 bits
 *   q6_k     f16 d, 16 x i8 scale                                       8 blocks  6 bits
 *   q2_k     f16 d, f16 dmin, 16 x u8 scale and min as native           8 blocks  2 bits
 *   q3_k     f16 d, 16 x i8 scale                                       8 blocks  3 bits
 *   iq4_xs   f16 d, 8 x i8 scale                                        8 blocks  4 bits
 *
 * Sizes equal the native types', except where 6-bit scales are widened to 8: q4_k + 2.8 %, q5_k 2.3, iq4_xs 1.5, q3_k
 * 3.6. Plain types have no head. Their record is one element (f32, f16) of 16 rows, or two (bf16, as dwords for
 * vdpbf16ps and AMX). */
#ifndef GA_CPU_CPU_PACK_H
#define GA_CPU_CPU_PACK_H

#include "base/mem.h"
#include "cpu/cpu_kernels.h"

#define GA_X16_ROWS 16

typedef struct ga_x16_format {
  ga_dtype dtype;
  /* Number of elements along k of a record: 32, or 1 or 2 for plain types. */
  int32_t step;
  /* Number of records that share a head. */
  int32_t group;
  /* Bytes of the head of 16 rows. */
  int32_t head_bytes;
  /* Bytes of a record of 16 rows. */
  int32_t record_bytes;
  /* Number of scales of a record and row: 2 when a scale is for 16 elements, else 1. */
  int32_t runs;
  /* Number to subtract from the unsigned codes that kernels multiply. 0 for types with a minimum. */
  int32_t offset;
  bool has_min;
} ga_x16_format;

/* Returns the format of a type, which is static. NULL: the type has none. */
const ga_x16_format *ga_x16_format_of(ga_dtype dtype);

static inline int64_t x16_records(const ga_x16_format *f, int64_t k) { return ga_div_up(k, f->step); }
/* Returns the offset of the records in a panel, in bytes. */
static inline int64_t x16_head_bytes(const ga_x16_format *f, int64_t k) {
  return f->head_bytes ? (ga_div_up(x16_records(f, k), f->group) * f->head_bytes + 63) & ~(int64_t)63 : 0;
}
static inline int64_t x16_panel_bytes(const ga_x16_format *f, int64_t k) {
  return (x16_head_bytes(f, k) + x16_records(f, k) * f->record_bytes + 63) & ~(int64_t)63;
}

#endif
