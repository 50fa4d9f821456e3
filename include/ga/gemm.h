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
 * A tensor has one scale; or 1 x 128 of X have one, and 128 x 128 of W (DeepSeek-AI 2024, arXiv 2412.19437, section
 * 3.3). ga_convert (ga/layer.h) makes them.
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
  GA_ACT_RELU2 = 4,     /* max(x, 0)^2; ga_act alone has this and TANH */
  GA_ACT_TANH = 5       /* tanh x */
} ga_act_kind;

/* Which optional parts the epilogue has (the pointers come with ga_gemm_io), and how operands lie. */
typedef enum ga_gemm_flags {
  GA_GEMM_BIAS = 1,     /* + bias[n], f32 */
  GA_GEMM_GLU = 2,      /* t = act(gate) * t instead of act(t); gate [m, n] of y's dtype and stride */
  GA_GEMM_RESIDUAL = 4, /* + residual [m, n] of y's dtype and stride; may be y itself */
  GA_GEMM_XT = 32,      /* x is stored [k, m]: x_stride is the distance of its k rows */
  GA_GEMM_WT = 64,      /* w is stored [k, n]: plain types in native layout */
  /* e4m3 by e4m3: sums may stay in the tensor cores' accumulators over all of k. Hopper's keep 14 bits there, so
   * that the error grows with k. Without this flag a kernel adds at most 128 of k that way, and the partial sums in
   * f32. */
  GA_GEMM_FAST_SUM = 128,
  /* Batch-invariant: a row of Y depends, bit by bit, on its row of X and on W, not on m or the other rows. The
   * planner chooses among the kernels with this property as if m were 32. GA_ERR_UNSUPPORTED where there is none. */
  GA_GEMM_INVARIANT = 256,
  /* X is rounded to e4m3 before the product, with a scale for each 128 of k of a row, as ga_convert makes them with
   * GA_CONVERT_SCALES_ROW. W is e4m3_128, so that codes are multiplied by codes ("W8A8"); its codes 0x7f and 0xff then
   * mean NaN. For one product, with rows of X contiguous and not normed. */
  GA_GEMM_X_E4M3 = 512
} ga_gemm_flags;

/* Scales of e4m3 operands, f32. */
typedef enum ga_gemm_scales {
  GA_GEMM_SCALES_NONE = 0,
  GA_GEMM_SCALES_TENSOR = 1, /* x_scale [1], w_scale [1] */
  GA_GEMM_SCALES_BLOCK = 2   /* x_scale [k / 128, m], w_scale [n / 128, k / 128], quotients rounded up */
} ga_gemm_scales;
/* --- end of src/op/gemm.toml --- */

#define GA_GEMM_SCALE_BLOCK 128

/* --- src/op/gemm.toml: desc io --- */
typedef struct ga_gemm_desc {
  size_t struct_size;
  int64_t m, n, k;
  int64_t x_stride, y_stride; /* elements between rows as they are stored; 0 = contiguous */
  int64_t w_stride;           /* the same for W; quantised and packed weights: 0 or k */
  int32_t w_dtype;            /* any weight type */
  int32_t x_dtype;            /* f32, f16, bf16, and e4m3 if w is */
  int32_t y_dtype;            /* f32, f16, bf16 */
  int32_t w_layout;           /* ga_layout of the weights */
  int32_t act;                /* ga_act_kind */
  uint32_t flags;             /* ga_gemm_flags */
  float scale;
  int32_t scales; /* ga_gemm_scales */
} ga_gemm_desc;
#define GA_GEMM_DESC_INIT \
  { sizeof(ga_gemm_desc), 0, 0, 0, 0, 0, 0, GA_F32, GA_F32, GA_F32, 0, 0, 0, 1.0f, 0 }

typedef struct ga_gemm_io {
  const void *x, *w;
  void *y; /* must not overlap x or w */
  const float *bias;
  const void *gate, *residual;
  const float *x_scale, *w_scale; /* on the device, as `scales` says */
} ga_gemm_io;
/* --- end of src/op/gemm.toml --- */

/* Validates, chooses a kernel, sizes the workspace, loads the kernel's code: nothing is enqueued. The plan outlives
 * neither ctx nor library. */
GA_API GA_NODISCARD ga_status ga_gemm_plan(ga_ctx *ctx, const ga_gemm_desc *desc, ga_plan **out);
/* Enqueues only. workspace: ga_plan_workspace_bytes(plan) of device memory, 256-byte aligned, NULL when 0. */
GA_API GA_NODISCARD ga_status ga_gemm_run(const ga_plan *plan, const ga_gemm_io *io, void *workspace,
                                          ga_stream *stream);
/* Plans (remembered by the context) and runs with a workspace of the stream's own. stream NULL = the context's own. */
GA_API GA_NODISCARD ga_status ga_gemm(ga_ctx *ctx, const ga_gemm_desc *desc, const ga_gemm_io *io, ga_stream *stream);

/* --- src/op/pack.toml: desc --- */
/* Packing of weights: puts them into the order that this context's fastest kernels for them read. */
typedef struct ga_pack_desc {
  size_t struct_size;
  int64_t n, k;
  int32_t w_dtype;  /* ga_dtype */
  int32_t w_layout; /* ga_layout to make */
} ga_pack_desc;
#define GA_PACK_DESC_INIT \
  { sizeof(ga_pack_desc), 0, 0, 0, 0 }
/* --- end of src/op/pack.toml --- */

/* Chooses the layout to pack W [n, k] of this type into, and its bytes. GA_LAYOUT_NATIVE (bytes = the plain size) when
 * no kernel gains from packing. Pure: no device call. */
GA_API GA_NODISCARD ga_status ga_pack_choose(ga_ctx *ctx, ga_dtype w_dtype, int64_t n, int64_t k, ga_layout *layout,
                                             uint64_t *bytes);
/* Rows of a group. A multiple r of this may be packed alone, with the same bytes as the first r rows of the packed
 * matrix. So a large matrix may be packed in slices. */
#define GA_PACK_ROWS 64
/* Bytes of W [n, k] in desc->w_layout. */
GA_API GA_NODISCARD ga_status ga_pack_bytes(ga_ctx *ctx, const ga_pack_desc *desc, uint64_t *bytes);
/* Packs src (native, on the device) into dst. Blocking on the CPU, in stream order elsewhere. */
GA_API GA_NODISCARD ga_status ga_pack(ga_ctx *ctx, const ga_pack_desc *desc, const void *src, void *dst,
                                      ga_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
