/* ga_tokenize: special tokens first, then each stretch of plain text by the tokenizer's kind. */
#include "token/tok_encode.h"
#include "base/abort.h"
#include "base/status.h"
#include "token/tok_run.h"
#include "token/unicode.h"

#define MAX_BYTES   ((size_t)1 << 30) /* three times as many still count in 32 bits */
#define PIECE_BYTES ((size_t)1 << 20) /* between two looks at the abort callback */

static void encode_plain(tok_run *run, const char *text, size_t bytes) {
  switch (run->tok->kind) {
  case GA_TOK_SPM: tok_spm_encode(run, text, bytes); break;
  case GA_TOK_BPE: tok_bpe_encode(run, text, bytes); break;
  case GA_TOK_WPM: tok_wpm_encode(run, text, bytes); break;
  case GA_TOK_UGM: tok_ugm_encode(run, text, bytes); break;
  }
}

/* --- added tokens --- */

/* Encodes what lies between the tokens that are cut out of a text. */
typedef void (*encode_between)(tok_run *run, const char *text, size_t bytes);

static bool is_word_at(const char *s, size_t n) {
  int len;
  return ga_uc_is_word(ga_utf8_next((const uint8_t *)s, n, &len));
}

static size_t last_char(const char *s, size_t n) {
  size_t at = n - 1;
  while (at > 0 && n - at < 4 && ((uint8_t)s[at] & 0xC0) == 0x80) at--;
  return at;
}

static bool stands_alone(const char *text, size_t bytes, size_t at, size_t end) {
  const size_t before = at ? last_char(text, at) : 0;
  return !(at && is_word_at(text + before, at - before)) && !(end < bytes && is_word_at(text + end, bytes - end));
}

static bool is_white_at(const char *s, size_t n, int *len) {
  return (ga_uc_class(ga_utf8_next((const uint8_t *)s, n, len)) & GA_UC_SPACE) != 0;
}

static size_t spaces_before(const char *text, size_t least, size_t at) {
  int len;
  while (at > least) {
    const size_t c = last_char(text, at);
    if (!is_white_at(text + c, at - c, &len)) break;
    at = c > least ? c : least;
  }
  return at;
}

static size_t spaces_after(const char *text, size_t bytes, size_t at) {
  for (int len; at < bytes && is_white_at(text + at, bytes - at, &len);) at += (size_t)len;
  return at;
}

/* Tokens by falling offset in `cuts`; begins_text: the text is the start of the whole one. Frees the list. */
static void encode_cut_text(tok_run *run, const char *text, size_t bytes, const tok_cut *list, tok_matches *cuts,
                            bool begins_text, encode_between encode) {
  size_t plain = 0, next = 0; /* end of the last token with its white space, and without */
  for (size_t i = cuts->count; i-- > 0 && run->status == GA_OK;) {
    const tok_match *m = &cuts->list[i];
    const tok_cut *cut = &list[m->token];
    const size_t end = (size_t)m->at + cut->bytes;
    if (m->at < next) continue; /* begins inside of the one before */
    next = end;
    if (cut->added & TOK_ADDED_WORD && !stands_alone(text, bytes, m->at, end)) continue;
    const size_t at = cut->added & TOK_ADDED_LSTRIP ? spaces_before(text, plain, m->at) : m->at;
    run->at_start = begins_text && plain == 0;
    if (plain < at) encode(run, text + plain, at - plain);
    tok_emit(run, cut->id);
    plain = cut->added & TOK_ADDED_RSTRIP ? spaces_after(text, bytes, end) : end;
  }
  ga_mem_free(cuts->list);
  run->at_start = begins_text && plain == 0;
  if (plain < bytes && run->status == GA_OK) encode(run, text + plain, bytes - plain);
}

/* A stretch between tokens of the raw text: it is normalised, then tokens of the normalised text are cut out. */
static void encode_stretch(tok_run *run, const char *text, size_t bytes) {
  const ga_tokenizer *tok = run->tok;
  ga_text normal;
  tok_matches cuts;
  tok_normalize(run, &tok->steps, text, bytes, &normal);
  if (run->status != GA_OK) return;
  if (!tok->cuts.n_normal) {
    if (normal.bytes) encode_plain(run, normal.data, normal.bytes);
    return;
  }
  run->status = tok_find_normal_cuts(tok, normal.data, normal.bytes, &cuts);
  if (run->status == GA_OK)
    encode_cut_text(run, normal.data, normal.bytes, tok->cuts.normal, &cuts, run->at_start, encode_plain);
}

static void encode_text(tok_run *run, const char *text, size_t bytes, bool parse, const uint8_t *foreign) {
  tok_matches cuts;
  const bool is_direct = !run->tok->steps.count && !run->tok->cuts.n_normal;
  run->status = tok_find_cuts(run->tok, text, bytes, parse, foreign, &cuts);
  if (run->status == GA_OK)
    encode_cut_text(run, text, bytes, run->tok->cuts.list, &cuts, true, is_direct ? encode_plain : encode_stretch);
}

static void encode_parts(tok_run *run, const char *text, size_t bytes, uint32_t flags) {
  const ga_tokenizer *tok = run->tok;
  const int32_t *special = tok->special;
  const bool adds = (flags & GA_TOK_ADD_SPECIAL) != 0, has_template = tok->affix.has_template;
  int32_t first = tok->add_bos ? special[GA_TOK_BOS] : GA_TOK_NONE;
  int32_t last = tok->add_eos ? special[GA_TOK_EOS] : GA_TOK_NONE;
  if (tok->kind == GA_TOK_WPM) {
    first = special[GA_TOK_CLS] >= 0 ? special[GA_TOK_CLS] : special[GA_TOK_BOS];
    last = special[GA_TOK_SEP] >= 0 ? special[GA_TOK_SEP] : special[GA_TOK_EOS];
  }
  if (has_template) first = last = GA_TOK_NONE;
  for (size_t i = 0; adds && i < tok->affix.n_before; i++) tok_emit(run, tok->affix.ids[i]);
  if (adds && first >= 0) tok_emit(run, first);
  if (bytes && run->status == GA_OK) encode_text(run, text, bytes, (flags & GA_TOK_PARSE_SPECIAL) != 0, NULL);
  if (adds && last >= 0) tok_emit(run, last);
  for (size_t i = 0; adds && i < tok->affix.n_after; i++) tok_emit(run, tok->affix.ids[tok->affix.n_before + i]);
}

static ga_status give_ids(const tok_run *run, int32_t *ids, size_t capacity, size_t *n_ids) {
  GA_TRY(run->status);
  *n_ids = run->n_ids;
  GA_REQUIRE(run->n_ids <= capacity, GA_ERR_SHAPE, "tokenize: %zu ids; there is room for %zu", run->n_ids, capacity);
  if (run->n_ids) memcpy(ids, run->ids, run->n_ids * sizeof(int32_t));
  return GA_OK;
}

static ga_status give_word_cache(tok_run *run, size_t bytes) {
  void *cache;
  if (bytes < TOK_CACHE_LEAST) return GA_OK;
  GA_TRY(ga_mem_zalloc(TOK_CACHE_SLOTS, sizeof(tok_cache_slot), "word cache", &cache));
  run->cache = cache;
  return GA_OK;
}

/* End of a piece that begins at `at`: never inside of a sequence. No sequence has more than three bytes of
 * continuation, so behind three of them every place will do. */
static size_t piece_end(const char *text, size_t at, size_t bytes) {
  if (bytes - at <= PIECE_BYTES) return bytes;
  const size_t end = at + PIECE_BYTES;
  for (size_t back = 0; back <= 3; back++)
    if (((unsigned char)text[end - back] & 0xC0) != 0x80) return end - back;
  return end;
}

static ga_status is_utf8(const char *text, size_t bytes, bool *valid) {
  *valid = true;
  for (size_t at = 0, end; at < bytes && *valid; at = end) {
    GA_TRY(ga_abort_poll("tokenize"));
    end = piece_end(text, at, bytes);
    *valid = ga_utf8_valid((const uint8_t *)text + at, end - at) == end - at;
  }
  return GA_OK;
}

/* *out: ga_mem_free; NULL after a failure. */
static ga_status repair(const char *text, size_t bytes, void **out, size_t *made) {
  ga_status status = GA_OK;
  GA_TRY(ga_mem_alloc(3 * bytes, "repaired text", out));
  *made = 0;
  for (size_t at = 0, end; at < bytes && status == GA_OK; at = end) {
    end = piece_end(text, at, bytes);
    *made += ga_utf8_repair((const uint8_t *)text + at, end - at, (char *)*out + *made);
    status = ga_abort_poll("tokenize");
  }
  if (status == GA_OK) return status;
  ga_mem_free(*out);
  *out = NULL;
  return status;
}

ga_status ga_tokenize(const ga_tokenizer *tok, const char *text, size_t bytes, uint32_t flags, int32_t *ids,
                      size_t capacity, size_t *n_ids) {
  GA_REQUIRE(n_ids, GA_ERR_ARG, "tokenize: null n_ids");
  *n_ids = 0;
  GA_REQUIRE(tok && (text || bytes == 0) && (ids || capacity == 0), GA_ERR_ARG, "tokenize: null argument");
  GA_REQUIRE(!(flags & ~(GA_TOK_ADD_SPECIAL | GA_TOK_PARSE_SPECIAL)), GA_ERR_ARG, "tokenize: flags 0x%x not known",
             flags);
  GA_REQUIRE(bytes <= MAX_BYTES, GA_ERR_SHAPE, "tokenize: text of %zu bytes; at most %zu", bytes, MAX_BYTES);
  tok_run run = {.tok = tok};
  void *repaired = NULL;
  bool valid;
  GA_TRY(is_utf8(text, bytes, &valid));
  if (!valid) {
    GA_TRY(repair(text, bytes, &repaired, &bytes));
    text = repaired;
  }
  run.status = give_word_cache(&run, bytes);
  if (run.status == GA_OK) encode_parts(&run, text, bytes, flags);
  ga_status status = give_ids(&run, ids, capacity, n_ids);
  ga_mem_free(repaired);
  tok_run_free(&run);
  return status;
}

ga_status tok_encode_traced(const ga_tokenizer *tok, const char *text, size_t bytes, const uint8_t *foreign,
                            int32_t **ids, size_t *n_ids) {
  GA_REQUIRE(bytes <= MAX_BYTES, GA_ERR_SHAPE, "tokenize: text of %zu bytes; at most %zu", bytes, MAX_BYTES);
  bool valid;
  GA_TRY(is_utf8(text, bytes, &valid));
  GA_REQUIRE(valid, GA_ERR_FORMAT, "tokenize: a rendered text is not UTF-8");
  tok_run run = {.tok = tok};
  run.status = give_word_cache(&run, bytes);
  if (run.status == GA_OK && bytes) encode_text(&run, text, bytes, true, foreign);
  if (run.status == GA_OK) {
    *ids = run.ids;
    *n_ids = run.n_ids;
    run.ids = NULL;
  }
  tok_run_free(&run);
  return run.status;
}
