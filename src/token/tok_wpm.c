/* WordPiece as BERT has it: clean, split at white space, punctuation and CJK, take the longest piece again and again.
 *
 * Order and classes follow the published BertNormalizer and BertPreTokenizer: control characters vanish, CJK
 * ideographs stand alone, then (uncased models) canonical decomposition without nonspacing marks and lower case, then
 * punctuation stands alone. Decomposed marks are not put into canonical order: only spacing marks are left by then,
 * and no vocabulary has pieces with two of them. */
#include <utf8proc.h>

#include "base/status.h"
#include "token/tok_run.h"
#include "token/unicode.h"

#define WORD_CHARS 100 /* longer words are the unknown token, as in BERT */

typedef struct wpm_word {
  tok_run *run;
  char text[1 + WORD_CHARS * 4]; /* a space, then the word */
  size_t bytes;
  int chars;
} wpm_word;

/* The ranges of BertNormalizer. The last but two starts at U+2B820 in BERT itself; fast tokenizers, with which MiniLM
 * and its kin were trained, have U+2B920. */
static bool is_cjk(uint32_t cp) {
  return cp >= 0x3400 &&
         ((cp >= 0x4E00 && cp <= 0x9FFF) || cp <= 0x4DBF || (cp >= 0x20000 && cp <= 0x2A6DF) ||
          (cp >= 0x2A700 && cp <= 0x2B73F) || (cp >= 0x2B740 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) ||
          (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0x2F800 && cp <= 0x2FA1F));
}

/* All of ASCII that is neither letter, digit nor blank counts, also symbols such as $ and ^. */
static bool is_bert_punct(uint32_t cp) {
  if (cp < 0x80) return cp > 0x20 && cp < 0x7F && !(ga_uc_class(cp) & (GA_UC_LETTER | GA_UC_NUMBER));
  return ga_uc_class(cp) & GA_UC_PUNCT;
}

/* The longest token at s; a piece that starts a word has its space and at least one more byte. */
static int32_t longest_piece(const ga_tokenizer *tok, const char *s, size_t n, size_t least, size_t *bytes) {
  for (size_t len = n < tok->longest ? n : tok->longest; len >= least; len--) {
    int32_t id = tok_map_find(tok, s, len);
    if (id < 0) continue;
    *bytes = len;
    return id;
  }
  return GA_TOK_NONE;
}

static void emit_unknown(tok_run *run) {
  int32_t unk = run->tok->special[GA_TOK_UNK];
  if (unk >= 0) tok_emit(run, unk);
}

static void wpm_flush(wpm_word *w) {
  tok_run *run = w->run;
  size_t n = w->bytes, first = run->n_ids;
  int chars = w->chars;
  tok_word word;
  w->bytes = 1;
  w->chars = 0;
  if (chars == 0) return;
  if (chars > WORD_CHARS) {
    emit_unknown(run);
    return;
  }
  if (tok_word_known(run, w->text, n, &word)) return;
  for (size_t at = 0, len = 0; at < n && run->status == GA_OK; at += len) {
    int32_t id = longest_piece(run->tok, w->text + at, n - at, at == 0 ? 2 : 1, &len);
    if (id < 0) { /* one part unknown: the whole word is */
      run->n_ids = first;
      emit_unknown(run);
      break;
    }
    tok_emit(run, id);
  }
  tok_word_keep(run, &word);
}

static void wpm_append(wpm_word *w, uint32_t cp) {
  if (w->chars <= WORD_CHARS) w->chars++;
  if (w->chars > WORD_CHARS) return;
  uint8_t c[4];
  int len = ga_utf8_encode(cp, c);
  memcpy(w->text + w->bytes, c, (size_t)len);
  w->bytes += (size_t)len;
}

/* A character after normalisation. */
static void wpm_char(wpm_word *w, uint32_t cp, bool alone) {
  if (!w->run->tok->cased) cp = ga_uc_lower(cp);
  if (ga_uc_class(cp) & GA_UC_SPACE) {
    wpm_flush(w);
  } else if (alone || is_bert_punct(cp)) {
    wpm_flush(w);
    wpm_append(w, cp);
    wpm_flush(w);
  } else {
    wpm_append(w, cp);
  }
}

/* White space, or a character that cleaning drops: 0, U+FFFD (broken UTF-8 too), control and format. */
static bool is_dropped(uint32_t cp, uint32_t class) {
  return cp == 0 || cp == GA_UC_REPLACEMENT || ((class & GA_UC_OTHER) && cp != '\t' && cp != '\n' && cp != '\r');
}

static void wpm_decomposed(wpm_word *w, uint32_t cp) {
  utf8proc_int32_t part[32]; /* canonical decompositions have at most 4 */
  bool alone = is_cjk(cp);
  utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, part, 32, UTF8PROC_DECOMPOSE, NULL);
  if (n <= 0 || n > 32) {
    part[0] = (utf8proc_int32_t)cp;
    n = 1;
  }
  for (utf8proc_ssize_t i = 0; i < n; i++)
    if (!(ga_uc_class((uint32_t)part[i]) & GA_UC_NONSPACING)) wpm_char(w, (uint32_t)part[i], alone);
}

void tok_wpm_encode(tok_run *run, const char *text, size_t bytes) {
  const uint8_t *s = (const uint8_t *)text;
  wpm_word w = {.run = run, .text = " ", .bytes = 1};
  int len;
  for (size_t i = 0; i < bytes && tok_run_goes_on(run); i += (size_t)len) {
    uint32_t cp = ga_utf8_next(s + i, bytes - i, &len), class = ga_uc_class(cp);
    if (is_dropped(cp, class)) continue;
    if (cp < 0x80 || (class & GA_UC_SPACE))
      wpm_char(&w, cp, false);
    else if (run->tok->cased)
      wpm_char(&w, cp, is_cjk(cp));
    else
      wpm_decomposed(&w, cp);
  }
  wpm_flush(&w);
}
