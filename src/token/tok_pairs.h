/* Merges of two neighbouring tokens by the list of merges in a file. BPE uses the list; SPM uses it if it does not
 * follow from scores. */
#ifndef GA_TOKEN_TOK_PAIRS_H
#define GA_TOKEN_TOK_PAIRS_H

#include "token/tok_run.h"

/* Makes tok->pairs from the merges of a vocabulary. */
GA_NODISCARD ga_status tok_build_pairs(ga_tokenizer *tok, const ga_vocab *vocab);

/* SPM: sets *from_scores to whether the merges are the merges that follow from the tokens' scores. Such a list has a
 * merge for each way to cut each token into two tokens, and the merges of one token are next to each other. */
GA_NODISCARD ga_status tok_merges_from_scores(const ga_tokenizer *tok, bool *from_scores);

GA_INLINE void tok_merge_pair(const void *ctx, const tok_symbols *sym, uint32_t i, uint32_t n) {
  const ga_tokenizer *tok = ctx;
  uint32_t j = sym->next[i];
  sym->rank[i] = TOK_RANK_NONE;
  if (j >= n || sym->id[i] < 0) return;
  const tok_pair *pair = tok_pairs_find(tok, sym->id[i], sym->id[j]);
  if (!pair) return;
  sym->rank[i] = pair->rank;
  sym->made[i] = pair->made;
}

#endif
