/* Arguments of the GEMM and pack kernels: one struct by value, the same bytes on the host and on the device. This file
 * is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_ARGS_H
#define GA_CUDA_KERN_GEMM_GEMM_ARGS_H

#include <stdint.h>

#include "cuda/dev/tmap.h"

#ifdef __cplusplus
#define GA_KARGS_GEMM_ASSERT(c) static_assert(c, #c)
#else
#define GA_KARGS_GEMM_ASSERT(c) _Static_assert(c, #c)
#endif

/* Arguments of Y [m, n] = epilogue(X [m, k] W^T). Strides are in elements; types are ga_dtype values. */
typedef struct ga_kargs_gemm {
  const void *x, *w;
  void *y;
  const float *bias;           /* One number for each column of Y, [n]. NULL: no bias. */
  const void *gate, *residual; /* Tensors [m, n] laid out like y. NULL: no gate, or no residual. */
  /* Workspace for the sums of the parts of k, used if splits is above 1. */
  float *partial;
  /* One counter per group of rows of W, used if splits is above 1. Counters are 0 before the launch, and the kernel
   * leaves them 0. */
  int32_t *counter;
  int64_t m, n, k, x_stride, y_stride;
  int32_t w_dtype, x_dtype, y_dtype;
  int32_t act; /* Activation, a ga_act_kind value. */
  float scale;
  /* --- The fields below are read for packed weights only. --- */
  /* Number of parts into which k is divided among thread blocks. */
  int32_t splits;
  /* Number of groups into which the rows of W are divided. Thread block group * splits + part computes a part of k of a
   * group. */
  int32_t groups;
  /* tiles is the number of tiles of 16 rows of W. units is the number of units along k (see GA_PACKED_TYPES). */
  int32_t tiles, units;
  /* Number of columns of operand B in shared memory: 2, 4, 8 or 16. The first half has the high parts of rows of X, the
   * second half their low parts. */
  int32_t copies;
  /* Largest number of tiles of W that one warp processes. */
  int32_t slots;
  /* Number of units along k for which shared memory has room for X. */
  int32_t x_units;
} ga_kargs_gemm;

/* GA_PACKED_TYPES lists the types of packed weights (GA_LAYOUT_MMA_PACKED) as X(type, ga_dtype, k of a unit, bytes of a
 * unit). A tile is 16 rows of W; it is divided along k into units of 64 to 256 elements a row.
 * src/cuda/kern/gemm/packed.h has the layout.
 *
 * A unit has as many bytes as the same blocks in the file. */
/* clang-format off */
#define GA_PACKED_TYPES(X) \
  X(F16, 2, 64, 2048) X(BF16, 3, 64, 2048) \
  X(Q4_0, 20, 128, 1152) X(Q4_1, 21, 128, 1280) X(Q5_0, 22, 128, 1408) X(Q5_1, 23, 128, 1536) X(Q8_0, 24, 128, 2176) \
  X(Q2_K, 25, 256, 1344) X(Q3_K, 26, 256, 1760) X(Q4_K, 27, 256, 2304) X(Q5_K, 28, 256, 2816) X(Q6_K, 29, 256, 3360) \
  X(IQ4_NL, 30, 128, 1152) X(IQ4_XS, 31, 256, 2176) X(MXFP4, 32, 128, 1088) X(NVFP4, 33, 128, 1152) \
  X(E4M3_128, 41, 128, 2112)
/* clang-format on */

enum { GA_PACKED_ROWS = 16 };

/* Arguments of gemm_prefill_sm90a.cu, the product of many rows of X with packed weights. The kernel uses tiles, units,
 * partial and counter of g.
 *
 * x is X as the kernel of ga_kargs_gemm_x has converted it, in boxes of 64 columns and x_box rows with the 128-byte
 * swizzle. */
typedef struct ga_kargs_gemm_prefill {
  ga_tmap x;
  ga_kargs_gemm g;
  /* w_tiles is the number of tiles of Y along n, and x_tiles the number along m. */
  int32_t w_tiles, x_tiles;
  /* cluster_log is log2 of the number of thread blocks that exchange sums (1 or 2). k_splits_log is log2 of the number
   * of parts of k whose sums are added in g.partial. */
  int32_t cluster_log, k_splits_log;
  /* W of f16: one factor for the sums of each row of X. X of e4m3: [ceil(k / 128), x_scale_stride], a scale for each
   * 128 elements of a row of X. NULL for other types. */
  const float *x_scale;
  /* Number of rows of a box of x: the rows of a tile. With W of 16 bits or X of e4m3, a quarter of them if the last
   * tile is partly filled. */
  int32_t x_box;
  /* log2 of the number of parts of k that one thread block processes in sequence and adds itself, with k_splits_log 0.
   * 0: a thread block processes one part. */
  int32_t parts_inside_log;
  /* X of e4m3: stride of x_scale in elements, a multiple of 4 and at least m. */
  int32_t x_scale_stride;
  int32_t unused;
} ga_kargs_gemm_prefill;

/* Constants of gemm_few_sm90a.cu. GA_FEW_WARPS is the number of warps of a thread block. GA_FEW_BARS has the bytes of a
 * warp's mbarriers, GA_FEW_X_ROW the bytes of a row of X in a stage. The rings begin at offset GA_FEW_RING_AT of shared
 * memory. */
#define GA_FEW_WARPS         8
#define GA_FEW_DEPTH         4 /* Largest number of stages of a ring. */
#define GA_FEW_BARS          (8 * GA_FEW_DEPTH)
#define GA_FEW_X_ROW(unit_k) ((unit_k)*4 + 64)
#define GA_FEW_RING_AT       (GA_FEW_WARPS * (GA_FEW_BARS + 2 * 8 * 80))
/* Arguments of gemm_few_sm90a.cu, the product of few rows of X, which adds in the order of gemm_prefill. The kernel
 * uses tiles and units of g.
 *
 * A warp has a ring of `depth` stages. A stage holds a unit of W and the rows of X for this unit, GA_FEW_X_ROW bytes
 * each. Shared memory holds barriers, sums and rings, in this order. */
typedef struct ga_kargs_gemm_few {
  ga_kargs_gemm g;
  int32_t parts_log; /* log2 of the number of parts of k. The odd and the even units of a part have separate sums. */
  int32_t group;     /* Number of tiles of W that a thread block processes. */
  int32_t depth;
  int32_t stage_bytes;
} ga_kargs_gemm_few;

/* Arguments of gemm_x_sm80.cu, which converts X [m, k] of f32, f16 or bf16 to bf16, f16 or e4m3 [m, width]. width is a
 * multiple of 128; gemm_x_sm80.cu explains the order of columns.
 *
 * f16: each row is multiplied by a power of two, and scale[row] is the inverse. e4m3: k is a multiple of 128, and scale
 * is [k / 128, m4], one scale for 128 elements of a row. m4 is m rounded up to 4. */
typedef struct ga_kargs_gemm_x {
  const void *x;
  void *out;
  int64_t m, k, stride, width;
  int32_t dtype, reserved;
  float *scale; /* Scales that the kernel writes for f16 and e4m3. NULL for bf16. */
} ga_kargs_gemm_x;

/* GA_PACKED_BYTES_<type> is the number of bytes of a unit of packed weights. */
enum {
#define X(name, number, k, bytes) GA_PACKED_BYTES_##name = (bytes),
  GA_PACKED_TYPES(X)
#undef X
      GA_PACKED_BYTES_END
};

/* Arguments of the conversion from rows of GGUF blocks or plain elements to packed weights. */
typedef struct ga_kargs_pack {
  const void *src;
  void *dst;
  int64_t n, k, units; /* units is the number of units along k in a tile. */
  int32_t w_dtype, unit_k, unit_bytes, reserved;
} ga_kargs_pack;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm) == 152);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_prefill) == 320);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_few) == 168);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_x) == 64);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_pack) == 56);
#endif
