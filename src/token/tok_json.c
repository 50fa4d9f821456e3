/* Vocabularies from tokenizer.json: byte-level BPE, BPE with byte fallback (SentencePiece by another name), WordPiece,
 * Unigram.
 *
 * What is not read: normalisation to NFC, which some byte-level files ask for; lstrip, rstrip and single_word of added
 * tokens. */
#include "base/json.h"
#include "base/status.h"
#include "token/tok_load.h"
#include "token/tok_parts.h"

#define MAX_ID ((1 << 22) - 1)
/* Ids that a file may leave out: 64 K, or three times as many as it has tokens. */
#define LEAST_GAPS ((size_t)1 << 16)

typedef struct json_src {
  const json_t *root, *config; /* config may be NULL */
  json_t *vocab;               /* only read; jansson's loop over an object does not take const */
  const json_t *merges, *added;
  const json_t *pieces; /* Unigram: an array of [text, score]; `vocab` is NULL then */
  bool byte_fallback;
} json_src;

static const char *json_text(const json_t *object, const char *path) {
  return json_string_value(ga_json_at(object, path));
}

static ga_status json_id(const char *what, const json_t *value, size_t *id) {
  json_int_t n = json_integer_value(value);
  *id = 0;
  GA_REQUIRE(json_is_integer(value) && n >= 0 && n <= MAX_ID, GA_ERR_FORMAT,
             "tokenizer: id of '%s' is %s %lld; must be an integer from 0 to %d", what, ga_json_type_name(value),
             (long long)n, MAX_ID);
  *id = (size_t)n;
  return GA_OK;
}

/* Id of a token by its text in the file, GA_TOK_NONE when it has none. Added tokens first. */
static int32_t id_of_text(const json_src *src, const char *text) {
  if (!text) return GA_TOK_NONE;
  size_t i, id;
  const json_t *added;
  json_array_foreach(src->added, i, added) {
    const char *content = json_text(added, "content");
    if (content && !strcmp(content, text) && json_id(text, ga_json_at(added, "id"), &id) == GA_OK) return (int32_t)id;
  }
  for (i = json_array_size(src->pieces); i-- > 0;) {
    const char *piece = json_string_value(json_array_get(json_array_get(src->pieces, i), 0));
    if (piece && !strcmp(piece, text)) return (int32_t)i;
  }
  const json_t *value = json_object_get(src->vocab, text);
  return value && json_id(text, value, &id) == GA_OK ? (int32_t)id : GA_TOK_NONE;
}

static ga_status count_ids(const json_src *src, size_t *n) {
  const char *key;
  const json_t *value;
  size_t i, id, most = json_array_size(src->pieces) ? json_array_size(src->pieces) - 1 : 0;
  *n = 0;
  json_object_foreach(src->vocab, key, value) {
    GA_TRY(json_id(key, value, &id));
    if (id > most) most = id;
  }
  json_array_foreach(src->added, i, value) {
    GA_TRY(json_id("added token", ga_json_at(value, "id"), &id));
    if (id > most) most = id;
  }
  const size_t tokens = json_object_size(src->vocab) + json_array_size(src->pieces) + json_array_size(src->added);
  GA_REQUIRE(most < 4 * tokens + LEAST_GAPS, GA_ERR_FORMAT,
             "tokenizer: the highest id of %zu tokens is %zu; must be below %zu", tokens, most,
             4 * tokens + LEAST_GAPS);
  *n = most + 1;
  return GA_OK;
}

static int32_t piece_type(const json_src *src, const char *text) {
  return src->byte_fallback && strlen(text) == 6 && !memcmp(text, "<0x", 3) ? GA_TOK_BYTE : GA_TOK_NORMAL;
}

/* As GGUF writes it: WordPiece marks word starts, not continuations. */
static ga_status piece_text(tok_load *load, const char *text, size_t bytes, ga_text *out) {
  bool mark = load->vocab.kind == GA_TOK_WPM;
  char *copy;
  if (mark && bytes > 2 && !memcmp(text, "##", 2)) {
    text += 2;
    bytes -= 2;
    mark = false;
  }
  if (!mark) {
    GA_TRY(ga_arena_strndup(&load->arena, text, bytes, &copy));
  } else {
    void *p;
    GA_TRY(ga_arena_alloc(&load->arena, bytes + 3, &p));
    copy = p;
    memcpy(copy, "\xE2\x96\x81", 3);
    memcpy(copy + 3, text, bytes);
    bytes += 3;
  }
  *out = (ga_text){copy, bytes};
  return GA_OK;
}

/* Unigram: ids are places in the list. */
static ga_status fill_pieces(tok_load *load, const json_src *src, size_t n, ga_text *texts) {
  const size_t listed = json_array_size(src->pieces);
  void *p;
  if (!src->pieces) return GA_OK;
  GA_TRY(ga_arena_alloc(&load->arena, n * sizeof(float), &p));
  float *scores = p;
  for (size_t id = 0; id < listed; id++) {
    const json_t *pair = json_array_get(src->pieces, id), *text = json_array_get(pair, 0),
                 *score = json_array_get(pair, 1);
    GA_REQUIRE(json_is_string(text) && json_is_number(score), GA_ERR_FORMAT,
               "tokenizer: model.vocab[%zu] is %s; must be a text and a number", id, ga_json_type_name(pair));
    GA_TRY(piece_text(load, json_string_value(text), json_string_length(text), &texts[id]));
    load->types[id] = piece_type(src, json_string_value(text));
    scores[id] = (float)json_number_value(score);
  }
  load->vocab.scores = scores;
  return GA_OK;
}

static ga_status fill_tokens(tok_load *load, const json_src *src) {
  const char *key;
  const json_t *value;
  size_t i, id, n, bytes;
  void *tokens, *types;
  GA_TRY(count_ids(src, &n));
  GA_TRY(ga_arena_alloc(&load->arena, n * sizeof(ga_text), &tokens));
  GA_TRY(ga_arena_alloc(&load->arena, n * sizeof(int32_t), &types));
  ga_text *texts = tokens;
  load->types = types;
  for (i = 0; i < n; i++) load->types[i] = GA_TOK_UNUSED;                          /* ids that the file leaves out */
  json_object_keylen_foreach((json_t *)(uintptr_t)src->vocab, key, bytes, value) { /* NUL may stand in a key */
    GA_TRY(json_id(key, value, &id));
    GA_TRY(piece_text(load, key, bytes, &texts[id]));
    load->types[id] = piece_type(src, key);
  }
  GA_TRY(fill_pieces(load, src, n, texts));
  json_array_foreach(src->added, i, value) {
    const char *content = json_text(value, "content");
    GA_REQUIRE(content, GA_ERR_FORMAT, "tokenizer: added token %zu has no content", i);
    GA_TRY(json_id(content, ga_json_at(value, "id"), &id));
    char *copy;
    bytes = json_string_length(ga_json_at(value, "content"));
    GA_TRY(ga_arena_strndup(&load->arena, content, bytes, &copy));
    texts[id] = (ga_text){copy, bytes};
    load->types[id] = json_is_true(ga_json_at(value, "special")) ? GA_TOK_CONTROL : GA_TOK_USER;
  }
  load->vocab.tokens = texts;
  load->vocab.types = load->types;
  load->vocab.n_tokens = n;
  return GA_OK;
}

/* Merges are texts "left right" or, in newer files, pairs of texts. */
static ga_status merge_parts(const json_t *merge, size_t index, ga_text part[2]) {
  const char *text = json_string_value(merge), *space = text ? memchr(text, ' ', json_string_length(merge)) : NULL;
  if (space) {
    part[0] = (ga_text){text, (size_t)(space - text)};
    part[1] = (ga_text){space + 1, (size_t)(text + json_string_length(merge) - space) - 1};
    return GA_OK;
  }
  for (size_t i = 0; i < 2; i++) {
    const json_t *half = json_array_get(merge, i);
    GA_REQUIRE(json_is_string(half), GA_ERR_FORMAT, "tokenizer: merge %zu is no pair of texts", index);
    part[i] = (ga_text){json_string_value(half), json_string_length(half)};
  }
  return GA_OK;
}

static ga_status join_parts(ga_arena *arena, const ga_text part[2], const char *between, ga_text *out) {
  size_t gap = strlen(between), bytes = part[0].bytes + gap + part[1].bytes;
  void *p;
  GA_TRY(ga_arena_alloc(arena, bytes + 1, &p));
  char *s = p;
  memcpy(s, part[0].data, part[0].bytes);
  memcpy(s + part[0].bytes, between, gap);
  memcpy(s + part[0].bytes + gap, part[1].data, part[1].bytes);
  *out = (ga_text){s, bytes};
  return GA_OK;
}

static ga_status fill_merges(tok_load *load, const json_src *src) {
  size_t n = json_array_size(src->merges);
  void *p;
  GA_TRY(ga_arena_alloc(&load->arena, n * sizeof(ga_text), &p));
  ga_text *merges = p, part[2];
  for (size_t i = 0; i < n; i++) {
    GA_TRY(merge_parts(json_array_get(src->merges, i), i, part));
    GA_TRY(join_parts(&load->arena, part, " ", &merges[i]));
  }
  load->vocab.merges = merges;
  load->vocab.n_merges = n;
  return GA_OK;
}

/* SentencePiece merges by the score of the result. Such files were made from scores: the first merge that makes a token
 * stands where the token's score stood. */
static ga_status fill_scores(tok_load *load, const json_src *src) {
  size_t n = load->vocab.n_tokens, n_merges = json_array_size(src->merges), id;
  void *p;
  GA_TRY(ga_arena_alloc(&load->arena, n * sizeof(float), &p));
  float *scores = p;
  for (size_t i = 0; i < n; i++) scores[i] = -1e9f;
  for (size_t i = n_merges; i-- > 0;) {
    ga_text part[2], made;
    GA_TRY(merge_parts(json_array_get(src->merges, i), i, part));
    GA_TRY(join_parts(&load->arena, part, "", &made));
    const json_t *value = json_object_getn(src->vocab, made.data, made.bytes);
    if (!value) continue;
    GA_TRY(json_id(made.data, value, &id));
    scores[id] = -(float)i;
  }
  load->vocab.scores = scores;
  return GA_OK;
}

/* Does any step of the normalizer or pre_tokenizer put a U+2581 in front of the text? */
static bool prepends_space(const json_t *step) {
  const char *type = json_text(step, "type"), *scheme = json_text(step, "prepend_scheme");
  size_t i;
  const json_t *inner, *list = ga_json_at(step, "normalizers");
  if (!type) return false;
  if (!strcmp(type, "Prepend")) return true;
  if (!strcmp(type, "Metaspace"))
    return scheme ? strcmp(scheme, "never") != 0 : !json_is_false(ga_json_at(step, "add_prefix_space"));
  json_array_foreach(list, i, inner) if (prepends_space(inner)) return true;
  return false;
}

static ga_status fill_bpe(tok_load *load, json_src *src) {
  ga_vocab *v = &load->vocab;
  v->ignore_merges = json_is_true(ga_json_at(src->root, "model.ignore_merges"));
  v->pre = tok_json_pre(ga_json_at(src->root, "pre_tokenizer"));
  src->byte_fallback = !v->pre && json_is_true(ga_json_at(src->root, "model.byte_fallback"));
  GA_REQUIRE(
      v->pre || src->byte_fallback, GA_ERR_UNSUPPORTED,
      "tokenizer.json: its pre_tokenizer is none of those of gpt-2, smollm, llama3, qwen2, qwen35, tekken, gpt-4o");
  v->kind = v->pre ? GA_TOK_BPE : GA_TOK_SPM;
  GA_TRY(fill_tokens(load, src));
  if (v->pre) return fill_merges(load, src);
  v->add_space_prefix =
      prepends_space(ga_json_at(src->root, "normalizer")) || prepends_space(ga_json_at(src->root, "pre_tokenizer"));
  return fill_scores(load, src);
}

static ga_status fill_unigram(tok_load *load, json_src *src) {
  const json_t *unk = ga_json_at(src->root, "model.unk_id");
  size_t id;
  GA_REQUIRE(json_is_array(src->pieces), GA_ERR_FORMAT, "tokenizer.json: model.vocab is %s; Unigram has an array",
             ga_json_type_name(src->pieces));
  load->vocab.kind = GA_TOK_UGM;
  src->vocab = NULL;
  src->byte_fallback = json_is_true(ga_json_at(src->root, "model.byte_fallback"));
  GA_TRY(tok_json_unigram(load, src->root));
  GA_TRY(fill_tokens(load, src));
  GA_TRY(json_id("model.unk_id", unk, &id));
  GA_REQUIRE(id < json_array_size(src->pieces), GA_ERR_FORMAT, "tokenizer.json: model.unk_id is %zu of %zu pieces", id,
             json_array_size(src->pieces));
  load->vocab.unk = (int32_t)id;
  if (load->types[id] == GA_TOK_NORMAL) load->types[id] = GA_TOK_UNKNOWN;
  return GA_OK;
}

static ga_status fill_model(tok_load *load, json_src *src) {
  const char *type = json_text(src->root, "model.type");
  if (type && !strcmp(type, "Unigram")) return fill_unigram(load, src);
  src->pieces = NULL;
  GA_REQUIRE(json_is_object(src->vocab), GA_ERR_FORMAT, "tokenizer.json: model.vocab is %s; must be an object",
             ga_json_type_name(src->vocab));
  if (type ? !strcmp(type, "BPE") : src->merges != NULL) return fill_bpe(load, src);
  GA_REQUIRE(!type || !strcmp(type, "WordPiece"), GA_ERR_UNSUPPORTED,
             "tokenizer.json: model type %.32s; must be BPE, WordPiece or Unigram", type ? type : "");
  load->vocab.kind = GA_TOK_WPM;
  load->vocab.cased = json_is_false(ga_json_at(src->root, "normalizer.lowercase"));
  return fill_tokens(load, src);
}

/* --- special ids ------------------------------------------------------------------------------------------------- */

/* The step of the post-processor that has `field`, NULL when there is none. */
static const json_t *post_step(const json_t *post, const char *field) {
  size_t i;
  const json_t *step;
  if (ga_json_at(post, field)) return post;
  json_array_foreach(ga_json_at(post, "processors"), i, step) if (ga_json_at(step, field)) return step;
  return NULL;
}

/* What is put before (first) and after a text, by the template of the post-processor. */
static void template_ends(const json_src *src, int32_t *first, int32_t *last) {
  const json_t *post = ga_json_at(src->root, "post_processor");
  const json_t *single = ga_json_at(post_step(post, "single"), "single"), *bert = post_step(post, "cls");
  *first = *last = GA_TOK_NONE;
  if (single && json_array_size(single) > 1) {
    *first = id_of_text(src, json_text(json_array_get(single, 0), "SpecialToken.id"));
    *last = id_of_text(src, json_text(json_array_get(single, json_array_size(single) - 1), "SpecialToken.id"));
  } else if (bert) {
    *first = id_of_text(src, json_string_value(json_array_get(ga_json_at(bert, "cls"), 0)));
    *last = id_of_text(src, json_string_value(json_array_get(ga_json_at(bert, "sep"), 0)));
  }
}

/* tokenizer_config.json names tokens by a text or by an object with a content. */
static int32_t config_id(const json_src *src, const char *name, int32_t fallback) {
  const json_t *value = ga_json_at(src->config, name);
  const char *text = json_is_object(value) ? json_text(value, "content") : json_string_value(value);
  int32_t id = id_of_text(src, text);
  return id >= 0 ? id : fallback;
}

static bool config_flag(const json_src *src, const char *name, bool fallback) {
  const json_t *value = ga_json_at(src->config, name);
  return json_is_boolean(value) ? json_boolean_value(value) : fallback;
}

static void fill_specials(tok_load *load, const json_src *src) {
  ga_vocab *v = &load->vocab;
  int32_t first, last;
  template_ends(src, &first, &last);
  bool wpm = v->kind == GA_TOK_WPM;
  v->bos = config_id(src, "bos_token", wpm ? GA_TOK_NONE : first);
  v->eos = config_id(src, "eos_token", wpm ? GA_TOK_NONE : last);
  if (v->kind != GA_TOK_UGM)
    v->unk = config_id(src, "unk_token", id_of_text(src, json_text(src->root, "model.unk_token")));
  v->sep = config_id(src, "sep_token", wpm ? last : GA_TOK_NONE);
  v->cls = config_id(src, "cls_token", wpm ? first : GA_TOK_NONE);
  v->pad = config_id(src, "pad_token", GA_TOK_NONE);
  v->mask = config_id(src, "mask_token", GA_TOK_NONE);
  v->add_bos = config_flag(src, "add_bos_token", first >= 0);
  v->add_eos = config_flag(src, "add_eos_token", last >= 0);
  if (v->kind != GA_TOK_UGM) return; /* what the template says counts: its <s> may be the file's cls */
  if (first >= 0) v->bos = first;
  if (last >= 0) v->eos = last;
  v->add_bos = first >= 0;
  v->add_eos = last >= 0;
}

/* The end-of-generation ids of config.json, of which the first is eos where nothing else says so. */
ga_status tok_load_eog(tok_load *load, const ga_model_file *file) {
  const ga_meta *meta;
  void *p;
  if (!file) return GA_OK;
  GA_TRY(ga_model_file_array_or_null(file, "ga.eos_token_ids", GA_META_INTS, &meta));
  size_t n = meta ? (size_t)ga_meta_count(meta) : 0, kept = 0;
  GA_TRY(ga_arena_alloc(&load->arena, n * sizeof(int32_t), &p));
  int32_t *ids = p;
  for (size_t i = 0; i < n; i++) {
    int64_t id;
    GA_TRY(ga_meta_int(meta, (int64_t)i, &id));
    if (id >= 0 && id < (int64_t)load->vocab.n_tokens) ids[kept++] = (int32_t)id;
  }
  if (load->vocab.eos < 0 && kept) load->vocab.eos = ids[0];
  load->vocab.eog = ids;
  load->vocab.n_eog = kept;
  return GA_OK;
}

ga_status tok_load_json(tok_load *load, const json_t *root, const json_t *config, const ga_model_file *file) {
  json_src src = {.root = root,
                  .config = config,
                  .vocab = json_object_get(ga_json_at(root, "model"), "vocab"),
                  .pieces = ga_json_at(root, "model.vocab"),
                  .merges = ga_json_at(root, "model.merges"),
                  .added = ga_json_at(root, "added_tokens")};
  GA_TRY(ga_parts_check(&tok_parts_json, NULL, root));
  GA_TRY(fill_model(load, &src));
  fill_specials(load, &src);
  return tok_load_eog(load, file);
}

ga_status tok_from_json(const char *path, const char *config, const ga_model_file *file, ga_tokenizer **out) {
  json_t *root = NULL, *settings = NULL;
  tok_load load;
  tok_load_init(&load);
  ga_status status = ga_json_read_file(path, &root);
  if (status == GA_OK && config) status = ga_json_read_file(config, &settings);
  if (status == GA_OK) status = tok_load_json(&load, root, settings, file);
  if (status == GA_OK) status = ga_tokenizer_create(&load.vocab, out);
  json_decref(root);
  json_decref(settings);
  ga_arena_free(&load.arena);
  return status;
}

ga_status ga_tokenizer_from_json(const char *path, const char *config, ga_tokenizer **out) {
  GA_REQUIRE(path && out, GA_ERR_ARG, "tokenizer: null argument");
  *out = NULL;
  return tok_from_json(path, config, NULL, out);
}
