/* GA, matrix product: Y = epilogue(X W^T), every weight type of GGUF.
 *
 *   X [m, k]   activations, one row per token
 *   W [n, k]   weights, one row per output neuron, any ga_dtype that can be a weight
 *   Y [m, n]
 *
 *   t = scale * (X W^T) + bias;  t = act(t), or act(gate) * t when there is a gate;  Y = t + residual
 *
 * X and W may lie transposed in memory, so that a layer's three products need no copies. With Y = X W^T forward,
 *   dX = dY W     X := dY [tokens, out], W := W stored [out, in]: GA_GEMM_WT
 *   dW = dY^T X   X := dY stored [tokens, out], W := X stored [tokens, in]: GA_GEMM_XT | GA_GEMM_WT; GA_GEMM_RESIDUAL
 *                 with residual = y adds to a gradient (of f32, say)
 *
 * X and W of e4m3 (Micikevicius et al. 2022, arXiv 2209.05433) may have scales, which are factors of the dot products.
 * Each tensor has one scale; or each 1 x 128 block of X and each 128 x 128 block of W has one (DeepSeek-AI 2024, arXiv
 * 2412.19437, section 3.3). ga_convert (ga/layer.h) makes them.
 */
#ifndef GA_GEMM_H
#define GA_GEMM_H

#include "ga/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- src/op/gemm.toml: ga_act_kind ga_gemm_flags ga_gemm_scales --- */
typedef enum ga_act_kind {
  GA_ACT_NONE = 0,
  GA_ACT_SILU = 1,      /* x / (1 + e^-x) */
  GA_ACT_GELU_TANH = 2, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
  GA_ACT_GELU_ERF = 3,  /* 0.5 x (1 + erf(x / sqrt 2)) */
  GA_ACT_RELU2 = 4,     /* max(x, 0)^2; ga_act takes RELU2 and TANH, ga_gemm does not */
  GA_ACT_TANH = 5       /* tanh x */
} ga_act_kind;

/* Optional parts of the epilogue, whose pointers are in ga_gemm_io, and properties of operands and results. */
typedef enum ga_gemm_flags {
  GA_GEMM_BIAS = 1,     /* adds bias[n], f32 */
  GA_GEMM_GLU = 2,      /* t = act(gate) * t instead of act(t); gate is [m, n] of y's dtype and stride */
  GA_GEMM_RESIDUAL = 4, /* adds residual [m, n] of y's dtype and stride; it may be y itself */
  GA_GEMM_XT = 32,      /* x is stored [k, m]: x_stride is the distance of its k rows */
  GA_GEMM_WT = 64,      /* w is stored [k, n]; only plain types in native layout */
  /* e4m3 by e4m3: sums may stay in the tensor cores' accumulators over all of k. Hopper's keep 14 bits there, so that
   * the error grows with k. Without this flag a kernel adds at most 128 products that way, and adds the partial sums in
   * f32. */
  GA_GEMM_FAST_SUM = 128,
  /* Batch-invariant: a row of Y depends, bit by bit, on its row of X and on W, not on m or the other rows. The planner
   * chooses among the kernels with this property as if m were 32. The call returns GA_ERR_UNSUPPORTED if no kernel has
   * the property. */
  GA_GEMM_INVARIANT = 256,
  /* X is rounded to e4m3 before the product, with a scale for each 128 consecutive elements of a row, as ga_convert
   * makes them with GA_CONVERT_SCALES_ROW. W is e4m3_128, so that codes are multiplied by codes ("W8A8"); its codes
   * 0x7f and 0xff then mean NaN. Rows of X must be contiguous, and fused forms do not take the flag. */
  GA_GEMM_X_E4M3 = 512
} ga_gemm_flags;

/* Kinds of scales of e4m3 operands; scales are f32. */
typedef enum ga_gemm_scales {
  GA_GEMM_SCALES_NONE = 0,
  GA_GEMM_SCALES_TENSOR = 1, /* one scale for each tensor: x_scale [1], w_scale [1] */
  /* scales of blocks, 1 x 128 of X and 128 x 128 of W: x_scale [k / 128, m], w_scale [n / 128, k / 128], quotients
   * rounded up */
  GA_GEMM_SCALES_BLOCK = 2
} ga_gemm_scales;
/* --- end of src/op/gemm.toml --- */

#define GA_GEMM_SCALE_BLOCK 128

/* --- src/op/gemm.toml: desc io --- */
typedef struct ga_gemm_desc {
  size_t struct_size;
  int64_t m, n, k;
  int64_t x_stride, y_stride; /* elements between the rows of X and of Y as they are stored; 0 = contiguous */
  /* elements between the rows of W as they are stored; 0 = contiguous. Quantised and packed weights: 0 or k */
  int64_t w_stride;
  int32_t w_dtype;  /* ga_dtype of W: any weight type */
  int32_t x_dtype;  /* ga_dtype of X: f32, f16 or bf16, or e4m3 if W is e4m3 */
  int32_t y_dtype;  /* ga_dtype of Y: f32, f16, bf16 */
  int32_t w_layout; /* ga_layout of W */
  int32_t act;      /* ga_act_kind */
  uint32_t flags;   /* ga_gemm_flags */
  float scale;      /* factor by which X W^T is multiplied */
  int32_t scales;   /* ga_gemm_scales */
} ga_gemm_desc;
#define GA_GEMM_DESC_INIT \
  { sizeof(ga_gemm_desc), 0, 0, 0, 0, 0, 0, GA_F32, GA_F32, GA_F32, 0, 0, 0, 1.0f, 0 }

typedef struct ga_gemm_io {
  const void *x, *w;
  void *y;                        /* must not overlap x or w */
  const float *bias;              /* [n] addends, read with GA_GEMM_BIAS */
  const void *gate, *residual;    /* gate [m, n], read with GA_GEMM_GLU; residual [m, n], read with GA_GEMM_RESIDUAL */
  const float *x_scale, *w_scale; /* scales on the device, with the shapes that ga_gemm_scales states */
} ga_gemm_io;
/* --- end of src/op/gemm.toml --- */

/* Validates the description, chooses a kernel, computes the workspace size and loads the kernel's code. Nothing is
 * enqueued. The plan must be destroyed before ctx. */
GA_API GA_NODISCARD ga_status ga_gemm_plan(ga_ctx *ctx, const ga_gemm_desc *desc, ga_plan **out);
/* Enqueues the planned call. workspace: ga_plan_workspace_bytes(plan) bytes of device memory, 256-byte aligned; NULL
 * when 0. */
GA_API GA_NODISCARD ga_status ga_gemm_run(const ga_plan *plan, const ga_gemm_io *io, void *workspace,
                                          ga_stream *stream);
/* Enqueues a call without a separate plan. The context makes the plan at the first such call and keeps it; the stream
 * owns the workspace. stream NULL = the context's own. */
GA_API GA_NODISCARD ga_status ga_gemm(ga_ctx *ctx, const ga_gemm_desc *desc, const ga_gemm_io *io, ga_stream *stream);

/* --- src/op/pack.toml: desc --- */
/* Packs weights [n, k]: puts them into the order that the fastest kernels of the context read. */
typedef struct ga_pack_desc {
  size_t struct_size;
  int64_t n, k;
  int32_t w_dtype;  /* ga_dtype of the weights */
  int32_t w_layout; /* ga_layout of the packed weights */
} ga_pack_desc;
#define GA_PACK_DESC_INIT \
  { sizeof(ga_pack_desc), 0, 0, 0, 0 }
/* --- end of src/op/pack.toml --- */

/* Chooses the layout into which W [n, k] of type w_dtype should be packed, and computes its bytes. If no kernel gains
 * from packing, the layout is GA_LAYOUT_NATIVE with the plain size. No device call is made. */
GA_API GA_NODISCARD ga_status ga_pack_choose(ga_ctx *ctx, ga_dtype w_dtype, int64_t n, int64_t k, ga_layout *layout,
                                             uint64_t *bytes);
/* Packed matrices consist of groups of this many rows. Slices of a large matrix may be packed one by one if each has a
 * whole number of groups; the packed bytes are the same. */
#define GA_PACK_ROWS 64
/* Computes the bytes that W [n, k] takes in layout desc->w_layout. */
GA_API GA_NODISCARD ga_status ga_pack_bytes(ga_ctx *ctx, const ga_pack_desc *desc, uint64_t *bytes);
/* Packs src, which is in native layout on the device, into dst. On a CPU the call returns when that is done; on
 * other devices it is enqueued. */
GA_API GA_NODISCARD ga_status ga_pack(ga_ctx *ctx, const ga_pack_desc *desc, const void *src, void *dst,
                                      ga_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
