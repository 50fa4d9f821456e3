/* Vocabularies from tokenizer.json: byte-level BPE, BPE with byte fallback (SentencePiece by another name), WordPiece,
 * Unigram. Each part is checked against its table (tok_parts.c) before it is read. */
#include "token/tok_json.h"
#include "base/json.h"
#include "base/status.h"
#include "token/tok_parts.h"

/* Ids that a file may leave out: 64 K, or three times as many as it has tokens. */
#define LEAST_GAPS ((size_t)1 << 16)
#define MARK       "\xE2\x96\x81" /* U+2581 */

/* --- tokens --- */

static ga_status count_ids(const json_src *src, size_t *n) {
  const char *key;
  const json_t *value;
  json_t *entry, *decoder = tok_json_added_decoder(src);
  size_t i, id, most = json_array_size(src->pieces) ? json_array_size(src->pieces) - 1 : 0;
  *n = 0;
  json_object_foreach(src->vocab, key, value) {
    GA_TRY(tok_json_id(key, value, &id));
    if (id > most) most = id;
  }
  json_array_foreach(src->added, i, value) {
    GA_TRY(tok_json_id("added token", ga_json_at(value, "id"), &id));
    if (id > most) most = id;
  }
  json_object_foreach(decoder, key, entry) {
    GA_TRY(tok_json_decoder_id(key, &id));
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
static ga_status piece_text(tok_load *load, const json_src *src, const char *text, size_t bytes, ga_text *out) {
  const json_t *value = ga_json_at(src->root, "model.continuing_subword_prefix");
  const char *prefix = json_is_string(value) ? json_string_value(value) : "##";
  const size_t n = strlen(prefix);
  bool mark = load->vocab.kind == GA_TOK_WPM;
  char *copy;
  if (mark && bytes > n && !memcmp(text, prefix, n)) {
    text += n;
    bytes -= n;
    mark = false;
  }
  if (!mark) {
    GA_TRY(ga_arena_strndup(&load->arena, text, bytes, &copy));
  } else {
    void *p;
    GA_TRY(ga_arena_alloc(&load->arena, bytes + 3, &p));
    copy = p;
    memcpy(copy, MARK, 3);
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
    GA_TRY(piece_text(load, src, json_string_value(text), json_string_length(text), &texts[id]));
    load->types[id] = piece_type(src, json_string_value(text));
    scores[id] = (float)json_number_value(score);
  }
  load->vocab.scores = scores;
  return GA_OK;
}

static uint8_t added_bits(const json_t *token) {
  static const struct {
    const char *field;
    uint8_t bit;
  } bits[] = {{"lstrip", TOK_ADDED_LSTRIP},
              {"rstrip", TOK_ADDED_RSTRIP},
              {"single_word", TOK_ADDED_WORD},
              {"normalized", TOK_ADDED_NORMALIZED}};
  uint8_t sum = 0;
  for (size_t i = 0; i < GA_COUNT_OF(bits); i++)
    if (json_is_true(ga_json_at(token, bits[i].field))) sum |= bits[i].bit;
  return sum;
}

static bool starts_word(const tok_load *load, const ga_text *piece) {
  return load->vocab.kind == GA_TOK_WPM && piece->bytes > 3 && !memcmp(piece->data, MARK, 3);
}

/* One added token, of tokenizer.json or of tokenizer_config.json. */
static ga_status take_added(tok_load *load, size_t id, const json_t *token, ga_text *texts) {
  const char *content = json_string_value(ga_json_at(token, "content"));
  char *copy;
  GA_REQUIRE(content, GA_ERR_FORMAT, "tokenizer: added token %zu has no content", id);
  const bool in_model = load->types[id] != GA_TOK_UNUSED && !(load->added[id] & TOK_ADDED_ONLY);
  const bool special = json_is_true(ga_json_at(token, "special"));
  const bool is_piece = in_model && !special && starts_word(load, &texts[id]);
  const size_t bytes = json_string_length(ga_json_at(token, "content")); /* NUL may stand in a text */
  GA_TRY(ga_arena_strndup(&load->arena, content, bytes, &copy));
  if (!is_piece) texts[id] = (ga_text){copy, bytes};
  load->types[id] = special ? GA_TOK_CONTROL : GA_TOK_USER;
  load->added[id] = added_bits(token) | (in_model ? 0 : TOK_ADDED_ONLY) | (is_piece ? TOK_ADDED_PIECE : 0);
  return GA_OK;
}

static ga_status fill_added(tok_load *load, const json_src *src, ga_text *texts) {
  size_t i, id;
  const json_t *value;
  const char *key;
  json_t *entry, *decoder = tok_json_added_decoder(src);
  json_array_foreach(src->added, i, value) {
    const char *content = json_string_value(ga_json_at(value, "content"));
    GA_TRY(tok_json_id(content ? content : "added token", ga_json_at(value, "id"), &id));
    GA_TRY(take_added(load, id, value, texts));
  }
  json_object_foreach(decoder, key, entry) {
    GA_TRY(tok_json_decoder_id(key, &id));
    const char *content = tok_json_text(entry, "content");
    GA_REQUIRE(load->types[id] == GA_TOK_UNUSED || load->types[id] == GA_TOK_NORMAL || tok_text_is(texts[id], content),
               GA_ERR_FORMAT,
               "tokenizer_config.json: added_tokens_decoder names token %zu '%s'; tokenizer.json has '%s'", id,
               ga_quote(content, strlen(content)).text, ga_quote(texts[id].data, texts[id].bytes).text);
    GA_TRY(take_added(load, id, entry, texts));
  }
  return GA_OK;
}

static ga_status fill_tokens(tok_load *load, const json_src *src) {
  const char *key;
  const json_t *value;
  size_t i, id, n, bytes;
  void *tokens, *types, *added;
  GA_TRY(count_ids(src, &n));
  GA_TRY(ga_arena_alloc(&load->arena, n, &added));
  load->added = added;
  load->extra.added = added;
  GA_TRY(ga_arena_alloc(&load->arena, n * sizeof(ga_text), &tokens));
  GA_TRY(ga_arena_alloc(&load->arena, n * sizeof(int32_t), &types));
  ga_text *texts = tokens;
  load->types = types;
  for (i = 0; i < n; i++) load->types[i] = GA_TOK_UNUSED;                          /* ids that the file leaves out */
  json_object_keylen_foreach((json_t *)(uintptr_t)src->vocab, key, bytes, value) { /* NUL may stand in a key */
    GA_TRY(tok_json_id(key, value, &id));
    GA_TRY(piece_text(load, src, key, bytes, &texts[id]));
    load->types[id] = piece_type(src, key);
  }
  GA_TRY(fill_pieces(load, src, n, texts));
  GA_TRY(fill_added(load, src, texts));
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
    GA_TRY(tok_json_id(made.data, value, &id));
    scores[id] = -(float)i;
  }
  load->vocab.scores = scores;
  return GA_OK;
}

/* --- models --- */

static bool same_steps(const tok_steps *steps, size_t first, bool prepend) {
  const size_t n = prepend ? 2 : 1;
  if (steps->count - first != n) return false;
  const tok_step *a = &steps->list[first], *b = &steps->list[first + n - 1];
  const bool replaces = b->kind == TOK_STEP_REPLACE && tok_text_is(b->from, " ") && tok_text_is(b->to, MARK);
  return replaces && (!prepend || (a->kind == TOK_STEP_PREPEND && tok_text_is(a->to, MARK)));
}

/* SPM replaces spaces by itself, at the end, and puts one before a text where add_space_prefix says so. Added tokens of
 * the normalised text need the steps, however. */
static void drop_last_steps(tok_load *load) {
  tok_steps *steps = &load->extra.steps;
  for (size_t i = 0; i < load->vocab.n_tokens; i++)
    if (load->added && load->vocab.types && load->vocab.types[i] == GA_TOK_USER &&
        load->added[i] & TOK_ADDED_NORMALIZED)
      return;
  if (steps->count >= 2 && same_steps(steps, steps->count - 2, true) && !load->vocab.add_space_prefix) {
    load->vocab.add_space_prefix = true;
    steps->count -= 2;
  } else if (steps->count >= 1 && same_steps(steps, steps->count - 1, false)) {
    steps->count--;
  }
}

ga_status tok_json_spm_parts(tok_load *load, const json_t *root) {
  GA_TRY(tok_json_steps(load, ga_json_at(root, "normalizer")));
  GA_TRY(tok_json_pre_spm(load, ga_json_at(root, "pre_tokenizer")));
  drop_last_steps(load);
  return GA_OK;
}

void tok_json_unknown(tok_load *load, const json_t *model) {
  load->extra.unknown = json_is_true(ga_json_at(model, "fuse_unk")) ? TOK_UNKNOWN_FUSED : TOK_UNKNOWN_CHARS;
}

static ga_status fill_bpe(tok_load *load, json_src *src) {
  ga_vocab *v = &load->vocab;
  const json_t *model = ga_json_at(src->root, "model");
  const bool fallback = json_is_true(ga_json_at(model, "byte_fallback"));
  GA_TRY(ga_parts_check(&tok_parts_bpe, "model", model));
  v->kind = GA_TOK_BPE;
  v->ignore_merges = json_is_true(ga_json_at(model, "ignore_merges"));
  const ga_status status = tok_json_pre_bpe(load, ga_json_at(src->root, "pre_tokenizer"));
  if (status != GA_OK && !fallback) return status;
  if (status != GA_OK) v->kind = GA_TOK_SPM;
  src->byte_fallback = v->kind == GA_TOK_SPM;
  GA_REQUIRE(!src->byte_fallback || !v->ignore_merges, GA_ERR_UNSUPPORTED,
             "tokenizer.json: 'model.ignore_merges' is true; with byte_fallback it must be false");
  GA_TRY(fill_tokens(load, src));
  tok_json_unknown(load, model);
  if (v->kind == GA_TOK_SPM) {
    load->extra.has_merges = true;
    GA_TRY(tok_json_spm_parts(load, src->root));
    GA_TRY(fill_merges(load, src));
    return fill_scores(load, src);
  }
  GA_TRY(tok_json_steps(load, ga_json_at(src->root, "normalizer")));
  return fill_merges(load, src);
}

/* Unigram's normalizer is not a list of steps here: it runs on what lies between all added tokens. */
static ga_status check_raw_tokens(const tok_load *load, const json_t *root) {
  for (size_t i = 0; ga_json_at(root, "normalizer") && i < load->vocab.n_tokens; i++)
    GA_REQUIRE(load->types[i] != GA_TOK_USER || !(load->added[i] & TOK_ADDED_NORMALIZED), GA_ERR_UNSUPPORTED,
               "tokenizer.json: added token '%s' is normalized; with Unigram and a normalizer it must not be",
               ga_quote(load->vocab.tokens[i].data, load->vocab.tokens[i].bytes).text);
  return GA_OK;
}

static ga_status fill_unigram(tok_load *load, json_src *src) {
  const json_t *unk = ga_json_at(src->root, "model.unk_id");
  size_t id;
  GA_REQUIRE(json_is_array(src->pieces), GA_ERR_FORMAT, "tokenizer.json: model.vocab is %s; Unigram has an array",
             ga_json_type_name(src->pieces));
  GA_TRY(ga_parts_check(&tok_parts_unigram, "model", ga_json_at(src->root, "model")));
  load->vocab.kind = GA_TOK_UGM;
  src->vocab = NULL;
  src->byte_fallback = json_is_true(ga_json_at(src->root, "model.byte_fallback"));
  GA_TRY(tok_json_unigram(load, src->root));
  GA_TRY(fill_tokens(load, src));
  GA_TRY(check_raw_tokens(load, src->root));
  GA_TRY(tok_json_id("model.unk_id", unk, &id));
  GA_REQUIRE(id < json_array_size(src->pieces), GA_ERR_FORMAT, "tokenizer.json: model.unk_id is %zu of %zu pieces", id,
             json_array_size(src->pieces));
  load->vocab.unk = (int32_t)id;
  if (load->types[id] == GA_TOK_NORMAL) load->types[id] = GA_TOK_UNKNOWN;
  return GA_OK;
}

static ga_status read_word_chars(tok_load *load, const json_t *model) {
  const json_t *value = ga_json_at(model, "max_input_chars_per_word");
  const json_int_t most = value ? json_integer_value(value) : TOK_WPM_WORD_CHARS;
  GA_REQUIRE((!value || json_is_integer(value)) && most >= 1 && most <= TOK_WPM_MOST_CHARS, GA_ERR_UNSUPPORTED,
             "tokenizer.json: 'model.max_input_chars_per_word' is %s %lld; must be an integer from 1 to %d",
             ga_json_type_name(value), (long long)most, TOK_WPM_MOST_CHARS);
  load->extra.word_chars = (int32_t)most;
  return GA_OK;
}

ga_status tok_json_wpm_parts(tok_load *load, const json_t *root) {
  load->extra.has_wpm = true;
  load->extra.wpm = 0;
  GA_TRY(tok_json_steps(load, ga_json_at(root, "normalizer")));
  GA_TRY(tok_json_pre_wpm(load, ga_json_at(root, "pre_tokenizer")));
  return read_word_chars(load, ga_json_at(root, "model"));
}

static ga_status fill_wpm(tok_load *load, json_src *src) {
  load->vocab.kind = GA_TOK_WPM;
  GA_TRY(ga_parts_check(&tok_parts_wordpiece, "model", ga_json_at(src->root, "model")));
  GA_TRY(fill_tokens(load, src));
  return tok_json_wpm_parts(load, src->root);
}

static ga_status fill_model(tok_load *load, json_src *src) {
  const char *type = json_string_value(ga_json_at(src->root, "model.type"));
  if (type && !strcmp(type, "Unigram")) return fill_unigram(load, src);
  src->pieces = NULL;
  GA_REQUIRE(json_is_object(src->vocab), GA_ERR_FORMAT, "tokenizer.json: model.vocab is %s; must be an object",
             ga_json_type_name(src->vocab));
  if (type ? !strcmp(type, "BPE") : src->merges != NULL) return fill_bpe(load, src);
  GA_REQUIRE(!type || !strcmp(type, "WordPiece"), GA_ERR_UNSUPPORTED,
             "tokenizer.json: model type %.32s; must be BPE, WordPiece or Unigram", type ? type : "");
  return fill_wpm(load, src);
}

/* The end-of-generation ids of config.json, of which the first is eos where nothing else says so. */
ga_status tok_load_eog(tok_load *load, const ga_model_file *file) {
  const ga_meta *meta;
  void *p;
  if (!file) return GA_OK;
  GA_TRY(ga_model_file_array_or_null(file, "ga.eos_token_ids", GA_META_INTS, &meta));
  if (!meta) GA_TRY(ga_model_file_array_or_null(file, "tokenizer.ggml.eos_token_ids", GA_META_INTS, &meta));
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

ga_status tok_load_json(tok_load *load, const tok_files *files, const ga_model_file *file) {
  const json_t *root = files->root;
  json_src src = {.root = root,
                  .config = files->config,
                  .map = files->map,
                  .vocab = json_object_get(ga_json_at(root, "model"), "vocab"),
                  .pieces = ga_json_at(root, "model.vocab"),
                  .merges = ga_json_at(root, "model.merges"),
                  .added = ga_json_at(root, "added_tokens")};
  GA_TRY(ga_parts_check(&tok_parts_json, NULL, root));
  GA_TRY(fill_model(load, &src));
  GA_TRY(tok_json_post(load, &src));
  GA_TRY(tok_json_decoder(load, ga_json_at(root, "decoder")));
  GA_TRY(tok_json_specials(load, &src));
  tok_load_trim(load, file);
  return tok_load_eog(load, file);
}

ga_status tok_files_read(const char *path, const char *config, const char *map, tok_files *out) {
  *out = (tok_files){0};
  ga_status status = ga_json_read_file(path, &out->root);
  if (status == GA_OK && config) status = ga_json_read_file(config, &out->config);
  if (status == GA_OK && map) status = ga_json_read_file(map, &out->map);
  if (status != GA_OK) tok_files_free(out);
  return status;
}

void tok_files_free(tok_files *files) {
  json_decref(files->root);
  json_decref(files->config);
  json_decref(files->map);
  *files = (tok_files){0};
}

ga_status tok_from_json(const char *path, const char *config, const char *map, const ga_model_file *file,
                        ga_tokenizer **out) {
  tok_files files;
  tok_load load;
  GA_TRY(tok_files_read(path, config, map, &files));
  tok_load_init(&load);
  ga_status status = tok_load_json(&load, &files, file);
  if (status == GA_OK) status = tok_create(&load.vocab, &load.extra, out);
  tok_files_free(&files);
  ga_arena_free(&load.arena);
  return status;
}

ga_status ga_tokenizer_from_json(const char *path, const char *config, ga_tokenizer **out) {
  GA_REQUIRE(path && out, GA_ERR_ARG, "tokenizer: null argument");
  *out = NULL;
  return tok_from_json(path, config, NULL, NULL, out);
}
