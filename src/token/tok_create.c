/* ga_tokenizer_create: checks a vocabulary and makes each part of a tokenizer from it. */
#include "base/hash.h"
#include "base/sized.h"
#include "base/status.h"
#include "token/tok_pairs.h"

#define MAX_TOKENS ((size_t)1 << 22)
#define MAX_MERGES ((size_t)1 << 22)

static const char *const special_names[TOK_NAMED] = {"bos", "eos", "eot", "eom", "unk", "sep", "pad", "cls", "mask"};

static ga_status check_specials(ga_tokenizer *tok, const ga_vocab *v) {
  const int32_t given[TOK_NAMED] = {v->bos, v->eos, v->eot, v->eom, v->unk, v->sep, v->pad, v->cls, v->mask};
  for (int i = 0; i < TOK_NAMED; i++) {
    GA_REQUIRE(given[i] >= GA_TOK_NONE && given[i] < tok->n_tokens, GA_ERR_ARG,
               "tokenizer: %s token is %d; must be -1 or below %d", special_names[i], given[i], tok->n_tokens);
    tok->special[i] = given[i];
  }
  GA_REQUIRE(v->eog || v->n_eog == 0, GA_ERR_ARG, "tokenizer: no eog");
  for (size_t i = 0; i < v->n_eog; i++)
    GA_REQUIRE(v->eog[i] >= 0 && v->eog[i] < tok->n_tokens, GA_ERR_ARG,
               "tokenizer: end-of-generation token %zu is %d; must be 0 to %d", i, v->eog[i], tok->n_tokens - 1);
  return GA_OK;
}

static ga_status check_vocab(const ga_vocab *v) {
  GA_REQUIRE(v->kind >= GA_TOK_SPM && v->kind <= GA_TOK_UGM, GA_ERR_UNSUPPORTED,
             "tokenizer: kind %d; must be SPM (1), BPE (2), WPM (3) or UGM (4)", (int)v->kind);
  GA_REQUIRE(v->n_tokens >= 1 && v->n_tokens <= MAX_TOKENS, GA_ERR_SHAPE, "tokenizer: %zu tokens; must be 1 to %zu",
             v->n_tokens, MAX_TOKENS);
  GA_REQUIRE(v->n_merges <= MAX_MERGES, GA_ERR_SHAPE, "tokenizer: %zu merges; at most %zu", v->n_merges, MAX_MERGES);
  GA_REQUIRE(v->tokens && (v->merges || v->n_merges == 0), GA_ERR_ARG, "tokenizer: no %s",
             v->tokens ? "merges" : "tokens");
  return GA_OK;
}

static ga_status copy_affix(ga_tokenizer *tok, const tok_extra *extra) {
  const size_t n = extra->n_before + extra->n_after;
  void *p;
  GA_TRY(ga_arena_alloc(&tok->arena, n * sizeof(int32_t), &p));
  tok->affix = (tok_affix){true, p, extra->n_before, extra->n_after};
  if (extra->n_before) memcpy(tok->affix.ids, extra->before, extra->n_before * sizeof(int32_t));
  if (extra->n_after) memcpy(tok->affix.ids + extra->n_before, extra->after, extra->n_after * sizeof(int32_t));
  for (size_t i = 0; i < n; i++)
    GA_REQUIRE(tok->affix.ids[i] >= 0 && tok->affix.ids[i] < tok->n_tokens, GA_ERR_FORMAT,
               "tokenizer: the template adds token %d; must be 0 to %d", tok->affix.ids[i], tok->n_tokens - 1);
  return GA_OK;
}

static ga_status copy_extra(ga_tokenizer *tok, const ga_vocab *vocab, const tok_extra *extra) {
  const bool spaced = vocab->kind == GA_TOK_SPM || vocab->kind == GA_TOK_UGM;
  tok->wpm = vocab->cased ? TOK_WPM_CLEAN | TOK_WPM_CJK | TOK_WPM_PUNCT : TOK_WPM_BERT;
  tok->word_chars = TOK_WPM_WORD_CHARS;
  tok->strip = vocab->kind == GA_TOK_WPM || (spaced && vocab->add_space_prefix);
  if (!extra) return GA_OK;
  if (extra->has_wpm) {
    tok->wpm = extra->wpm;
    tok->word_chars = extra->word_chars;
  }
  if (extra->has_strip) tok->strip = extra->strip;
  tok->unknown = extra->unknown;
  tok->bpe_prefix = extra->bpe_prefix;
  GA_TRY(tok_steps_copy(&tok->arena, &extra->steps, &tok->steps));
  return extra->has_template ? copy_affix(tok, extra) : GA_OK;
}

/* Returns whether tokens are looked for in normalised text. */
static bool has_normal_tokens(const ga_tokenizer *tok, const ga_vocab *vocab, const uint8_t *added) {
  for (int32_t id = 0; added && vocab->types && id < tok->n_tokens; id++)
    if (added[id] & TOK_ADDED_NORMALIZED && vocab->types[id] == GA_TOK_USER) return true;
  return false;
}

/* WPM: turns what the encoder does as it goes into steps, which run on the whole text. */
static ga_status spell_out_bert(ga_tokenizer *tok) {
  static const struct {
    uint32_t flag;
    tok_step_kind kind;
  } parts[] = {{TOK_WPM_CLEAN, TOK_STEP_CLEAN},
               {TOK_WPM_CJK, TOK_STEP_CJK},
               {TOK_WPM_STRIP, TOK_STEP_NFD},
               {TOK_WPM_STRIP, TOK_STEP_STRIP_NONSPACING},
               {TOK_WPM_LOWER, TOK_STEP_LOWER}};
  void *p;
  if (tok->kind != GA_TOK_WPM) return GA_OK;
  GA_TRY(ga_arena_alloc(&tok->arena, (tok->steps.count + GA_COUNT_OF(parts)) * sizeof(tok_step), &p));
  tok_step *list = p;
  size_t n = tok->steps.count;
  if (n) memcpy(list, tok->steps.list, n * sizeof *list);
  for (size_t i = 0; i < GA_COUNT_OF(parts); i++)
    if (tok->wpm & parts[i].flag) list[n++] = (tok_step){.kind = parts[i].kind};
  tok->steps = (tok_steps){list, n};
  tok->wpm &= TOK_WPM_PUNCT | TOK_WPM_WORDS;
  return GA_OK;
}

static bool has_all_bytes(const ga_tokenizer *tok) {
  bool all = true;
  for (int b = 0; b < 256; b++) all = all && tok->byte_id[b] >= 0;
  return all;
}

/* Scores do as well, and are faster, where the merges follow from them and no character is unknown. */
static ga_status build_spm_merges(ga_tokenizer *tok, const ga_vocab *vocab) {
  bool from_scores;
  GA_TRY(tok_build_pairs(tok, vocab));
  GA_TRY(tok_merges_from_scores(tok, &from_scores));
  tok->by_merges = !from_scores || !tok->all_bytes;
  return GA_OK;
}

static ga_status build_vocab(ga_tokenizer *tok, const ga_vocab *vocab, const tok_extra *extra) {
  const uint8_t *added = extra ? extra->added : NULL;
  tok->kind = vocab->kind;
  tok->n_tokens = (int32_t)vocab->n_tokens;
  tok->add_bos = vocab->add_bos;
  tok->add_eos = vocab->add_eos;
  tok->add_space_prefix = vocab->add_space_prefix;
  tok->remove_extra_whitespaces = vocab->remove_extra_whitespaces;
  tok->ignore_merges = vocab->ignore_merges;
  tok->unigram = vocab->unigram;
  GA_TRY(copy_extra(tok, vocab, extra));
  GA_TRY(check_specials(tok, vocab));
  if (has_normal_tokens(tok, vocab, added)) GA_TRY(spell_out_bert(tok));
  GA_TRY(tok_build_pieces(tok, vocab));
  GA_TRY(tok_build_cuts(tok, vocab, added)); /* may turn a normal token into a control token: before the map */
  GA_TRY(tok_build_map(tok, vocab, added));
  GA_TRY(tok_build_fim(tok, vocab));
  tok->all_bytes = has_all_bytes(tok);
  if (tok->kind == GA_TOK_BPE) return tok_build_pairs(tok, vocab);
  if (tok->kind == GA_TOK_UGM) return tok_build_ugm(tok, vocab);
  if (tok->kind != GA_TOK_SPM) return GA_OK;
  GA_TRY(tok_build_spm(tok, vocab));
  return extra && extra->has_merges ? build_spm_merges(tok, vocab) : GA_OK;
}

bool tok_merges_by_list(const ga_tokenizer *tok) { return tok->by_merges; }

ga_status ga_tokenizer_create(const ga_vocab *vocab, ga_tokenizer **out) { return tok_create(vocab, NULL, out); }

ga_status tok_create(const ga_vocab *vocab, const tok_extra *extra, ga_tokenizer **out) {
  GA_REQUIRE(vocab && out, GA_ERR_ARG, "tokenizer: null argument");
  *out = NULL;
  ga_vocab full;
  GA_TRY(GA_SIZED_TAKE("tokenizer: vocab", ga_vocab, vocab, &full));
  vocab = &full;
  GA_TRY(check_vocab(vocab));
  const tok_split_rule *rule = ga_tok_split_find(vocab->pre);
  GA_REQUIRE(rule || vocab->kind != GA_TOK_BPE, GA_ERR_UNSUPPORTED, "tokenizer: pre-splitter \"%s\" is not known",
             vocab->pre);
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_tokenizer), "tokenizer", &p));
  ga_tokenizer *tok = p;
  ga_arena_init(&tok->arena, 0);
  tok->rule = rule;
  ga_secret_keys(tok->key, TOK_HASH_KEYS);
  ga_status status = build_vocab(tok, vocab, extra);
  if (status != GA_OK) {
    ga_tokenizer_destroy(tok);
    return status;
  }
  *out = tok;
  return GA_OK;
}

void ga_tokenizer_destroy(ga_tokenizer *tok) {
  if (!tok) return;
  ga_arena_free(&tok->arena);
  ga_mem_free(tok);
}
