/* Arguments of the GEMM and pack kernels: one struct by value, the same bytes on the host and on the device. C11 and
 * CUDA C. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_ARGS_H
#define GA_CUDA_KERN_GEMM_GEMM_ARGS_H

#include <stdint.h>

#include "cuda/dev/tmap.h"

#ifdef __cplusplus
#define GA_KARGS_GEMM_ASSERT(c) static_assert(c, #c)
#else
#define GA_KARGS_GEMM_ASSERT(c) _Static_assert(c, #c)
#endif

/* Y [m, n] = epilogue(X [m, k] W^T). Strides in elements; types are ga_dtype. */
typedef struct ga_kargs_gemm {
  const void *x, *w;
  void *y;
  const float *bias;           /* [n] or null */
  const void *gate, *residual; /* [m, n] as y, or null */
  float *partial;              /* sums of the parts of k, when splits > 1 */
  /* One word per group of rows, zeroed before the launch and left zeroed; when splits > 1. */
  int32_t *counter;
  int64_t m, n, k, x_stride, y_stride;
  int32_t w_dtype, x_dtype, y_dtype;
  int32_t act; /* ga_act_kind */
  float scale;
  /* --- packed weights only --- */
  int32_t splits;       /* parts into which k is cut among blocks */
  int32_t groups;       /* groups of rows among blocks: block = group * splits + part */
  int32_t tiles, units; /* tiles of 16 rows; units along k */
  int32_t copies;       /* columns of X in shared memory: 2, 4, 8 (high parts, then low parts), or 16 */
  int32_t slots;        /* most tiles that a warp works on */
  int32_t x_units;      /* units for which shared memory has room */
} ga_kargs_gemm;

/* GA_LAYOUT_MMA_PACKED, packed weights: tiles of 16 rows, cut along k into units; src/cuda/kern/gemm/packed.h has the
 * layout. X(type, ga_dtype, k of a unit, bytes of a unit). A unit has exactly the bytes of the file's blocks. */
/* clang-format off */
#define GA_PACKED_TYPES(X) \
  X(F16, 2, 64, 2048) X(BF16, 3, 64, 2048) \
  X(Q4_0, 20, 128, 1152) X(Q4_1, 21, 128, 1280) X(Q5_0, 22, 128, 1408) X(Q5_1, 23, 128, 1536) X(Q8_0, 24, 128, 2176) \
  X(Q2_K, 25, 256, 1344) X(Q3_K, 26, 256, 1760) X(Q4_K, 27, 256, 2304) X(Q5_K, 28, 256, 2816) X(Q6_K, 29, 256, 3360) \
  X(IQ4_NL, 30, 128, 1152) X(IQ4_XS, 31, 256, 2176) X(MXFP4, 32, 128, 1088) X(NVFP4, 33, 128, 1152) \
  X(E4M3_128, 41, 128, 2112)
/* clang-format on */

enum { GA_PACKED_ROWS = 16 };

/* Arguments of gemm_prefill_sm90a.cu, many rows of X by packed weights. It uses tiles, units, partial and counter of g.
 * x is bf16, as ga_kargs_gemm_x made it, in boxes of 64 columns and x_box rows with the 128-byte swizzle. */
typedef struct ga_kargs_gemm_prefill {
  ga_tmap x;
  ga_kargs_gemm g;
  int32_t w_tiles, x_tiles; /* tiles of the output along n and m */
  /* log2 of the blocks that exchange sums (1 or 2), and of the parts of k whose sums are added in g.partial */
  int32_t cluster_log, k_splits_log;
  /* W of f16: factors of the sums of each row of X. X of e4m3: [units, x_scale_stride], one scale for 128 of k of a
   * row. Else null. */
  const float *x_scale;
  /* Rows of a box of x: those of a tile. W of 16 bits, or X of e4m3: a quarter of them where the last tile is not
   * full. */
  int32_t x_box;
  /* With two sets of sums and k_splits_log 0: log2 of the parts of k that one block processes in turn. Else 0. */
  int32_t parts_inside_log;
  int32_t x_scale_stride; /* X of e4m3: a multiple of 4, at least m */
  int32_t unused;
} ga_kargs_gemm_prefill;

/* Arguments of gemm_few_sm90a.cu: few rows of X, with the order of sums of gemm_prefill. It uses tiles and units of g.
 * A warp has a ring of `depth` stages. A stage holds a unit of W and the rows of X for it, GA_FEW_X_ROW bytes each.
 * Shared memory: barriers, sums, rings. */
#define GA_FEW_WARPS         8
#define GA_FEW_DEPTH         4 /* largest depth */
#define GA_FEW_BARS          (8 * GA_FEW_DEPTH)
#define GA_FEW_X_ROW(unit_k) ((unit_k)*4 + 64)
#define GA_FEW_RING_AT       (GA_FEW_WARPS * (GA_FEW_BARS + 2 * 8 * 80))
typedef struct ga_kargs_gemm_few {
  ga_kargs_gemm g;
  int32_t parts_log; /* log2 of the parts of k: each is two chains of units */
  int32_t group;     /* tiles of a block */
  int32_t depth;
  int32_t stage_bytes;
} ga_kargs_gemm_few;

/* Arguments of gemm_x_sm80.cu. It converts X [m, k] of any plain type to bf16, f16 or e4m3 [m, width], width a multiple
 * of 128, in the column order of that file. f16: each row is multiplied by a power of two, and scale[row] is its
 * inverse. e4m3: k is a multiple of 128; scale is [k / 128, m4], one for 128 of k of a row, m4 being m rounded up to
 * 4. */
typedef struct ga_kargs_gemm_x {
  const void *x;
  void *out;
  int64_t m, k, stride, width;
  int32_t dtype, reserved;
  float *scale; /* bf16: null */
} ga_kargs_gemm_x;

/* Bytes of a unit, by type. */
enum {
#define X(name, number, k, bytes) GA_PACKED_BYTES_##name = (bytes),
  GA_PACKED_TYPES(X)
#undef X
      GA_PACKED_BYTES_END
};

/* Arguments of the conversion from native to packed weights. */
typedef struct ga_kargs_pack {
  const void *src;
  void *dst;
  int64_t n, k, units; /* units along k */
  int32_t w_dtype, unit_k, unit_bytes, reserved;
} ga_kargs_pack;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm) == 152);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_prefill) == 320);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_few) == 168);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_x) == 64);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_pack) == 56);
#endif
