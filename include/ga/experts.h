/* GA, layers with experts (mixture of experts): ga_route chooses the experts of each token, ga_expert_gemm multiplies
 * by their matrices.
 *
 * ga_route, for the logits z of a token:
 *
 *   1 score     s = softmax, sigmoid or sqrt(softplus) of z, in f64, rounded to f32
 *   2 key       s + bias, rounded to f32; without a bias z itself, or s if groups are chosen by GA_ROUTE_GROUP_SUM2
 *   3 groups    the top_k_groups groups with the largest group scores, of which GA_ROUTE_GROUP_SUM2 is rounded to f32
 *   4 choice    the top_k experts of these groups with the largest keys
 *   5 weight    s before rounding, of the chosen experts; the bias has no part in it
 *   6 renorm    weight / (sum + norm_eps), or weight / max(sum, norm_eps), over the chosen experts
 *   7 factors   weight * scale * expert_scale[expert], rounded to f32
 *
 * Of equal keys or group scores the one with the lowest index is larger. With `vocab` steps 2 to 4 are a look-up in
 * io.table. Every kernel makes the same choice, unless an f64 score lies within rounding of the middle of two f32
 * numbers.
 *
 * NaN stays in its token. If a key or a group score is NaN, the token gets experts 0 to top_k - 1, and its weights are
 * NaN. With `vocab` it keeps the table's experts. A softmax whose largest logit is infinite is NaN, as are the weights
 * of a token with a NaN among its logits. Token ids and numbers of experts beyond their ranges are refused by CPU
 * contexts alone: GA_ERR_ARG names the first. Elsewhere such a token gets experts 0 to top_k - 1 with weights NaN.
 *
 * Fields by family; e is norm_eps:
 *
 *   family                              scores           groups  bias  renorm              further
 *   gpt-oss, Granite                    SOFTMAX_CHOSEN
 *   Mixtral, Qwen3, Hunyuan             SOFTMAX                        SUM
 *   Qwen2, OLMoE                        SOFTMAX                        as norm_topk_prob
 *   Gemma 4                             SOFTMAX                        SUM                 expert_scale
 *   Ernie 4.5                           SOFTMAX                  yes   BOUND, e 1e-12
 *   DeepSeek V2                         SOFTMAX          MAX                               scale
 *   DeepSeek V3, Kimi K2, GLM 4.5       SIGMOID          SUM2    yes   SUM, e 1e-20        scale
 *   MiniMax M2                          SIGMOID                  yes   SUM
 *   LFM2                                SIGMOID                  yes   SUM, e 1e-6         scale
 *   Llama 4                             SIGMOID                                            top_k 1
 *   DeepSeek V4                         SQRT_SOFTPLUS            yes   SUM                 scale; first layers: vocab
 *
 * ga_expert_gemm, for a token t, its slot j with expert e and weight w, and x a row of X:
 *
 *   IN   u = x W[e]^T + bias[e]                        x is row t
 *        g = x W_gate[e]^T + bias_gate[e]              with GATED; then both are clamped
 *        y = act(g) * (u + up_offset), or act(u)       y is the slot's row
 *   OUT  y = sum over j of w (x W[e]^T + bias[e]), + residual     x is the slot's row, y is row t
 *
 * The slot's row is t * top_k + j; with SORTED place[t * top_k + j]. With WEIGHTS IN multiplies x by w (Llama 4). OUT
 * adds a token's results in an order of their experts and slots, whatever the other tokens are. A row of Y depends on
 * its token alone, and experts without rows are not read. Numbers of experts, offsets and order are checked by CPU
 * contexts alone: GA_ERR_ARG names the first that is out of range.
 *
 *   family                            activation
 *   most                              GATED, SILU; Gemma 4 GELU_TANH
 *   gpt-oss, MiniMax M3               GATED, SILU, act_alpha 1.702, CLAMP_BEFORE, limit 7, up_offset 1
 *   DeepSeek V4                       GATED, SILU, CLAMP_BEFORE, limit 10
 *   Step 3.5                          GATED, SILU, CLAMP_AFTER
 *   Nemotron H                        RELU2
 *
 * Sources: arXiv 1701.06538 (experts), 2401.04088 (Mixtral), 2405.04434 (DeepSeek V2), 2412.19437 (DeepSeek V3).
 */
#ifndef GA_EXPERTS_H
#define GA_EXPERTS_H

#include "ga/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- src/op/route.toml: ga_route_scores ga_route_group_score ga_route_renorm ga_route_flags desc io functions --- */
/* How the logits z of a token become scores s. */
typedef enum ga_route_scores {
  GA_ROUTE_SOFTMAX = 0,        /* softmax over all experts */
  GA_ROUTE_SOFTMAX_CHOSEN = 1, /* z for the choice; weights are the softmax over the chosen experts */
  GA_ROUTE_SIGMOID = 2,        /* 1 / (1 + e^-z) */
  GA_ROUTE_SQRT_SOFTPLUS = 3   /* sqrt(ln(1 + e^z)) */
} ga_route_scores;

/* By which value groups of experts are chosen. */
typedef enum ga_route_group_score {
  GA_ROUTE_GROUP_MAX = 0, /* largest key of the group */
  GA_ROUTE_GROUP_SUM2 = 1 /* sum of the two largest keys; groups have at least two experts */
} ga_route_group_score;

/* Divisor of a token's weights; sum is their sum. A divisor of 0 makes the weights 0. */
typedef enum ga_route_renorm {
  GA_ROUTE_RENORM_NONE = 0,
  GA_ROUTE_RENORM_SUM = 1,  /* sum + norm_eps */
  GA_ROUTE_RENORM_BOUND = 2 /* max(sum, norm_eps) */
} ga_route_renorm;

typedef enum ga_route_flags {
  GA_ROUTE_SORT = 1 /* sorts the tokens' slots by expert: counts, offsets, order and place are written */
} ga_route_flags;

/* Chooses top_k of n_experts experts for each token, and their weights, from the router's logits [tokens, n_experts].
 * The head of this file says how. */
typedef struct ga_route_desc {
  size_t struct_size;
  int64_t tokens;        /* number of tokens; tokens * top_k is at most 2^31 - 1 */
  int64_t logits_stride; /* elements between rows of logits; 0 = n_experts */
  /* 0 = experts are chosen by scores. Else they are looked up by token id: the number of rows of io.table */
  int64_t vocab;
  int32_t n_experts; /* number of experts, 1 to 1024 */
  int32_t top_k;     /* number of experts of a token, 1 to 64, at most n_experts */
  int32_t scores;    /* ga_route_scores */
  int32_t n_groups;  /* number of groups of consecutive experts; divides n_experts; 0 = 1 */
  /* number of groups whose experts may be chosen, at most n_groups; 0 = n_groups. They have at least top_k experts */
  int32_t top_k_groups;
  int32_t group_score; /* ga_route_group_score */
  int32_t renorm;      /* ga_route_renorm */
  float norm_eps; /* addend or bound of the sum of a token's weights, as renorm says; 0 with GA_ROUTE_RENORM_NONE */
  float scale;    /* factor of all weights */
  uint32_t flags; /* ga_route_flags */
} ga_route_desc;
#define GA_ROUTE_DESC_INIT \
  { sizeof(ga_route_desc), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0f, 1.0f, 0 }

typedef struct ga_route_io {
  const float *logits;       /* [tokens, n_experts] */
  const float *bias;         /* [n_experts] addends of scores, for the choice alone; NULL = none */
  const float *expert_scale; /* [n_experts] factor of each expert's weights; NULL = 1 */
  const int32_t *token_ids;  /* with vocab: [tokens] ids, 0 to vocab - 1 */
  const int32_t *table;      /* with vocab: [vocab, top_k] experts of each token id, 0 to n_experts - 1 */
  /* output [tokens, top_k]: the chosen experts, the best first; with vocab in the order of the table */
  int32_t *experts;
  float *weights;  /* output [tokens, top_k]: weight of each chosen expert */
  int32_t *counts; /* output [n_experts], with GA_ROUTE_SORT: number of rows of each expert */
  /* output [n_experts + 1], with GA_ROUTE_SORT: sorted row at which each expert's rows begin; the last is tokens *
   * top_k */
  int32_t *offsets;
  /* output [tokens * top_k], with GA_ROUTE_SORT: sorted row i is of token order[i] / top_k and of its slot order[i] %
   * top_k */
  int32_t *order;
  /* output [tokens, top_k], with GA_ROUTE_SORT: sorted row of each token's slot, so that order[place[i]] = i */
  int32_t *place;
} ga_route_io;

GA_DECLARE_OP(route)
/* --- end of src/op/route.toml --- */

/* --- src/op/expert_gemm.toml: ga_expert_form ga_expert_clamp ga_expert_flags desc io functions --- */
typedef enum ga_expert_form {
  GA_EXPERT_IN = 0, /* from tokens to their slots: up, or gate and up, with the activation */
  GA_EXPERT_OUT = 1 /* from slots back to tokens: down, and the sum of a token's slots */
} ga_expert_form;

/* Where limit bounds g and u, or act(g) and u; needs GATED. NaN stays NaN. */
typedef enum ga_expert_clamp {
  GA_EXPERT_CLAMP_NONE = 0,
  GA_EXPERT_CLAMP_BEFORE = 1, /* g = min(g, limit) and u = max(-limit, min(u, limit)), before the activation */
  GA_EXPERT_CLAMP_AFTER = 2   /* act(g) = min(act(g), limit), and u as in BEFORE */
} ga_expert_clamp;

typedef enum ga_expert_flags {
  GA_EXPERT_GATED = 1,    /* IN: act(g) * (u + up_offset) in place of act(u) */
  GA_EXPERT_BIAS = 2,     /* adds each expert's bias to its products */
  GA_EXPERT_WEIGHTS = 4,  /* multiplies by a slot's weight: IN the row of X, OUT the slot's result with its bias */
  GA_EXPERT_RESIDUAL = 8, /* OUT: adds residual */
  GA_EXPERT_SORTED = 16,  /* slots' rows, of Y in IN and of X in OUT, are sorted by expert; else by token and slot */
  /* IN with top_k 1, without SORTED: row t of X is of expert t mod n_experts, as heads of a token follow each other,
   * and io.experts is not read. */
  GA_EXPERT_IN_TURN = 32
} ga_expert_flags;

/* Multiplies rows by the matrices of the experts that ga_route chose, and applies biases and activations, or adds a
 * token's results up. The head of this file says how. */
typedef struct ga_expert_gemm_desc {
  size_t struct_size;
  int64_t tokens; /* number of tokens; tokens * top_k is at most 2^31 - 1 */
  int64_t n, k;   /* numbers of rows and columns of an expert's matrix */
  int64_t x_stride, y_stride;
  /* rows of W, and elements of biases, from one expert to the next; at least n, 0 = n. 2 n if gate and up share a
   * stack */
  int64_t expert_rows;
  int32_t n_experts;        /* number of experts, 1 to 1024 */
  int32_t top_k;            /* number of experts of a token, 1 to 64 */
  int32_t form;             /* ga_expert_form */
  int32_t w_dtype;          /* ga_dtype of W and W_gate: any weight type */
  int32_t x_dtype, y_dtype; /* ga_dtype of X and of Y: f32, f16, bf16 */
  /* ga_layout of W and W_gate. Packed: as ga_pack packs the rows of all matrices of the stack, where expert_rows is a
   * multiple of 16 */
  int32_t w_layout;
  int32_t act;      /* IN: the activation, a ga_act_kind up to RELU2; OUT: 0 */
  int32_t clamp;    /* ga_expert_clamp */
  float act_alpha;  /* SILU is g / (1 + e^(-act_alpha g)); 1 for other activations */
  float limit;      /* bound of the clamp, above 0; 0 without clamp */
  float up_offset;  /* with GATED: addend of u, such as 1 in gpt-oss */
  uint32_t flags;   /* ga_expert_flags */
  int32_t reserved; /* must be 0 */
  /* 0 = expert e has matrix e of the stacks. Else the stacks have this number of matrices, and io.matrices says which
   * of them each expert has */
  int64_t n_matrices;
} ga_expert_gemm_desc;
#define GA_EXPERT_GEMM_DESC_INIT \
  { sizeof(ga_expert_gemm_desc), 0, 0, 0, 0, 0, 0, 0, 0, 0, GA_F32, GA_F32, GA_F32, 0, 0, 0, 1.0f, 0.0f, 0.0f, 0, 0, 0 }

typedef struct ga_expert_gemm_io {
  const void *x;          /* IN: [tokens, k]; OUT: [tokens * top_k, k], rows in the order in which IN writes them */
  const void *w, *w_gate; /* stacks [n_experts, n, k], or [n_matrices, n, k]; w_gate with GATED */
  /* with BIAS: [n_experts, n], expert_rows elements from one expert to the next; bias_gate with GATED */
  const float *bias, *bias_gate;
  void *y;                /* output. IN: [tokens * top_k, n]; OUT: [tokens, n]. Must overlap no input but residual */
  const void *residual;   /* with RESIDUAL: [tokens, n] of y's type and stride; may be y */
  const int32_t *experts; /* without SORTED and IN_TURN: [tokens, top_k] experts, 0 to n_experts - 1 */
  const float *weights;   /* with WEIGHTS: [tokens, top_k] */
  const int32_t *offsets, *order, *place; /* with SORTED: as ga_route writes them */
  /* with n_matrices: [n_experts] each expert's matrix, less than n_matrices; -1 = it has none: its slots are left out.
   * Their rows of Y in IN stay as they are, and OUT adds nothing for them */
  const int32_t *matrices;
} ga_expert_gemm_io;

GA_DECLARE_OP(expert_gemm)
/* --- end of src/op/expert_gemm.toml --- */

#ifdef __cplusplus
}
#endif
#endif
