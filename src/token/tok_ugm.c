/* SentencePiece Unigram: of all ways to cut a text into pieces, the one whose scores add up to the most (Viterbi 1967).
 * A character that is no piece by itself may count as an unknown one, at the lowest score of all pieces less 10.
 *
 * A place that no piece reaches across is on every way, so that what comes before it is settled there: memory follows
 * the longest stretch without such a place. Sums go on over these places, so that they round as in one go. */
#include <math.h>
#include <utf8proc.h>

#include "base/status.h"
#include "token/tok_run.h"
#include "token/unicode.h"

#define UNKNOWN_LESS 10.0              /* as in SentencePiece and llama.cpp */
#define PIECE_MOST   1024              /* bytes: a longer one would cost so many steps at each character */
#define TEXT_MOST    ((size_t)1 << 31) /* bytes of a normalised text; also at most */
#define TEXT_GROWS   16                /* times those of the text (NFKC makes 11 of one) */
#define TEXT_MORE    4096              /* and so many, for short texts */
#define CLUSTER_MOST 6                 /* grapheme clusters of fewer bytes are looked up whole: Hugging Face */
#define WAY_NONE     (-1)              /* no way leads there */
#define WAY_UNKNOWN  (-2)
#define ALL_FLAGS    (2 * (uint32_t)GA_TOK_UGM_BYTES - 1)

/* --- making one --- */

static ga_status check_unigram(const ga_tokenizer *tok, const ga_vocab *vocab) {
  GA_REQUIRE(!(vocab->unigram & ~ALL_FLAGS), GA_ERR_ARG, "tokenizer: unigram flags 0x%x; must be below 0x%x",
             vocab->unigram, ALL_FLAGS + 1);
  GA_REQUIRE(tok->special[GA_TOK_UNK] >= 0, GA_ERR_FORMAT,
             "tokenizer: Unigram without an unknown token; must have one");
  GA_REQUIRE(tok->longest <= PIECE_MOST, GA_ERR_SHAPE, "tokenizer: a piece of %u bytes; Unigram has at most %d",
             tok->longest, PIECE_MOST);
  for (int b = 0; b < 256 && vocab->unigram & GA_TOK_UGM_BYTES; b++)
    GA_REQUIRE(tok->byte_id[b] >= 0, GA_ERR_FORMAT, "tokenizer: byte fallback without a token <0x%02X>", (unsigned)b);
  return GA_OK;
}

static ga_status take_scores(ga_tokenizer *tok, const ga_vocab *vocab) {
  void *p;
  double least = INFINITY;
  GA_TRY(ga_arena_alloc(&tok->arena, (size_t)tok->n_tokens * sizeof(float), &p));
  tok->score = p;
  for (int32_t id = 0; id < tok->n_tokens; id++) {
    tok->score[id] = vocab->scores ? vocab->scores[id] : 0;
    GA_REQUIRE(isfinite(tok->score[id]), GA_ERR_FORMAT, "tokenizer: token %d has the score %g; must be finite", id,
               (double)tok->score[id]);
    if (tok->mark[id] & TOK_MARK_PLAIN) least = fmin(least, (double)tok->score[id]);
  }
  tok->unknown_score = (isfinite(least) ? least : 0) - UNKNOWN_LESS;
  return GA_OK;
}

ga_status tok_build_ugm(ga_tokenizer *tok, const ga_vocab *vocab) {
  void *p;
  size_t n = 0;
  GA_TRY(check_unigram(tok, vocab));
  GA_TRY(take_scores(tok, vocab));
  GA_TRY(tok_charsmap_init(&tok->charsmap, &tok->arena, vocab->charsmap, vocab->charsmap_bytes));
  tok->unigram = vocab->unigram;
  GA_TRY(ga_mem_alloc((size_t)tok->n_tokens * sizeof(tok_trie_piece), "pieces", &p));
  tok_trie_piece *list = p;
  for (int32_t id = 0; id < tok->n_tokens; id++) {
    if (!(tok->mark[id] & TOK_MARK_PLAIN)) continue;
    list[n].text = tok_piece_text(tok, id, &list[n].bytes);
    list[n++].id = id;
  }
  const ga_status status = tok_trie_build(&tok->trie, &tok->arena, list, n);
  ga_mem_free(list);
  return status;
}

/* --- normalising: into run->buffer, whose first byte is left free for a space --- */

static bool put_normalised(tok_run *run, size_t *n, const char *s, size_t bytes) {
  if (run->status != GA_OK) return false;
  if (bytes > run->normal_most - *n) {
    run->status = ga_fail(GA_ERR_SHAPE, "tokenize: a text of more than %zu bytes when normalised", run->normal_most);
    return false;
  }
  if (*n + bytes > run->buffer_bytes) {
    const size_t room = 2 * (*n + bytes);
    void *bigger;
    run->status = ga_mem_alloc(room, "normalised text", &bigger);
    if (run->status != GA_OK) return false;
    if (*n) memcpy(bigger, run->buffer, *n);
    ga_mem_free(run->buffer);
    run->buffer = bigger;
    run->buffer_bytes = room;
  }
  if (bytes) memcpy(run->buffer + *n, s, bytes);
  *n += bytes;
  return true;
}

/* End of the grapheme cluster (Unicode annex 29) at `at`. */
static size_t cluster_end(tok_run *run, const uint8_t *s, size_t at, size_t n) {
  utf8proc_int32_t state = 0;
  int len;
  uint32_t cp = ga_utf8_next(s + at, n - at, &len);
  for (at += (size_t)len; at < n && tok_run_goes_on(run); at += (size_t)len) {
    const uint32_t next = ga_utf8_next(s + at, n - at, &len);
    if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next, &state)) break;
    cp = next;
  }
  return at;
}

/* Characters [at, end), each by the shortest entry that it begins with. */
static void map_chars(tok_run *run, const char *text, size_t at, size_t end, size_t *n) {
  const tok_charsmap *map = &run->tok->charsmap;
  for (size_t len; at < end && tok_run_goes_on(run); at += len) {
    ga_text to = {text + at, len = tok_char_bytes(text + at, end - at)};
    (void)tok_charsmap_find(map, text + at, len, false, &to);
    (void)put_normalised(run, n, to.data, to.bytes);
  }
}

static void map_clusters(tok_run *run, const char *text, size_t bytes, size_t *n) {
  for (size_t at = 0, end; at < bytes && tok_run_goes_on(run); at = end) {
    ga_text to;
    end = cluster_end(run, (const uint8_t *)text, at, bytes);
    if (end - at < CLUSTER_MOST && tok_charsmap_find(&run->tok->charsmap, text + at, end - at, false, &to))
      (void)put_normalised(run, n, to.data, to.bytes);
    else
      map_chars(run, text, at, end, n);
  }
}

static void map_longest(tok_run *run, const char *text, size_t bytes, size_t *n) {
  for (size_t at = 0, len; at < bytes && tok_run_goes_on(run); at += len) {
    ga_text to;
    len = tok_charsmap_find(&run->tok->charsmap, text + at, bytes - at, true, &to);
    if (!len) to = (ga_text){text + at, len = tok_char_bytes(text + at, bytes - at)};
    (void)put_normalised(run, n, to.data, to.bytes);
  }
}

static bool is_space_at(const char *s, size_t n, bool any, size_t *len) {
  int bytes;
  *len = 1;
  if (!any) return *s == ' ';
  const bool is_space = ga_uc_class(ga_utf8_next((const uint8_t *)s, n, &bytes)) & GA_UC_SPACE;
  *len = (size_t)bytes;
  return is_space;
}

/* Bytes of white space at the end; any: all of Unicode's, else U+0020. */
static size_t trailing(const char *s, size_t n, bool any) {
  size_t end = n, len;
  while (end > 0) {
    size_t at = end - 1;
    while (at > 0 && end - at < 4 && ((uint8_t)s[at] & 0xC0) == 0x80) at--;
    if (!is_space_at(s + at, end - at, any, &len)) break;
    end = at;
  }
  return n - end;
}

/* Spaces at the ends and runs of them; returns what is left, from *s on. */
static size_t tidy(const ga_tokenizer *tok, char **s, size_t n) {
  const uint32_t flags = tok->unigram;
  const bool extra = tok->remove_extra_whitespaces;
  size_t len, kept = 0;
  while ((extra || flags & GA_TOK_UGM_STRIP_LEFT) && n > 0 && is_space_at(*s, n, flags & GA_TOK_UGM_STRIP_LEFT, &len)) {
    *s += len;
    n -= len;
  }
  if (extra || flags & GA_TOK_UGM_STRIP_RIGHT) n -= trailing(*s, n, flags & GA_TOK_UGM_STRIP_RIGHT);
  if (!(extra || flags & GA_TOK_UGM_SQUEEZE)) return n;
  for (size_t i = 0; i < n; i++)
    if ((*s)[i] != ' ' || kept == 0 || (*s)[kept - 1] != ' ') (*s)[kept++] = (*s)[i];
  return kept;
}

/* --- pieces --- */

static tok_way *way_room(tok_run *run, size_t n) {
  tok_lattice *l = &run->lattice;
  if (n <= l->capacity) return l->ways;
  const size_t room = n < 128 ? 256 : 2 * n;
  void *bigger;
  run->status = ga_mem_alloc(room * sizeof(tok_way), "ways through a text", &bigger);
  if (run->status != GA_OK) return NULL;
  if (l->capacity) memcpy(bigger, l->ways, l->capacity * sizeof(tok_way));
  ga_mem_free(l->ways);
  *l = (tok_lattice){bigger, room};
  return l->ways;
}

/* A stretch of a text, from a place on every way: its ways by offset from there. */
typedef struct ugm_stretch {
  tok_run *run;
  const char *text; /* at the stretch */
  double score;     /* of the way to it */
  size_t reach;     /* the furthest end of a piece so far */
  bool after_unknown;
} ugm_stretch;

/* A piece [begin, end) with the score of the way to its end. Of equal ways the first one stays. */
static void add_way(ugm_stretch *t, size_t begin, size_t end, int32_t id, double score) {
  tok_way *ways = way_room(t->run, end + 1);
  if (!ways) return;
  for (; t->reach < end; t->reach++) ways[t->reach + 1].id = WAY_NONE;
  if (ways[end].id == WAY_NONE || score > ways[end].score) ways[end] = (tok_way){score, (uint32_t)begin, id};
}

/* All pieces that begin at a character of `len` bytes; `left` bytes of text are there. */
static void add_pieces(ugm_stretch *t, size_t at, size_t len, size_t left) {
  const ga_tokenizer *tok = t->run->tok;
  const double score = at ? t->run->lattice.ways[at].score : t->score;
  bool is_piece = false;
  uint32_t node = 0;
  for (size_t i = 0; i < left && (node = tok_trie_step(&tok->trie, node, (uint8_t)t->text[at + i])) != 0; i++) {
    const int32_t id = tok->trie.id[node];
    if (id < 0) continue;
    add_way(t, at, at + i + 1, id, score + (double)tok->score[id]);
    is_piece = is_piece || i + 1 == len;
  }
  if (!is_piece) add_way(t, at, at + len, WAY_UNKNOWN, score + tok->unknown_score);
}

/* Unknown characters in a row are one token. */
static void emit_way(ugm_stretch *t, size_t begin, size_t end, int32_t id) {
  const ga_tokenizer *tok = t->run->tok;
  const bool is_unknown = id == WAY_UNKNOWN;
  if (!is_unknown)
    tok_emit(t->run, id);
  else if (tok->unigram & GA_TOK_UGM_BYTES)
    for (size_t i = begin; i < end; i++) tok_emit(t->run, tok->byte_id[(uint8_t)t->text[i]]);
  else if (!t->after_unknown)
    tok_emit(t->run, tok->special[GA_TOK_UNK]);
  t->after_unknown = is_unknown;
}

/* The stretch ends here, at a place on every way; the next one begins. Turns the links round, to emit forwards. */
static void end_stretch(ugm_stretch *t, size_t end) {
  tok_way *ways = t->run->lattice.ways;
  if (end == 0 || t->run->status != GA_OK) return;
  t->score = ways[end].score;
  size_t next = 0, begin = 0;
  for (size_t at = end, before; at > 0; at = before) {
    before = ways[at].begin;
    ways[at].begin = (uint32_t)next;
    next = at;
  }
  for (size_t at = next; at > 0; at = ways[at].begin) {
    emit_way(t, begin, at, ways[at].id);
    begin = at;
  }
  t->text += end;
  t->reach = 0;
}

static void ugm_sentence(tok_run *run, const char *text, size_t n) {
  ugm_stretch t = {.run = run, .text = text};
  const char *end = text + n;
  for (const char *s = text; s < end && tok_run_goes_on(run);) {
    size_t at = (size_t)(s - t.text);
    if (at >= t.reach) {
      end_stretch(&t, at);
      at = 0;
    }
    const size_t len = tok_char_bytes(s, (size_t)(end - s));
    add_pieces(&t, at, len, (size_t)(end - s));
    s += len;
  }
  end_stretch(&t, (size_t)(end - t.text));
}

/* --- words --- */

/* U+2581 means a space here too; in place. */
static size_t unmark_spaces(char *s, size_t n) {
  size_t made = 0;
  for (size_t i = 0; i < n; made++) {
    const bool mark = n - i >= 3 && !memcmp(s + i, "\xE2\x96\x81", 3);
    s[made] = mark ? ' ' : s[i];
    i += mark ? 3 : 1;
  }
  return made;
}

/* A word, or a whole text; the byte before it may be overwritten. */
static void ugm_part(tok_run *run, char *s, size_t n, bool first) {
  const ga_tokenizer *tok = run->tok;
  tok_word word;
  if (n == 0) return;
  n = unmark_spaces(s, n);
  if (tok->add_space_prefix && (first || !(tok->unigram & GA_TOK_UGM_FIRST)) &&
      !(tok->unigram & GA_TOK_UGM_MISSING && *s == ' ')) {
    *--s = ' ';
    n++;
  }
  if (!(tok->unigram & GA_TOK_UGM_WORDS)) {
    ugm_sentence(run, s, n);
    return;
  }
  for (size_t at = 0, end; at < n && tok_run_goes_on(run); at = end) {
    const char *space = n - at > 1 ? memchr(s + at + 1, ' ', n - at - 1) : NULL;
    end = space ? (size_t)(space - s) : n;
    if (tok_word_known(run, s + at, end - at, &word)) continue;
    ugm_sentence(run, s + at, end - at);
    tok_word_keep(run, &word);
  }
}

/* Words between white space. */
static void ugm_words(tok_run *run, char *s, size_t n) {
  size_t begin = 0, len;
  for (size_t at = 0; at < n && tok_run_goes_on(run); at += len) {
    if (!is_space_at(s + at, n - at, true, &len)) continue;
    ugm_part(run, s + begin, at - begin, run->at_start && begin == 0);
    begin = at + len;
  }
  ugm_part(run, s + begin, n - begin, run->at_start && begin == 0);
}

void tok_ugm_encode(tok_run *run, const char *text, size_t bytes) {
  const ga_tokenizer *tok = run->tok;
  size_t n = 0;
  run->normal_most = bytes < TEXT_MOST / TEXT_GROWS ? TEXT_GROWS * bytes + TEXT_MORE : TEXT_MOST;
  if (!put_normalised(run, &n, " ", 1)) return;
  if (!tok->charsmap.n_units)
    (void)put_normalised(run, &n, text, bytes);
  else if (tok->unigram & GA_TOK_UGM_CLUSTERS)
    map_clusters(run, text, bytes, &n);
  else
    map_longest(run, text, bytes, &n);
  if (run->status != GA_OK) return;
  char *s = run->buffer + 1;
  n = tidy(tok, &s, n - 1);
  if (tok->unigram & GA_TOK_UGM_SPLIT)
    ugm_words(run, s, n);
  else
    ugm_part(run, s, n, run->at_start);
}
