/* Byte-level BPE: each pre-split word is bytes at first; neighbours merge in the order of the merge list. */
#include "base/log.h"
#include "base/status.h"
#include "token/tok_merge.h"

/* "left right" as tokens; false when one of the three is none. The result's id is *made. */
static bool merge_ids(const ga_tokenizer *tok, const ga_text *merge, size_t space, char *raw, int32_t id[3]) {
  size_t left, right;
  if (!tok_byte_decode(merge->data, space, raw, &left)) return false;
  if (!tok_byte_decode(merge->data + space + 1, merge->bytes - space - 1, raw + left, &right)) return false;
  if (left == 0 || right == 0) return false;
  id[0] = tok_map_find(tok, raw, left);
  id[1] = tok_map_find(tok, raw + left, right);
  id[2] = tok_map_find(tok, raw, left + right);
  return id[0] >= 0 && id[1] >= 0 && id[2] >= 0;
}

/* The first of two merges of the same pair counts. */
static void add_pair(ga_tokenizer *tok, const int32_t id[3], uint32_t rank) {
  tok_pairs *pairs = &tok->pairs;
  uint32_t at = tok_pair_hash(tok->key, id[0], id[1]) & pairs->mask;
  for (; pairs->slots[at].left >= 0; at = (at + 1) & pairs->mask)
    if (pairs->slots[at].left == id[0] && pairs->slots[at].right == id[1]) return;
  pairs->slots[at] = (tok_pair){id[0], id[1], rank, id[2]};
}

static ga_status longest_merge(const ga_vocab *vocab, size_t *most) {
  *most = 0;
  for (size_t i = 0; i < vocab->n_merges; i++) {
    const ga_text *m = &vocab->merges[i];
    GA_REQUIRE(m->data && m->bytes >= 3 && memchr(m->data + 1, ' ', m->bytes - 1), GA_ERR_FORMAT,
               "tokenizer: merge %zu is not two tokens with a space between", i);
    if (m->bytes > *most) *most = m->bytes;
  }
  return GA_OK;
}

ga_status tok_build_bpe(ga_tokenizer *tok, const ga_vocab *vocab) {
  size_t most, size = 16, lost = 0;
  void *slots, *raw;
  GA_TRY(longest_merge(vocab, &most));
  while (size < 2 * vocab->n_merges) size *= 2;
  GA_TRY(ga_arena_alloc(&tok->arena, size * sizeof(tok_pair), &slots));
  tok->pairs = (tok_pairs){slots, (uint32_t)(size - 1)};
  memset(slots, 0xFF, size * sizeof(tok_pair));
  GA_TRY(ga_mem_alloc(most, "merge", &raw));
  for (size_t i = 0; i < vocab->n_merges; i++) {
    const ga_text *m = &vocab->merges[i];
    size_t space = (size_t)((const char *)memchr(m->data + 1, ' ', m->bytes - 1) - m->data);
    int32_t id[3];
    if (merge_ids(tok, m, space, raw, id))
      add_pair(tok, id, (uint32_t)i);
    else
      lost++;
  }
  ga_mem_free(raw);
  if (lost) ga_log(GA_LOG_WARN, "tokenizer: %zu of %zu merges name no token and are left out", lost, vocab->n_merges);
  return GA_OK;
}

GA_INLINE void bpe_pair(const void *ctx, const tok_symbols *sym, uint32_t i, uint32_t n) {
  const ga_tokenizer *tok = ctx;
  uint32_t j = sym->next[i];
  sym->rank[i] = TOK_RANK_NONE;
  if (j >= n || sym->id[i] < 0) return;
  const tok_pair *pair = tok_pairs_find(tok, sym->id[i], sym->id[j]);
  if (!pair) return;
  sym->rank[i] = pair->rank;
  sym->made[i] = pair->made;
}

static void bpe_word(tok_run *run, const char *text, size_t bytes) {
  const ga_tokenizer *tok = run->tok;
  if (bytes == 1 || tok->ignore_merges) {
    int32_t id = bytes == 1 ? tok->byte_id[(uint8_t)*text] : tok_map_find(tok, text, bytes);
    if (id >= 0) tok_emit(run, id);
    if (id >= 0 || bytes == 1) return;
  }
  if (!tok_run_symbols(run, bytes)) return;
  tok_symbols *sym = &run->symbols;
  uint32_t n = (uint32_t)bytes;
  for (uint32_t i = 0; i < n; i++) sym->id[i] = tok->byte_id[(uint8_t)text[i]];
  tok_merge_all(run, n, bpe_pair, tok);
  /* A byte that the vocabulary lacks leaves nothing, as in the implementations that models are trained with. */
  for (uint32_t i = 0; i < n; i = sym->next[i])
    if (sym->id[i] >= 0) tok_emit(run, sym->id[i]);
}

void tok_bpe_encode(tok_run *run, const char *text, size_t bytes) {
  tok_split split = ga_tok_split_start(run->tok->rule, text, bytes);
  tok_word word;
  for (size_t begin, end; tok_run_goes_on(run) && ga_tok_split_next(&split, &begin, &end);) {
    if (tok_word_known(run, text + begin, end - begin, &word)) continue;
    bpe_word(run, text + begin, end - begin);
    tok_word_keep(run, &word);
  }
}
