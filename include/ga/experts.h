/* GA, layers with experts (mixture of experts): ga_route chooses the experts of each token.
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
 * Sources: arXiv 1701.06538 (experts), 2401.04088 (Mixtral), 2405.04434 (DeepSeek V2), 2412.19437 (DeepSeek V3).
 */
#ifndef GA_EXPERTS_H
#define GA_EXPERTS_H

#include "ga/ctx.h"

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

#ifdef __cplusplus
}
#endif
#endif
