/* The list of merges, as a map from two neighbours to what they become. */
#include "token/tok_pairs.h"

#include "base/log.h"
#include "base/status.h"

/* A token of a merge, as bytes of text. */
static bool decode_part(const ga_tokenizer *tok, const char *s, size_t n, char *out, size_t *made) {
  if (tok->kind == GA_TOK_BPE) return tok_byte_decode(s, n, out, made);
  *made = tok_unmark_spaces(s, n, out);
  return true;
}

/* "left right" as tokens; false when one of the three is none. The result's id is the third. */
static bool merge_ids(const ga_tokenizer *tok, const ga_text *merge, size_t space, char *raw, int32_t id[3]) {
  size_t left, right;
  if (!decode_part(tok, merge->data, space, raw, &left)) return false;
  if (!decode_part(tok, merge->data + space + 1, merge->bytes - space - 1, raw + left, &right)) return false;
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

ga_status tok_build_pairs(ga_tokenizer *tok, const ga_vocab *vocab) {
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

/* --- SPM: merges or scores --- */

/* Counts the merges whose result is one given token, and keeps the range of their ranks. */
typedef struct made_by {
  uint32_t count, least, most; /* number of merges, and their ranks */
} made_by;

static void count_merges(const ga_tokenizer *tok, made_by *made) {
  for (uint32_t at = 0; at <= tok->pairs.mask; at++) {
    const tok_pair *pair = &tok->pairs.slots[at];
    if (pair->left < 0) continue;
    made_by *m = &made[pair->made];
    if (!m->count || pair->rank < m->least) m->least = pair->rank;
    if (!m->count || pair->rank > m->most) m->most = pair->rank;
    m->count++;
  }
}

static uint32_t count_splits(const ga_tokenizer *tok, int32_t id) {
  uint32_t bytes, count = 0;
  const char *s = tok_piece_text(tok, id, &bytes);
  for (size_t at = tok_char_bytes(s, bytes); at < bytes; at += tok_char_bytes(s + at, bytes - at))
    count += tok_map_find(tok, s, at) >= 0 && tok_map_find(tok, s + at, bytes - at) >= 0;
  return count;
}

ga_status tok_merges_from_scores(const ga_tokenizer *tok, bool *from_scores) {
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)tok->n_tokens, sizeof(made_by), "merges of a token", &p));
  made_by *made = p;
  *from_scores = true;
  count_merges(tok, made);
  for (int32_t id = 0; id < tok->n_tokens && *from_scores; id++) {
    const made_by *m = &made[id];
    if (!(tok->mark[id] & TOK_MARK_PLAIN)) continue;
    *from_scores = m->count == count_splits(tok, id) && (!m->count || m->most - m->least + 1 == m->count);
  }
  ga_mem_free(made);
  return GA_OK;
}
