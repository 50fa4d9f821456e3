/* Special tokens: which there are, where they stand in a text, which end generation. */
#include <stdlib.h>

#include "base/status.h"
#include "token/tok_vocab.h"

/* Names under which published models end a turn or a text without saying so by an id. The list is that of other
 * engines on purpose: what one calls control and another does not would be tokenized differently. */
static const char *const eog_names[] = {
    "</s>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "[e~[",
    "<|end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81"
    "of\xE2\x96\x81"
    "sentence\xEF\xBD\x9C>", /* DeepSeek */
};

static bool is_eog_name(const ga_text *p) {
  for (size_t i = 0; i < GA_COUNT_OF(eog_names); i++)
    if (strlen(eog_names[i]) == p->bytes && !memcmp(eog_names[i], p->data, p->bytes)) return true;
  return false;
}

/* Some files call their end-of-turn token normal; text must not be able to make it. */
static void mark_eog(ga_tokenizer *tok, const ga_vocab *vocab) {
  for (int32_t id = 0; id < tok->n_tokens; id++) {
    const ga_text *p = &vocab->tokens[id];
    if (p->bytes < 4 || !strchr("<_[", p->data[0]) || !is_eog_name(p)) continue;
    tok->mark[id] |= TOK_MARK_EOG;
    tok->type[id] = GA_TOK_CONTROL;
  }
  for (size_t i = 0; i < vocab->n_eog; i++) tok->mark[vocab->eog[i]] |= TOK_MARK_EOG;
  for (int i = GA_TOK_EOS; i <= GA_TOK_EOM; i++)
    if (tok->special[i] >= 0) tok->mark[tok->special[i]] |= TOK_MARK_EOG;
}

static bool is_cut(uint8_t type) { return type == GA_TOK_CONTROL || type == GA_TOK_USER || type == GA_TOK_UNKNOWN; }

static int compare_cuts(const void *a, const void *b) {
  const tok_cut *x = a, *y = b;
  int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
  if (order) return order;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

/* Of tokens with the same text the last stays. */
static int32_t drop_doubles(tok_cut *list, int32_t n) {
  int32_t kept = 0;
  for (int32_t i = 0; i < n; i++) {
    const tok_cut *a = &list[i], *b = a + 1;
    if (i + 1 == n || a->bytes != b->bytes || memcmp(a->text, b->text, a->bytes) != 0) list[kept++] = *a;
  }
  return kept;
}

ga_status tok_build_cuts(ga_tokenizer *tok, const ga_vocab *vocab) {
  tok_cuts *cuts = &tok->cuts;
  mark_eog(tok, vocab);
  int32_t n = 0;
  for (int32_t id = 0; id < tok->n_tokens; id++) n += is_cut(tok->type[id]) && vocab->tokens[id].bytes;
  void *list;
  GA_TRY(ga_arena_alloc(&tok->arena, (size_t)n * sizeof(tok_cut), &list));
  cuts->list = list;
  n = 0;
  for (int32_t id = 0; id < tok->n_tokens; id++) {
    const ga_text *p = &vocab->tokens[id];
    if (!is_cut(tok->type[id]) || p->bytes == 0) continue;
    char *text; /* as written in the vocabulary: U+2581 in a user-defined token matches only itself */
    GA_TRY(ga_arena_strndup(&tok->arena, p->data, p->bytes, &text));
    cuts->list[n++] = (tok_cut){text, (uint32_t)p->bytes, id};
  }
  if (n) qsort(cuts->list, (size_t)n, sizeof(tok_cut), compare_cuts);
  cuts->count = n = drop_doubles(cuts->list, n);
  for (int32_t i = 0; i < n; i++) {
    uint8_t first = (uint8_t)cuts->list[i].text[0];
    cuts->any_first[first] = true;
    if (tok->type[cuts->list[i].id] == GA_TOK_USER) cuts->user_first[first] = true;
    cuts->from[first + 1] = i + 1;
  }
  for (int b = 1; b <= 256; b++)
    if (cuts->from[b] < cuts->from[b - 1]) cuts->from[b] = cuts->from[b - 1];
  return GA_OK;
}

/* First of list[lo, hi), which agree in their first `depth` bytes, whose next byte is at least `byte`. Those that end
 * at `depth` sort before all others. */
static int32_t first_at_least(const tok_cut *list, int32_t lo, int32_t hi, uint32_t depth, unsigned byte) {
  while (lo < hi) {
    int32_t mid = lo + (hi - lo) / 2;
    if (list[mid].bytes <= depth || (uint8_t)list[mid].text[depth] < byte)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

int32_t tok_cut_at(const ga_tokenizer *tok, const uint8_t *s, size_t n, bool parse, const uint8_t *foreign,
                   size_t *bytes) {
  const tok_cuts *cuts = &tok->cuts;
  int32_t found = GA_TOK_NONE, lo = cuts->from[s[0]], hi = cuts->from[s[0] + 1];
  for (uint32_t depth = 1; lo < hi; depth++) {
    const tok_cut *cut = &cuts->list[lo];
    parse = parse && !(foreign && foreign[depth - 1]);
    if (cut->bytes == depth && (parse || tok->type[cut->id] == GA_TOK_USER)) {
      found = cut->id;
      *bytes = depth;
    }
    if (depth >= n) break;
    lo = first_at_least(cuts->list, lo, hi, depth, s[depth]);
    hi = first_at_least(cuts->list, lo, hi, depth, s[depth] + 1u);
  }
  return found;
}
