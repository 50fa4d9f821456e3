/* ga_tokenizer_from_model: the tokenizer.ggml.* keys of a GGUF file. */
#include "base/json.h"
#include "base/log.h"
#include "base/status.h"
#include "token/tok_charsmap.h"
#include "token/tok_load.h"
#include "token/tok_parts.h"

#define KEY(name) "tokenizer.ggml." name

/* What files that lack a key mean by that; the ids are those of the first models of each kind. */
typedef struct kind_row {
  const char *model; /* tokenizer.ggml.model */
  ga_tok_kind kind;
  bool add_bos, add_eos, add_space_prefix;
  int32_t bos, eos, unk, sep, pad, cls, mask;
  bool by_list; /* SPM: pieces merge by tokenizer.ggml.merges, and texts start with bos whatever the file says */
} kind_row;

static const kind_row kind_rows[] = {
    {"llama", GA_TOK_SPM, true, false, true, 1, 2, 0, -1, -1, -1, -1, false},
    {"gpt2", GA_TOK_BPE, false, false, false, -1, -1, -1, -1, -1, -1, -1, false},
    {"bert", GA_TOK_WPM, true, false, false, -1, -1, 100, 102, 0, 101, 103, false},
    {"t5", GA_TOK_UGM, false, true, true, -1, 1, 2, -1, 0, -1, -1, false},
    {"gemma4", GA_TOK_SPM, true, false, false, -1, -1, -1, -1, -1, -1, -1, true},
};

static ga_status find_kind(const ga_model_file *file, const kind_row **row) {
  ga_text model;
  GA_TRY(ga_model_file_text(file, KEY("model"), &model));
  for (size_t i = 0; i < GA_COUNT_OF(kind_rows); i++) {
    *row = &kind_rows[i];
    if (tok_text_is(model, kind_rows[i].model)) return GA_OK;
  }
  return ga_fail(GA_ERR_UNSUPPORTED, "tokenizer: model '%.*s'; must be llama, gpt2, bert, t5 or gemma4",
                 (int)(model.bytes < 64 ? model.bytes : 64), model.data);
}

/* Empty texts take 8 bytes in a file and six times as many here. Real files have none, or a few for unused ids. */
static ga_status refuse_empty(const char *key, const ga_meta *meta) {
  const int64_t n = ga_meta_count(meta);
  int64_t empty = 0;
  for (int64_t i = 0; i < n; i++) {
    ga_text text;
    GA_TRY(ga_meta_text(meta, i, &text));
    empty += !text.bytes;
  }
  GA_REQUIRE(empty <= n / 2, GA_ERR_FORMAT, "tokenizer: %lld of %lld texts of %s are empty; at most half may be",
             (long long)empty, (long long)n, key);
  return GA_OK;
}

/* An array of texts, NULL and 0 when it is absent. */
static ga_status read_key_texts(const ga_model_file *file, const char *key, tok_load *load, const ga_text **out,
                                size_t *count) {
  const ga_meta *meta;
  void *p;
  *out = NULL;
  *count = 0;
  GA_TRY(ga_model_file_array_or_null(file, key, GA_META_TEXTS, &meta));
  if (!meta) return GA_OK;
  const size_t n = (size_t)ga_meta_count(meta);
  GA_TRY(refuse_empty(key, meta));
  GA_TRY(ga_arena_alloc(&load->arena, n * sizeof(ga_text), &p));
  ga_text *texts = p;
  for (size_t i = 0; i < n; i++) GA_TRY(ga_meta_text(meta, (int64_t)i, &texts[i]));
  *out = texts;
  *count = n;
  return GA_OK;
}

static ga_status require_count(const char *key, const ga_meta *meta, size_t n) {
  GA_REQUIRE(ga_meta_count(meta) == (int64_t)n, GA_ERR_FORMAT, "tokenizer: %s has %lld elements for %zu tokens", key,
             (long long)ga_meta_count(meta), n);
  return GA_OK;
}

static ga_status read_types(const ga_model_file *file, tok_load *load) {
  const ga_meta *meta;
  void *p;
  GA_TRY(ga_model_file_array_or_null(file, KEY("token_type"), GA_META_INTS, &meta));
  if (!meta) return GA_OK;
  GA_TRY(require_count(KEY("token_type"), meta, load->vocab.n_tokens));
  GA_TRY(ga_arena_alloc(&load->arena, load->vocab.n_tokens * sizeof(int32_t), &p));
  int32_t *types = p;
  for (size_t i = 0; i < load->vocab.n_tokens; i++) {
    int64_t type;
    GA_TRY(ga_meta_int(meta, (int64_t)i, &type));
    GA_REQUIRE(type >= 0 && type <= GA_TOK_BYTE, GA_ERR_FORMAT, "tokenizer: token %zu has type %lld; must be 0 to 6", i,
               (long long)type);
    types[i] = (int32_t)type;
  }
  load->vocab.types = types;
  return GA_OK;
}

static ga_status score_at(const ga_meta *meta, size_t i, float *out) {
  double score;
  int64_t whole;
  if (ga_meta_elem_type(meta) == GA_META_F32 || ga_meta_elem_type(meta) == GA_META_F64) {
    GA_TRY(ga_meta_float(meta, (int64_t)i, &score));
    *out = (float)score;
    return GA_OK;
  }
  GA_TRY(ga_meta_int(meta, (int64_t)i, &whole));
  *out = (float)whole;
  return GA_OK;
}

/* Some files have whole numbers as integers. */
static ga_status read_scores(const ga_model_file *file, tok_load *load) {
  const ga_meta *meta = ga_model_file_meta(file, KEY("scores"));
  void *p;
  if (!meta) return GA_OK;
  GA_REQUIRE(ga_meta_type_of(meta) == GA_META_ARRAY, GA_ERR_FORMAT, "tokenizer: %s is no array", KEY("scores"));
  GA_TRY(require_count(KEY("scores"), meta, load->vocab.n_tokens));
  GA_TRY(ga_arena_alloc(&load->arena, load->vocab.n_tokens * sizeof(float), &p));
  float *scores = p;
  for (size_t i = 0; i < load->vocab.n_tokens; i++) GA_TRY(score_at(meta, i, &scores[i]));
  load->vocab.scores = scores;
  return GA_OK;
}

/* Some writers put -1, in 32 or 64 bits, for an id that they do not know: the key then counts as absent. */
static bool is_minus_one(const ga_model_file *file, const char *key) {
  const ga_meta *meta = ga_model_file_meta(file, key);
  int64_t id;
  if (!meta || ga_meta_type_of(meta) == GA_META_ARRAY) return false;
  if (ga_meta_int(meta, 0, &id) != GA_OK) return ga_meta_type_of(meta) == GA_META_U64; /* beyond 2^63 */
  return id == -1 || id == UINT32_MAX;
}

/* Files are about whose padding or mask id lies behind the vocabulary: no such token then. Not so bos and eos. */
static ga_status read_id(const ga_model_file *file, const char *key, int32_t fallback, size_t n, bool strict,
                         int32_t *out) {
  int64_t id;
  if (is_minus_one(file, key)) {
    ga_log(GA_LOG_WARN, "tokenizer: %s is -1: %d is taken", key, fallback < (int64_t)n ? fallback : GA_TOK_NONE);
    *out = fallback < (int64_t)n ? fallback : GA_TOK_NONE;
    return GA_OK;
  }
  GA_TRY(ga_model_file_int_or(file, key, fallback < (int64_t)n ? fallback : GA_TOK_NONE, INT64_MIN, INT64_MAX, &id));
  bool good = id >= 0 && id < (int64_t)n;
  if (!good && ga_model_file_meta(file, key)) {
    GA_REQUIRE(!strict, GA_ERR_FORMAT, "tokenizer: %s is %lld; must be 0 to %zu", key, (long long)id, n - 1);
    ga_log(GA_LOG_WARN, "tokenizer: %s is %lld, which is no token: left out", key, (long long)id);
  }
  *out = good ? (int32_t)id : GA_TOK_NONE;
  return GA_OK;
}

/* Files of some age have shorter keys. */
static ga_status read_fim_ids(const ga_model_file *file, tok_load *load) {
  static const char *const keys[][2] = {{KEY("fim_pre_token_id"), KEY("prefix_token_id")},
                                        {KEY("fim_suf_token_id"), KEY("suffix_token_id")},
                                        {KEY("fim_mid_token_id"), KEY("middle_token_id")},
                                        {KEY("fim_pad_token_id"), NULL},
                                        {KEY("fim_rep_token_id"), NULL},
                                        {KEY("fim_sep_token_id"), NULL}};
  for (size_t i = 0; i < GA_COUNT_OF(keys); i++) {
    GA_TRY(read_id(file, keys[i][0], -1, load->vocab.n_tokens, false, &load->fim[i]));
    if (load->fim[i] < 0 && keys[i][1])
      GA_TRY(read_id(file, keys[i][1], -1, load->vocab.n_tokens, false, &load->fim[i]));
  }
  load->vocab.fim = load->fim;
  return GA_OK;
}

static ga_status read_special_ids(const ga_model_file *file, const kind_row *row, ga_vocab *v) {
  size_t n = v->n_tokens;
  GA_TRY(read_id(file, KEY("bos_token_id"), row->bos, n, true, &v->bos));
  GA_TRY(read_id(file, KEY("eos_token_id"), row->eos, n, true, &v->eos));
  GA_TRY(read_id(file, KEY("eot_token_id"), -1, n, false, &v->eot));
  GA_TRY(read_id(file, KEY("eom_token_id"), -1, n, false, &v->eom));
  GA_TRY(read_id(file, KEY("unknown_token_id"), row->unk, n, false, &v->unk));
  GA_TRY(read_id(file, KEY("seperator_token_id"), row->sep, n, false, &v->sep)); /* spelled so in the format */
  GA_TRY(read_id(file, KEY("padding_token_id"), row->pad, n, false, &v->pad));
  GA_TRY(read_id(file, KEY("cls_token_id"), v->bos >= 0 ? v->bos : row->cls, n, false, &v->cls));
  return read_id(file, KEY("mask_token_id"), row->mask, n, false, &v->mask);
}

/* Pre-splitters whose models take whole words and start texts with bos, whether or not the file says so. */
static bool starts_with_bos(ga_text pre) {
  static const char *const names[] = {"llama3",  "llama-v3", "llama-bpe", "falcon3",      "falcon-h1",
                                      "pixtral", "midm-2.0", "lfm2",      "jina-v5-nano", "tekken"};
  for (size_t i = 0; i < GA_COUNT_OF(names); i++)
    if (tok_text_is(pre, names[i])) return true;
  return false;
}

static ga_status read_pre(const ga_model_file *file, tok_load *load, bool *bos) {
  ga_text pre;
  char *name;
  GA_TRY(ga_model_file_text_or(file, KEY("pre"), "default", &pre));
  GA_TRY(ga_arena_strndup(&load->arena, pre.data, pre.bytes, &name));
  load->vocab.pre = name;
  load->vocab.ignore_merges = *bos = load->vocab.kind == GA_TOK_BPE && starts_with_bos(pre);
  return GA_OK;
}

/* Bytes, as an array of integers: other programs write u8 or i8. */
static ga_status read_charsmap(const ga_model_file *file, tok_load *load) {
  const ga_meta *meta;
  void *p;
  GA_TRY(ga_model_file_array_or_null(file, KEY("precompiled_charsmap"), GA_META_INTS, &meta));
  if (!meta) return GA_OK;
  const size_t n = (size_t)ga_meta_count(meta);
  GA_REQUIRE(n <= TOK_CHARSMAP_MOST, GA_ERR_FORMAT, "tokenizer: %s has %zu bytes; at most %zu",
             KEY("precompiled_charsmap"), n, TOK_CHARSMAP_MOST);
  GA_TRY(ga_arena_alloc(&load->arena, n, &p));
  for (size_t i = 0; i < n; i++) {
    int64_t byte;
    GA_TRY(ga_meta_int(meta, (int64_t)i, &byte));
    GA_REQUIRE(byte >= -128 && byte <= 255, GA_ERR_FORMAT, "tokenizer: %s: element %zu is %lld; must be a byte",
               KEY("precompiled_charsmap"), i, (long long)byte);
    ((uint8_t *)p)[i] = (uint8_t)byte;
  }
  load->vocab.charsmap = p;
  load->vocab.charsmap_bytes = n;
  return GA_OK;
}

/* Without flags of ours: as SentencePiece, with byte fallback where all bytes have tokens. */
static ga_status read_unigram(const ga_model_file *file, tok_load *load) {
  int64_t flags;
  size_t bytes = 0;
  for (size_t i = 0; i < load->vocab.n_tokens; i++) bytes += load->vocab.types && load->vocab.types[i] == GA_TOK_BYTE;
  GA_TRY(read_charsmap(file, load));
  GA_TRY(
      ga_model_file_int_or(file, "ga.tokenizer.unigram", bytes >= 256 ? GA_TOK_UGM_BYTES : 0, 0, UINT32_MAX, &flags));
  load->vocab.unigram = (uint32_t)flags;
  return GA_OK;
}

/* WPM: what llama.cpp's converter writes of a BertNormalizer. */
static ga_status read_wpm_flags(const ga_model_file *file, tok_load *load) {
  bool lower, strip;
  GA_TRY(ga_model_file_bool_or(file, KEY("normalizer.lowercase"), !load->vocab.cased, &lower));
  GA_TRY(ga_model_file_bool_or(file, KEY("normalizer.strip_accents"), lower, &strip));
  load->extra.has_wpm = true;
  load->extra.wpm =
      TOK_WPM_CLEAN | TOK_WPM_CJK | TOK_WPM_PUNCT | (lower ? TOK_WPM_LOWER : 0) | (strip ? TOK_WPM_STRIP : 0);
  load->extra.word_chars = TOK_WPM_WORD_CHARS;
  return GA_OK;
}

/* GGUF's keys say nothing of normalizers, but for NFC in files of some programs. */
static ga_status read_nfc(const ga_model_file *file, tok_load *load) {
  static const tok_step nfc = {.kind = TOK_STEP_NFC};
  bool wanted;
  GA_TRY(ga_model_file_bool_or(file, KEY("normalizer.nfc"), false, &wanted));
  GA_REQUIRE(!wanted || load->vocab.kind == GA_TOK_BPE || load->vocab.kind == GA_TOK_SPM, GA_ERR_UNSUPPORTED,
             "tokenizer: %s is true; GA has it with gpt2 and llama", KEY("normalizer.nfc"));
  if (wanted) load->extra.steps = (tok_steps){&nfc, 1};
  return GA_OK;
}

/* SPM has some of Unigram's flags, which tokenizer.json calls Metaspace. */
static ga_status read_spm_flags(const ga_model_file *file, tok_load *load) {
  int64_t flags;
  GA_TRY(ga_model_file_int_or(file, "ga.tokenizer.unigram", 0, 0, UINT32_MAX, &flags));
  load->vocab.unigram = (uint32_t)flags;
  return GA_OK;
}

/* The parts of a tokenizer.json that the other keys cannot hold. */
static ga_status read_kept_json(const ga_model_file *file, tok_load *load) {
  ga_text text;
  json_t *root;
  if (!ga_model_file_meta(file, TOK_KEPT_JSON)) return GA_OK;
  GA_TRY(ga_model_file_text(file, TOK_KEPT_JSON, &text));
  GA_TRY(ga_json_parse(TOK_KEPT_JSON, text.data, text.bytes, &root));
  const ga_status status = tok_json_apply(load, root);
  json_decref(root);
  return status;
}

/* --- keys of the table ---------------------------------------------------------------------------------------- */

/* Every key of "tokenizer." is in the table, or refused by its name. */
static ga_status check_tokenizer_keys(const ga_model_file *file) {
  for (int64_t i = 0; i < ga_model_file_meta_count(file); i++) {
    const ga_meta *meta = ga_model_file_meta_at(file, i);
    const char *key = ga_meta_key(meta);
    if (strncmp(key, "tokenizer.", 10) != 0 && strncmp(key, "ga.tokenizer.", 13) != 0) continue;
    const ga_part *row = ga_parts_find(&tok_parts_gguf, key);
    const ga_quoted shown = ga_quote(key, strlen(key));
    GA_REQUIRE(row, GA_ERR_UNSUPPORTED,
               "tokenizer: metadata '%s' is not known; docs/reference/model-files.md has the keys", shown.text);
    GA_REQUIRE(row->use != GA_PART_REFUSED || ga_meta_count(meta) == 0, GA_ERR_UNSUPPORTED,
               "tokenizer: metadata '%s': must be absent: %s", shown.text, row->note);
  }
  return GA_OK;
}

/* --- all --------------------------------------------------------------------------------------------------------- */

ga_status tok_load_gguf(tok_load *load, const ga_model_file *file) {
  ga_vocab *v = &load->vocab;
  const kind_row *row;
  bool bos;
  GA_TRY(find_kind(file, &row));
  GA_TRY(check_tokenizer_keys(file));
  v->kind = row->kind;
  GA_TRY(read_key_texts(file, KEY("tokens"), load, &v->tokens, &v->n_tokens));
  GA_REQUIRE(v->n_tokens > 0, GA_ERR_FORMAT, "tokenizer: no %s", KEY("tokens"));
  const bool kept = ga_model_file_meta(file, TOK_KEPT_JSON) != NULL; /* SPM may then merge by the list */
  if (v->kind == GA_TOK_BPE || (v->kind == GA_TOK_SPM && (kept || row->by_list)))
    GA_TRY(read_key_texts(file, KEY("merges"), load, &v->merges, &v->n_merges));
  GA_REQUIRE(!row->by_list || v->n_merges, GA_ERR_FORMAT, "tokenizer: model '%s' without %s", row->model,
             KEY("merges"));
  load->extra.has_merges = row->by_list;
  GA_TRY(read_types(file, load));
  GA_TRY(read_scores(file, load));
  GA_TRY(read_special_ids(file, row, v));
  GA_TRY(read_fim_ids(file, load));
  GA_TRY(read_pre(file, load, &bos));
  GA_TRY(ga_model_file_bool_or(file, KEY("add_bos_token"), row->add_bos || bos, &v->add_bos));
  v->add_bos = v->add_bos || row->by_list;
  GA_TRY(ga_model_file_bool_or(file, KEY("add_eos_token"), row->add_eos, &v->add_eos));
  GA_TRY(ga_model_file_bool_or(file, KEY("add_space_prefix"), row->add_space_prefix, &v->add_space_prefix));
  GA_TRY(ga_model_file_bool_or(file, KEY("remove_extra_whitespaces"), false, &v->remove_extra_whitespaces));
  /* What files that GA has converted say besides. */
  GA_TRY(ga_model_file_bool_or(file, "ga.tokenizer.ignore_merges", v->ignore_merges, &v->ignore_merges));
  GA_TRY(ga_model_file_bool_or(file, "ga.tokenizer.cased", false, &v->cased));
  if (v->kind == GA_TOK_UGM) GA_TRY(read_unigram(file, load));
  if (v->kind == GA_TOK_SPM) GA_TRY(read_spm_flags(file, load));
  if (v->kind == GA_TOK_WPM) GA_TRY(read_wpm_flags(file, load));
  GA_TRY(read_nfc(file, load));
  GA_TRY(read_kept_json(file, load));
  tok_load_trim(load, file);
  return tok_load_eog(load, file);
}

ga_status ga_tokenizer_from_model(const ga_model_file *file, ga_tokenizer **out) {
  GA_REQUIRE(file && out, GA_ERR_ARG, "tokenizer: null argument");
  *out = NULL;
  if (!ga_model_file_meta(file, KEY("model"))) {
    const char *path = ga_model_file_side_path(file, "tokenizer.json");
    GA_REQUIRE(path, GA_ERR_FORMAT, "tokenizer: the model has neither %s nor a tokenizer.json", KEY("model"));
    return tok_from_json(path, ga_model_file_side_path(file, "tokenizer_config.json"),
                         ga_model_file_side_path(file, "special_tokens_map.json"), file, out);
  }
  tok_load load;
  tok_load_init(&load);
  ga_status status = tok_load_gguf(&load, file);
  if (status == GA_OK) status = tok_create(&load.vocab, &load.extra, out);
  ga_arena_free(&load.arena);
  return status;
}
