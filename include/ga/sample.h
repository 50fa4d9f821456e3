/* GA, sampling: draws one token id from a row of logits.
 *
 * Order of the chain: logit bias, penalties, (greedy ends here), top-k, typical, top-p, min-p, temperature, draw.
 *
 * A token with logit NaN or -infinity is never drawn; when no other token is left, token 0 is drawn. Of two tokens with
 * equal logits, the one with the lower id counts as more probable. Ids outside the vocabulary in `history` and `bias`
 * are ignored. Every filter takes the softmax over the tokens that the previous filter kept, and keeps at least one
 * token:
 *   typical  the tokens whose -log p is nearest to the entropy, until their p add up to typical_p
 *   top-p    the most probable tokens, until their p add up to top_p
 *   min-p    tokens with p >= min_p * the largest p
 * Sources: top-p arXiv 1904.09751, typical 2202.00666, min-p 2407.01082, repetition penalty 1909.05858.
 */
#ifndef GA_SAMPLE_H
#define GA_SAMPLE_H

#include "ga/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- src/op/sample.toml: desc --- */
typedef struct ga_sample_desc {
  size_t struct_size;
  int64_t vocab;     /* number of logits, 1 to 2^31 - 1 */
  float temperature; /* divisor of the logits; 0 = greedy: the token with the largest logit */
  float top_p;       /* top-p: sum of probabilities that the kept tokens reach, in (0, 1]; 1 = off */
  float min_p;       /* min-p: smallest probability of a kept token / the largest probability, in [0, 1); 0 = off */
  float typical_p;   /* typical: sum of probabilities that the kept tokens reach, in (0, 1]; 1 = off */
  /* divisor of positive logits and factor of negative logits of tokens in history, above 0; 1 = off */
  float repetition_penalty;
  float presence_penalty;  /* subtracted once from the logit of each token in history; 0 = off */
  float frequency_penalty; /* subtracted from a token's logit for each time it occurs in history; 0 = off */
  int32_t top_k;           /* number of most probable tokens kept; 0 = off */
} ga_sample_desc;
#define GA_SAMPLE_DESC_INIT \
  { sizeof(ga_sample_desc), 0, 0.0f, 1.0f, 0.0f, 1.0f, 1.0f, 0.0f, 0.0f, 0 }
/* --- end of src/op/sample.toml --- */

typedef struct ga_logit_bias {
  int32_t id;
  float bias; /* -infinity bans the token */
} ga_logit_bias;

/* --- src/op/sample.toml: io --- */
typedef struct ga_sample_io {
  const float *logits;       /* [vocab] logits, which are not changed */
  const int32_t *history;    /* [n_history] earlier tokens, to which the penalties apply */
  const ga_logit_bias *bias; /* [n_bias] values added to logits */
  int64_t n_history, n_bias;
  uint64_t *rng;  /* [4] state of the random generator (ga_sample_seed), advanced by one draw; not used when greedy */
  int32_t *id;    /* output: the drawn token */
  float *logprob; /* output: the token's natural-log probability under the plain softmax of `logits`; may be NULL */
} ga_sample_io;
/* --- end of src/op/sample.toml --- */

/* Sets the state of a generator of random numbers, rng[4], from a seed. */
GA_API void ga_sample_seed(uint64_t *rng, uint64_t seed);

GA_API GA_NODISCARD ga_status ga_sample_plan(ga_ctx *ctx, const ga_sample_desc *desc, ga_plan **out);
GA_API GA_NODISCARD ga_status ga_sample_run(const ga_plan *plan, const ga_sample_io *io, void *workspace,
                                            ga_stream *stream);
GA_API GA_NODISCARD ga_status ga_sample(ga_ctx *ctx, const ga_sample_desc *desc, const ga_sample_io *io,
                                        ga_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
