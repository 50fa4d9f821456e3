/* SentencePiece BPE: characters merge in the order of the scores of what they make, or by a list of merges.
 *
 * There is no pre-splitter, so a whole text is one word. It is cut nevertheless, where no merge can ever reach across:
 * between two characters that stand side by side in no token. The result is the same, the words are short. */
#include "base/status.h"
#include "token/tok_merge.h"
#include "token/tok_pairs.h"

/* Scores as integers that sort the other way round: the best is the lowest. NaN counts as the worst. */
static uint32_t rank_of_score(float score) {
  uint32_t u;
  if (!(score > -3.4e38f)) score = -3.4e38f;
  score += 0.0f; /* -0 to +0 */
  memcpy(&u, &score, sizeof u);
  return ~(u & 0x80000000u ? ~u : u | 0x80000000u);
}

static void mark_joints(ga_tokenizer *tok, int32_t id) {
  uint32_t bytes;
  const char *s = tok_piece_text(tok, id, &bytes);
  uint32_t left = 0;
  for (size_t i = 0, len; i < bytes; i += len) {
    len = tok_char_bytes(s + i, bytes - i);
    uint32_t code = tok_char_code(s + i, len);
    uint32_t bit = tok_joint_hash(left, code) & tok->joint_mask;
    if (i > 0) tok->joints[bit / 64] |= (uint64_t)1 << bit % 64;
    left = code;
  }
}

ga_status tok_build_spm(ga_tokenizer *tok, const ga_vocab *vocab) {
  void *rank, *joints;
  uint32_t bits = 1024; /* about 16 a token: few false positives, which only make longer words */
  while (bits < 16 * (uint64_t)tok->n_tokens && bits < 1u << 26) bits *= 2;
  GA_TRY(ga_arena_alloc(&tok->arena, (size_t)tok->n_tokens * sizeof(uint32_t), &rank));
  GA_TRY(ga_arena_alloc(&tok->arena, bits / 8, &joints));
  tok->rank = rank;
  tok->joints = joints;
  tok->joint_mask = bits - 1;
  for (int32_t id = 0; id < tok->n_tokens; id++) {
    tok->rank[id] = rank_of_score(vocab->scores ? vocab->scores[id] : 0.0f);
    if (tok->mark[id] & TOK_MARK_PLAIN) mark_joints(tok, id);
  }
  return GA_OK;
}

typedef struct spm_ctx {
  const ga_tokenizer *tok;
  const char *text;
} spm_ctx;

GA_INLINE void spm_pair(const void *ctx, const tok_symbols *sym, uint32_t i, uint32_t n) {
  const spm_ctx *spm = ctx;
  uint32_t j = sym->next[i];
  sym->rank[i] = TOK_RANK_NONE;
  if (j >= n) return;
  uint32_t begin = sym->start[i], end = sym->start[sym->next[j]];
  int32_t id = tok_map_find(spm->tok, spm->text + begin, end - begin);
  if (id < 0) return;
  sym->rank[i] = spm->tok->rank[id];
  sym->made[i] = id;
}

/* A character without a token: its bytes, each as its byte token, else as the unknown token. */
static void emit_bytes(tok_run *run, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    int32_t id = run->tok->byte_id[(uint8_t)s[i]];
    if (id < 0) id = run->tok->special[GA_TOK_UNK];
    if (id >= 0) tok_emit(run, id);
  }
}

static void spm_word(tok_run *run, const char *text, size_t bytes) {
  spm_ctx ctx = {run->tok, text};
  if (!tok_run_symbols(run, bytes)) return;
  tok_symbols *sym = &run->symbols;
  uint32_t n = 0;
  for (size_t at = 0; at < bytes; n++) {
    sym->start[n] = (uint32_t)at;
    sym->id[n] = GA_TOK_NONE;
    at += tok_char_bytes(text + at, bytes - at);
  }
  sym->start[n] = (uint32_t)bytes;
  tok_merge_all(run, n, spm_pair, &ctx);
  for (uint32_t i = 0; i < n; i = sym->next[i]) {
    const char *s = text + sym->start[i];
    size_t len = sym->start[sym->next[i]] - sym->start[i];
    int32_t id = sym->id[i] >= 0 ? sym->id[i] : tok_map_find(run->tok, s, len);
    if (id >= 0)
      tok_emit(run, id);
    else
      emit_bytes(run, s, len);
  }
}

static bool spm_wants_prefix(const tok_run *run, const char *text, size_t bytes) {
  const ga_tokenizer *tok = run->tok;
  if (!tok->add_space_prefix || (tok->unigram & GA_TOK_UGM_FIRST && !run->at_start)) return false;
  const bool has_space = *text == ' ' || (bytes >= 3 && !memcmp(text, "\xE2\x96\x81", 3));
  return !(tok->unigram & GA_TOK_UGM_MISSING && has_space);
}

/* Into run->buffer: U+2581 means a space here too; a space in front when the model wants it; extra ones gone. */
static size_t spm_normalise(tok_run *run, const char *text, size_t bytes) {
  const ga_tokenizer *tok = run->tok;
  bool squeeze = tok->remove_extra_whitespaces;
  if (!tok_run_buffer(run, bytes + 1)) return 0;
  char *out = run->buffer;
  size_t n = 0;
  if (spm_wants_prefix(run, text, bytes)) out[n++] = ' ';
  size_t first = n;
  for (size_t i = 0; i < bytes && tok_run_goes_on(run);) {
    bool mark = text[i] == '\xE2' && bytes - i >= 3 && !memcmp(text + i, "\xE2\x96\x81", 3);
    char c = mark ? ' ' : text[i];
    i += mark ? 3 : 1;
    if (squeeze && c == ' ' && (n == first || out[n - 1] == ' ')) continue;
    out[n++] = c;
  }
  if (squeeze && n > first && out[n - 1] == ' ') n--;
  return squeeze && n == first ? 0 : n;
}

/* End of the word that starts at `at`. */
static size_t spm_word_end(const ga_tokenizer *tok, const char *s, size_t at, size_t n) {
  size_t len = tok_char_bytes(s + at, n - at);
  uint32_t left = tok_char_code(s + at, len);
  const bool words = tok->unigram & GA_TOK_UGM_WORDS;
  for (at += len; at < n; at += len) {
    if (words && s[at] == ' ') break;
    len = tok_char_bytes(s + at, n - at);
    uint32_t code = tok_char_code(s + at, len), bit = tok_joint_hash(left, code) & tok->joint_mask;
    if (!(tok->joints[bit / 64] >> bit % 64 & 1)) break;
    left = code;
  }
  return at;
}

/* --- by the list of merges --- */

typedef struct symbol_list {
  tok_symbols *sym;
  uint32_t n;
  bool unknown; /* an unknown token waits: it comes before the next character that has a token */
} symbol_list;

static void put_symbol(symbol_list *list, int32_t id) {
  if (id >= 0) list->sym->id[list->n++] = id;
}

/* A character as Hugging Face's BPE has it: its token, else the tokens of its bytes, else the unknown token. An unknown
 * token that waits comes after such bytes. */
static void put_character(const ga_tokenizer *tok, symbol_list *list, const char *s, size_t len) {
  const int32_t id = tok_map_find(tok, s, len), unk = tok->special[GA_TOK_UNK];
  bool bytes = true;
  for (size_t i = 0; i < len; i++) bytes = bytes && tok->byte_id[(uint8_t)s[i]] >= 0;
  if (id < 0 && bytes) {
    for (size_t i = 0; i < len; i++) put_symbol(list, tok->byte_id[(uint8_t)s[i]]);
    return;
  }
  if (list->unknown && (id >= 0 || tok->unknown != TOK_UNKNOWN_FUSED)) put_symbol(list, unk);
  list->unknown = id < 0;
  put_symbol(list, id);
}

static void merged_word(tok_run *run, const char *text, size_t bytes) {
  if (!tok_run_symbols(run, bytes + 1)) return;
  symbol_list list = {.sym = &run->symbols};
  for (size_t at = 0, len; at < bytes && tok_run_goes_on(run); at += len)
    put_character(run->tok, &list, text + at, len = tok_char_bytes(text + at, bytes - at));
  if (list.unknown) put_symbol(&list, run->tok->special[GA_TOK_UNK]);
  tok_merge_all(run, list.n, tok_merge_pair, run->tok);
  for (uint32_t i = 0; i < list.n; i = list.sym->next[i]) tok_emit(run, list.sym->id[i]);
}

/* --- both --- */

/* End of the part of a text that begins at `at` and is encoded by itself. With unknown characters, which may wait,
 * parts end at spaces, or nowhere. */
static size_t part_end(const ga_tokenizer *tok, const char *s, size_t at, size_t n) {
  if (!tok->by_merges || tok->all_bytes) return spm_word_end(tok, s, at, n);
  const char *space = tok->unigram & GA_TOK_UGM_WORDS && n - at > 1 ? memchr(s + at + 1, ' ', n - at - 1) : NULL;
  return space ? (size_t)(space - s) : n;
}

void tok_spm_encode(tok_run *run, const char *text, size_t bytes) {
  size_t n = spm_normalise(run, text, bytes);
  const char *s = run->buffer;
  tok_word word;
  for (size_t at = 0, end; at < n && tok_run_goes_on(run); at = end) {
    end = part_end(run->tok, s, at, n);
    if (tok_word_known(run, s + at, end - at, &word)) continue;
    (run->tok->by_merges ? merged_word : spm_word)(run, s + at, end - at);
    tok_word_keep(run, &word);
  }
}
