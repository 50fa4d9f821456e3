/* Special tokens: which there are, where they stand in a text, which end generation. */
#include <stdlib.h>

#include "base/status.h"
#include "token/tok_run.h"

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

static ga_status build_matcher(ga_tokenizer *tok, const tok_cut *list, int32_t n, bool user_alone, tok_matcher *out) {
  size_t bytes = 0;
  for (int32_t i = 0; i < n; i++)
    if (!user_alone || tok->type[list[i].id] == GA_TOK_USER) bytes += list[i].bytes;
  GA_TRY(tok_matcher_init(out, &tok->arena, bytes));
  for (int32_t i = 0; i < n; i++)
    if (!user_alone || tok->type[list[i].id] == GA_TOK_USER) tok_matcher_add(out, list[i].text, list[i].bytes, i);
  return tok_matcher_finish(out);
}

/* A normalizer may make a text empty: the token is then never found. */
static ga_status normal_text(ga_tokenizer *tok, const tok_steps *steps, const ga_text *text, ga_text *out) {
  tok_run run = {.tok = tok};
  ga_text normal;
  char *copy = NULL;
  tok_normalize(&run, steps, text->data, text->bytes, &normal);
  ga_status status = run.status;
  if (status == GA_OK) status = ga_arena_strndup(&tok->arena, normal.data, normal.bytes, &copy);
  *out = (ga_text){copy, normal.bytes};
  tok_run_free(&run);
  return status;
}

/* Control tokens are looked for in the raw text alone: text of a user must not become one by way of a normalizer. */
static bool is_normal_cut(const ga_tokenizer *tok, int32_t id, uint8_t added) {
  return added & TOK_ADDED_NORMALIZED && tok->type[id] == GA_TOK_USER;
}

/* As a text has the token. */
static ga_text cut_text(const ga_text *piece, uint8_t added) {
  const size_t mark = added & TOK_ADDED_PIECE && piece->bytes > 3 ? 3 : 0;
  return (ga_text){mark ? piece->data + mark : piece->data, piece->bytes - mark};
}

static ga_status list_cuts(ga_tokenizer *tok, const ga_vocab *vocab, const uint8_t *added, bool normal, tok_cut **out,
                           int32_t *count) {
  const tok_steps none = {0}; /* as written in the vocabulary: U+2581 in a user-defined token matches only itself */
  int32_t n = 0, kept = 0;
  void *p;
  for (int32_t id = 0; id < tok->n_tokens; id++) n += is_cut(tok->type[id]) && vocab->tokens[id].bytes;
  GA_TRY(ga_arena_alloc(&tok->arena, (size_t)n * sizeof(tok_cut), &p));
  tok_cut *list = p;
  for (int32_t id = 0; id < tok->n_tokens; id++) {
    const uint8_t bits = added ? added[id] : 0;
    ga_text raw = cut_text(&vocab->tokens[id], bits), text = raw;
    if (!is_cut(tok->type[id]) || !text.bytes || is_normal_cut(tok, id, bits) != normal) continue;
    GA_TRY(normal_text(tok, normal ? &tok->steps : &none, &raw, &text));
    if (text.bytes) list[kept++] = (tok_cut){text.data, (uint32_t)text.bytes, id, bits};
  }
  if (kept) qsort(list, (size_t)kept, sizeof(tok_cut), compare_cuts);
  *count = drop_doubles(list, kept);
  *out = list;
  return GA_OK;
}

ga_status tok_build_cuts(ga_tokenizer *tok, const ga_vocab *vocab, const uint8_t *added) {
  tok_cuts *cuts = &tok->cuts;
  mark_eog(tok, vocab);
  GA_TRY(list_cuts(tok, vocab, added, false, &cuts->list, &cuts->count));
  GA_TRY(build_matcher(tok, cuts->list, cuts->count, false, &cuts->all));
  GA_TRY(build_matcher(tok, cuts->list, cuts->count, true, &cuts->user));
  if (!added) return GA_OK;
  GA_TRY(list_cuts(tok, vocab, added, true, &cuts->normal, &cuts->n_normal));
  return build_matcher(tok, cuts->normal, cuts->n_normal, false, &cuts->normalized);
}

/* --- looking for them --- */

static int32_t find_in_cuts(const tok_cut *list, int32_t n, const char *text, size_t bytes) {
  int32_t lo = 0, hi = n;
  while (lo < hi) {
    const int32_t mid = lo + (hi - lo) / 2;
    const tok_cut *c = &list[mid];
    const int order = memcmp(c->text, text, c->bytes < bytes ? c->bytes : bytes);
    if (!order && c->bytes == bytes) return c->id;
    if (order < 0 || (!order && c->bytes < bytes))
      lo = mid + 1;
    else
      hi = mid;
  }
  return GA_TOK_NONE;
}

int32_t tok_cut_find(const ga_tokenizer *tok, const char *text, size_t bytes) {
  const int32_t id = find_in_cuts(tok->cuts.list, tok->cuts.count, text, bytes);
  if (id >= 0) return id;
  for (int32_t i = 0; i < tok->cuts.n_normal; i++) {
    uint32_t n;
    const char *s = tok_piece_text(tok, tok->cuts.normal[i].id, &n);
    if (n == bytes && !memcmp(s, text, n)) return tok->cuts.normal[i].id;
  }
  return GA_TOK_NONE;
}

typedef struct search {
  const ga_tokenizer *tok;
  const uint8_t *foreign;  /* NULL: nothing is */
  size_t at, next_foreign; /* the first foreign byte from `at` on */
} search;

static bool allows(void *arg, int32_t token, size_t at, uint32_t bytes) {
  search *s = arg;
  if (!s->foreign || s->tok->type[s->tok->cuts.list[token].id] == GA_TOK_USER) return true;
  while (s->at > at)
    if (s->foreign[--s->at]) s->next_foreign = s->at;
  return at + bytes <= s->next_foreign;
}

ga_status tok_find_cuts(const ga_tokenizer *tok, const char *text, size_t n, bool parse, const uint8_t *foreign,
                        tok_matches *out) {
  search s = {.tok = tok, .foreign = foreign, .at = n, .next_foreign = n};
  return tok_matcher_run(parse ? &tok->cuts.all : &tok->cuts.user, (const uint8_t *)text, n, allows, &s, out);
}

static bool allows_any(void *arg, int32_t token, size_t at, uint32_t bytes) {
  (void)arg, (void)token, (void)at, (void)bytes;
  return true;
}

ga_status tok_find_normal_cuts(const ga_tokenizer *tok, const char *text, size_t n, tok_matches *out) {
  return tok_matcher_run(&tok->cuts.normalized, (const uint8_t *)text, n, allows_any, NULL, out);
}
