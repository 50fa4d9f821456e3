/* ga_tokenizer_create: checks a vocabulary and makes each part of a tokenizer from it. */
#include "base/hash.h"
#include "base/sized.h"
#include "base/status.h"
#include "token/tok_vocab.h"

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

static ga_status build_vocab(ga_tokenizer *tok, const ga_vocab *vocab) {
  tok->kind = vocab->kind;
  tok->n_tokens = (int32_t)vocab->n_tokens;
  tok->add_bos = vocab->add_bos;
  tok->add_eos = vocab->add_eos;
  tok->add_space_prefix = vocab->add_space_prefix;
  tok->remove_extra_whitespaces = vocab->remove_extra_whitespaces;
  tok->ignore_merges = vocab->ignore_merges;
  tok->cased = vocab->cased;
  GA_TRY(check_specials(tok, vocab));
  GA_TRY(tok_build_pieces(tok, vocab));
  GA_TRY(tok_build_cuts(tok, vocab)); /* may turn a normal token into a control token: before the map */
  GA_TRY(tok_build_map(tok, vocab));
  GA_TRY(tok_build_fim(tok, vocab));
  if (tok->kind == GA_TOK_BPE) return tok_build_bpe(tok, vocab);
  if (tok->kind == GA_TOK_UGM) return tok_build_ugm(tok, vocab);
  return tok->kind == GA_TOK_SPM ? tok_build_spm(tok, vocab) : GA_OK;
}

ga_status ga_tokenizer_create(const ga_vocab *vocab, ga_tokenizer **out) {
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
  ga_status status = build_vocab(tok, vocab);
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
