/* tokenizer.json and what lies beside it, as the keys of a GGUF file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/status.h"
#include "file/hf_template.h"
#include "quant/rewrite.h"
#include "token/tok_load.h"

#define KEY(name) "tokenizer.ggml." name

/* --- vocabulary -------------------------------------------------------------------------------------------------- */

/* Tokens that the embedding has and the tokenizer has not: named so that no two are alike, as llama.cpp's converter
 * does, and never made from text. */
static ga_status pad_tokens(rewrite *r, const ga_vocab *v, int64_t rows, ga_text **texts, int32_t **types) {
  void *p, *q;
  GA_TRY(ga_arena_alloc(&r->arena, (size_t)rows * sizeof(ga_text), &p));
  GA_TRY(ga_arena_alloc(&r->arena, (size_t)rows * sizeof(int32_t), &q));
  *texts = p;
  *types = q;
  for (int64_t i = 0; i < rows; i++) {
    const bool there = (size_t)i < v->n_tokens && v->tokens[i].bytes > 0;
    char name[32];
    char *copy;
    (*types)[i] = there && v->types ? v->types[i] : there ? GA_TOK_NORMAL : GA_TOK_UNUSED;
    if (there) {
      (*texts)[i] = v->tokens[i];
      continue;
    }
    (void)snprintf(name, sizeof name, "[PAD%lld]", (long long)i);
    GA_TRY(ga_arena_strndup(&r->arena, name, strlen(name), &copy));
    (*texts)[i] = (ga_text){copy, strlen(copy)};
  }
  return GA_OK;
}

static ga_status put_scores(rewrite *r, const ga_vocab *v, int64_t rows) {
  void *p;
  GA_TRY(ga_arena_alloc(&r->arena, (size_t)rows * sizeof(float), &p));
  float *scores = p;
  for (int64_t i = 0; i < rows; i++) scores[i] = (size_t)i < v->n_tokens && v->scores ? v->scores[i] : -1e9f;
  ga_gguf_put_array(r->writer, KEY("scores"), GA_META_F32, rows, scores);
  return GA_OK;
}

/* Added tokens may lie behind the embedding (the image token of gemma3's text models): no text can become them, and
 * they are left out. A normal token there is a mistake. */
static ga_status check_behind(const ga_vocab *v, int64_t rows) {
  for (size_t i = (size_t)rows; i < v->n_tokens; i++)
    GA_REQUIRE(!v->types || v->types[i] != GA_TOK_NORMAL, GA_ERR_FORMAT,
               "tokenizer: token %zu is '%s'; the embedding has %lld", i,
               ga_quote(v->tokens[i].data, v->tokens[i].bytes).text, (long long)rows);
  if (v->n_tokens > (size_t)rows)
    ga_log(GA_LOG_WARN, "tokenizer: %zu tokens; the embedding has %lld: the others are left out", v->n_tokens,
           (long long)rows);
  return GA_OK;
}

static void put_id(rewrite *r, const char *key, int32_t id, int64_t rows) {
  if (id >= 0 && id < rows) ga_gguf_put_int(r->writer, key, GA_META_U32, id);
}

static void put_special_ids(rewrite *r, const ga_vocab *v, int64_t rows) {
  put_id(r, KEY("bos_token_id"), v->bos, rows);
  put_id(r, KEY("eos_token_id"), v->eos, rows);
  put_id(r, KEY("unknown_token_id"), v->unk, rows);
  put_id(r, KEY("seperator_token_id"), v->sep, rows); /* spelled so in the format */
  put_id(r, KEY("padding_token_id"), v->pad, rows);
  put_id(r, KEY("cls_token_id"), v->cls, rows);
  put_id(r, KEY("mask_token_id"), v->mask, rows);
}

/* What GGUF has no key for, under names of ours, where it is not what the other keys mean already. */
static void put_own_flags(rewrite *r, const ga_vocab *v) {
  const bool takes_words = v->kind == GA_TOK_BPE && v->pre && !strcmp(v->pre, "llama3");
  if (v->kind == GA_TOK_BPE && v->ignore_merges != takes_words)
    ga_gguf_put_bool(r->writer, "ga.tokenizer.ignore_merges", v->ignore_merges);
  if (v->n_eog) ga_gguf_put_array(r->writer, "ga.eos_token_ids", GA_META_I32, (int64_t)v->n_eog, v->eog);
}

/* Do the flags come to what SentencePiece calls so? Words that each begin with a space need no others. */
static bool removes_spaces(const ga_vocab *v) {
  return v->kind == GA_TOK_UGM && v->unigram & (GA_TOK_UGM_SQUEEZE | GA_TOK_UGM_SPLIT);
}

/* The flags are ours; other programs normalise as SentencePiece does. */
static void put_unigram(rewrite *r, const ga_vocab *v) {
  if (v->charsmap_bytes)
    ga_gguf_put_array(r->writer, KEY("precompiled_charsmap"), GA_META_U8, (int64_t)v->charsmap_bytes, v->charsmap);
  ga_gguf_put_int(r->writer, "ga.tokenizer.unigram", GA_META_U32, v->unigram);
}

/* Where llama.cpp's keys can say how a BertNormalizer changes letters. */
static void put_wpm_flags(rewrite *r, const tok_extra *extra) {
  const bool lower = extra->wpm & TOK_WPM_LOWER, strip = extra->wpm & TOK_WPM_STRIP;
  if (!extra->has_wpm || (lower && strip)) return;
  ga_gguf_put_bool(r->writer, KEY("normalizer.lowercase"), lower);
  ga_gguf_put_bool(r->writer, KEY("normalizer.strip_accents"), strip);
}

static ga_status put_vocab(rewrite *r, const ga_vocab *v, const tok_extra *extra, bool by_merges, int64_t rows) {
  static const char *const models[] = {
      [GA_TOK_SPM] = "llama", [GA_TOK_BPE] = "gpt2", [GA_TOK_WPM] = "bert", [GA_TOK_UGM] = "t5"};
  const bool has_scores = v->kind == GA_TOK_SPM || v->kind == GA_TOK_UGM;
  ga_text *texts;
  int32_t *types;
  GA_TRY(check_behind(v, rows));
  GA_TRY(pad_tokens(r, v, rows, &texts, &types));
  ga_gguf_put_text(r->writer, KEY("model"), models[v->kind]);
  ga_gguf_put_text(r->writer, KEY("pre"), v->pre ? v->pre : "default");
  ga_gguf_put_texts(r->writer, KEY("tokens"), rows, texts);
  ga_gguf_put_array(r->writer, KEY("token_type"), GA_META_I32, rows, types);
  if (has_scores) GA_TRY(put_scores(r, v, rows));
  if (v->kind == GA_TOK_BPE || by_merges) ga_gguf_put_texts(r->writer, KEY("merges"), (int64_t)v->n_merges, v->merges);
  put_special_ids(r, v, rows);
  if (v->kind != GA_TOK_WPM) {
    ga_gguf_put_bool(r->writer, KEY("add_bos_token"), v->add_bos);
    ga_gguf_put_bool(r->writer, KEY("add_eos_token"), v->add_eos);
  }
  if (has_scores) {
    ga_gguf_put_bool(r->writer, KEY("add_space_prefix"), v->add_space_prefix);
    ga_gguf_put_bool(r->writer, KEY("remove_extra_whitespaces"), v->remove_extra_whitespaces || removes_spaces(v));
  }
  if (v->kind == GA_TOK_UGM) put_unigram(r, v);
  if (v->kind == GA_TOK_SPM && v->unigram) ga_gguf_put_int(r->writer, "ga.tokenizer.unigram", GA_META_U32, v->unigram);
  if (v->kind == GA_TOK_WPM) put_wpm_flags(r, extra);
  put_own_flags(r, v);
  return GA_OK;
}

/* --- chat template ----------------------------------------------------------------------------------------------- */

static ga_status put_templates(rewrite *r) {
  static const char *const keys[] = {GA_CHAT_TEMPLATE, GA_TOOL_TEMPLATE};
  const ga_text name = {"tool_use", strlen("tool_use")};
  ga_text text;
  char *copy;
  GA_TRY(ga_model_file_text_or(r->file, GA_CHAT_TEMPLATE_ERROR, "", &text));
  GA_REQUIRE(!text.bytes, GA_ERR_FORMAT, "%.*s", (int)text.bytes, text.data);
  for (size_t i = 0; i < GA_COUNT_OF(keys); i++) {
    GA_TRY(ga_model_file_text_or(r->file, keys[i], "", &text));
    GA_TRY(ga_arena_strndup(&r->arena, text.data, text.bytes, &copy));
    if (*copy) ga_gguf_put_text(r->writer, keys[i], copy);
    if (*copy && i == 1) ga_gguf_put_texts(r->writer, GA_NAMED_TEMPLATES, 1, &name);
  }
  return GA_OK;
}

/* --- both -------------------------------------------------------------------------------------------------------- */

static ga_status put_kept_json(rewrite *r, const tok_load *load, const tok_files *files, const ga_tokenizer *tok) {
  char *text;
  GA_TRY(tok_json_keep(load, files, tok, &text));
  if (text) ga_gguf_put_text(r->writer, TOK_KEPT_JSON, text);
  free(text);
  return GA_OK;
}

static ga_status put_from(rewrite *r, const tok_files *files, int64_t rows) {
  tok_load load;
  ga_tokenizer *tok = NULL;
  tok_load_init(&load);
  ga_status status = tok_load_json(&load, files, r->file);
  if (status == GA_OK) status = tok_create(&load.vocab, &load.extra, &tok);
  if (status == GA_OK) status = put_vocab(r, &load.vocab, &load.extra, tok_merges_by_list(tok), rows);
  if (status == GA_OK) status = put_kept_json(r, &load, files, tok);
  ga_tokenizer_destroy(tok);
  ga_arena_free(&load.arena);
  return status == GA_OK ? put_templates(r) : status;
}

ga_status rewrite_put_tokens(rewrite *r, int64_t rows) {
  const char *path = ga_model_file_side_path(r->file, "tokenizer.json"),
             *config_path = ga_model_file_side_path(r->file, "tokenizer_config.json");
  tok_files files;
  GA_REQUIRE(path, GA_ERR_UNSUPPORTED, "no tokenizer.json beside the weights%s; must be there",
             ga_model_file_side_path(r->file, "tokenizer.model") ? ", and tokenizer.model alone is not read" : "");
  GA_TRY(tok_files_read(path, config_path, ga_model_file_side_path(r->file, "special_tokens_map.json"), &files));
  const ga_status status = put_from(r, &files, rows);
  tok_files_free(&files);
  return status;
}
