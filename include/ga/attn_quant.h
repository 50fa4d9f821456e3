/* GA, quantiser of Q, K and V for attention in 8 bits (ga/attn.h). It turns x [batch, tokens, heads, dim] into e4m3 or
 * i8 and scales in one pass.
 *
 *   ROWS    y [batch, tokens, heads, dim]: Q or K, after RoPE and the Hadamard transform if requested
 *   VALUES  y [batch, heads, dim, tokens rounded up to 128]: V transposed, with zeros after the last token. In each
 *           group of 16 tokens, token 8 b + 2 q + e (q < 4; b, e < 2) stands at 4 q + 2 b + e: the order of the
 *           registers that attention multiplies it by.
 *           centre: the mean of each column over all tokens is subtracted, and attention adds it again
 *           (ga_attn_io.v_mean): smaller values lose less by rounding and in sums. A NaN makes its column NaN, an
 *           infinity all columns of its head. x is then read twice.
 *
 * A scale belongs to a block: the elements of scale_tokens tokens of a head. It is their largest magnitude / 448 (i8: /
 * 127), or 1 if all are 0. x / scale is rounded to nearest even. e4m3: a NaN stays NaN; an infinity becomes NaN, and
 * the other elements of its block become 0. i8 has neither: a NaN or an infinity makes its block 0 and the scale a NaN
 * or an infinity. With scales given by the caller a NaN becomes 0, and values beyond -128 or 127 are clamped. Hadamard:
 * y = H S x / sqrt(dim), with the same random signs S for Q and K. Q K^T is unchanged while outliers are spread over
 * all dims (incoherent processing; Chee et al. 2023, arXiv 2307.13304; Shah et al. 2024, arXiv 2407.08608).
 */
#ifndef GA_ATTN_QUANT_H
#define GA_ATTN_QUANT_H

#include "ga/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- src/op/attn_quant.toml: ga_attn_quant_kind desc io --- */
typedef enum ga_attn_quant_kind { GA_ATTN_QUANT_ROWS = 0, GA_ATTN_QUANT_VALUES = 1 } ga_attn_quant_kind;

typedef struct ga_attn_quant_desc {
  size_t struct_size;
  int64_t batch;
  int64_t tokens;
  int32_t heads;   /* number of heads, 1 to 65536 */
  int32_t dim;     /* elements of a head, 1 to 1024; a power of two with hadamard */
  int32_t x_dtype; /* ga_dtype of x: f32, f16, bf16 */
  int32_t y_dtype; /* ga_dtype of y: e4m3, or, for ROWS, i8 */
  int32_t kind;    /* ga_attn_quant_kind */
  /* number of consecutive tokens of a head that share a scale: 64 or 128, for i8 also 1. 0: io.given has the scales */
  int32_t scale_tokens;
  int32_t hadamard;    /* 1, for ROWS only: apply the Hadamard transform. 0: do not */
  uint32_t seed;       /* seed of the random signs of the Hadamard transform; the same for Q and K */
  int32_t rot_dim;     /* ROWS: number of leading elements of a head to which RoPE is applied first, even; 0 = none */
  int32_t pairs;       /* ga_rope_pairs */
  float magnitude;     /* factor by which RoPE's cos and sin are multiplied */
  int32_t centre;      /* 1, for VALUES only: subtract the mean of each column. 0: do not */
  int32_t reserved[2]; /* must be 0 */
} ga_attn_quant_desc;
#define GA_ATTN_QUANT_DESC_INIT                                                                     \
  {                                                                                                 \
    sizeof(ga_attn_quant_desc), 1, 0, 0, 0, GA_BF16, GA_E4M3, 0, 128, 0, 0, 0, 0, 1.0f, 0, { 0, 0 } \
  }

typedef struct ga_attn_quant_io {
  const void *x;
  void *y;
  float *scale; /* scales [batch, heads, tokens / scale_tokens rounded up], written unless scale_tokens is 0 */
  /* with scale_tokens 0: the caller's scales, one for the tensor or one for each head; its `block` is not used */
  ga_attn_scale given;
  /* strides of x and y; all 0 = contiguous, with dimensions in the orders that the top of this file shows. VALUES:
   * y_stride.token is the distance between dims */
  ga_attn_strides x_stride, y_stride;
  const int32_t *positions; /* with rot_dim: [batch, tokens] positions of the tokens */
  const float *inv_freq;    /* with rot_dim: [rot_dim / 2] frequencies, see ga_rope_freqs */
  float *mean;              /* with centre: output, [batch, heads, dim] means of the columns of x */
} ga_attn_quant_io;
/* --- end of src/op/attn_quant.toml --- */

/* Validates the description, chooses a kernel, computes the workspace size and loads the kernel's code. Nothing is
 * enqueued. */
GA_API GA_NODISCARD ga_status ga_attn_quant_plan(ga_ctx *ctx, const ga_attn_quant_desc *desc, ga_plan **out);
/* Enqueues the planned call. workspace: ga_plan_workspace_bytes(plan) bytes of device memory, 256-byte aligned; NULL
 * when 0. */
GA_API GA_NODISCARD ga_status ga_attn_quant_run(const ga_plan *plan, const ga_attn_quant_io *io, void *workspace,
                                                ga_stream *stream);
/* Enqueues a call without a separate plan. The context makes the plan at the first such call and keeps it; the stream
 * owns the workspace. */
GA_API GA_NODISCARD ga_status ga_attn_quant(ga_ctx *ctx, const ga_attn_quant_desc *desc, const ga_attn_quant_io *io,
                                            ga_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
