/* Logits with biases and penalties, computed in double and rounded once, like ga_ref_sample.
 *
 * The lists of tokens with a bias or a penalty are short compared with the vocabulary. A thread block marks the tokens
 * of its group that are in the lists and adjusts only these, one token per warp at a time. */
#pragma once
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/bits.h"
#include "cuda/kern/layer/layer_args.h"

typedef struct {
  int32_t id;
  float bias;
} logit_bias; /* same layout as ga_logit_bias */

/* Ids of the tokens that penalties apply to, earlier tokens of the sequence; n is their number. */
typedef struct {
  const int32_t *ids;
  int64_t n;
} seen_tokens;

GA_DEV seen_tokens seen_by(const ga_kargs_sample *a) {
  const int64_t all = a->sequence ? *a->n_sequence : a->n_history, n = all < a->n_history ? all : a->n_history;
  const seen_tokens last = {a->sequence ? a->sequence + (all - n) : a->history, n};
  return last;
}

/* Returns, in lane l, a word whose bit e tells that a list may have token 32 e + l of the group. In groups of more than
 * 1024 tokens several tokens share a bit. All lanes of the warp must call. */
GA_DEV uint32_t listed_in(const ga_kargs_sample *a, seen_tokens seen, int64_t group) {
  const logit_bias *bias = (const logit_bias *)a->bias;
  const int lane = thread_index() % 32;
  uint32_t mask = 0;
  for (int64_t base = 0; base < seen.n + a->n_bias; base += 32) {
    const int64_t i = base + lane;
    const int32_t id = i < seen.n ? seen.ids[i] : i < seen.n + a->n_bias ? bias[i - seen.n].id : -1;
    for (uint32_t left = warp_ballot(id >= 0 && id >> a->group_log == group); left; left &= left - 1) {
      const uint32_t found = shfl_idx_u32((uint32_t)id, lowest_bit(left));
      if ((int)(found % 32) == lane) mask |= 1u << (found / 32 % 32);
    }
  }
  return mask;
}

/* Returns the logit of token id after biases and penalties, the same in all lanes. All lanes of the warp must call. */
GA_DEV float adjusted(const ga_kargs_sample *a, seen_tokens seen, int32_t id, float logit) {
  const logit_bias *bias = (const logit_bias *)a->bias;
  double x = (double)logit;
  uint32_t count = 0;
  for (int64_t i = 0; i < a->n_bias; i++)
    if (bias[i].id == id) x += (double)bias[i].bias;
  for (int64_t i = thread_index() % 32; i < seen.n; i += 32) count += seen.ids[i] == id;
  count = redux_add_u32(count);
  if (!count) return (float)x;
  x = x > 0 ? x / (double)a->repetition_penalty : x * (double)a->repetition_penalty;
  const double all = (double)a->frequency_penalty * (double)count;
  return (float)(x - ((double)a->presence_penalty + all));
}
