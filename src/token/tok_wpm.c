/* WordPiece as BERT has it: clean, split at white space, punctuation and CJK, take the longest piece again and again.
 *
 * Order and classes follow the published BertNormalizer and BertPreTokenizer: control characters vanish, CJK
 * ideographs stand alone, then canonical decomposition without nonspacing marks, lower case, and punctuation stands
 * alone. Each of these has its TOK_WPM_ bit. Decomposed marks are not put into canonical order: only spacing marks are
 * left by then, and no vocabulary has pieces with two of them. */
#include <utf8proc.h>

#include "base/status.h"
#include "token/tok_run.h"
#include "token/unicode.h"

typedef struct wpm_word {
  tok_run *run;
  char *text; /* a space, then the word; run->buffer */
  size_t bytes;
  int chars;
  bool is_word; /* TOK_WPM_WORDS: the last character was matched by \w */
} wpm_word;

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
  if (chars > run->tok->word_chars) {
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
  const int most = w->run->tok->word_chars;
  if (w->chars <= most) w->chars++;
  if (w->chars > most) return;
  uint8_t c[4];
  int len = ga_utf8_encode(cp, c);
  memcpy(w->text + w->bytes, c, (size_t)len);
  w->bytes += (size_t)len;
}

/* A character after normalisation; alone: an ideograph. */
static void wpm_char(wpm_word *w, uint32_t cp, bool alone) {
  const uint32_t wpm = w->run->tok->wpm;
  if (ga_uc_class(cp) & GA_UC_SPACE) {
    wpm_flush(w);
  } else if (alone || (wpm & TOK_WPM_PUNCT && is_bert_punct(cp))) {
    wpm_flush(w);
    wpm_append(w, cp);
    wpm_flush(w);
  } else {
    const bool is_word = wpm & TOK_WPM_WORDS && ga_uc_is_word(cp);
    if (is_word != w->is_word) wpm_flush(w);
    w->is_word = is_word;
    wpm_append(w, cp);
  }
}

/* An ideograph has white space on both sides already; a mark that lower case splits off stays within them. */
static void wpm_lowered(wpm_word *w, uint32_t cp, bool alone) {
  const bool lower = w->run->tok->wpm & TOK_WPM_LOWER;
  wpm_char(w, !lower ? cp : cp == 0x130 ? 'i' : ga_uc_lower(cp), alone);
  if (lower && cp == 0x130) wpm_char(w, 0x307, alone);
}

static void wpm_decomposed(wpm_word *w, uint32_t cp, bool alone) {
  utf8proc_int32_t part[32]; /* canonical decompositions have at most 4 */
  utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, part, 32, UTF8PROC_DECOMPOSE, NULL);
  if (n <= 0 || n > 32) {
    part[0] = (utf8proc_int32_t)cp;
    n = 1;
  }
  for (utf8proc_ssize_t i = 0; i < n; i++)
    if (!(ga_uc_class((uint32_t)part[i]) & GA_UC_NONSPACING)) wpm_lowered(w, (uint32_t)part[i], alone);
}

void tok_wpm_encode(tok_run *run, const char *text, size_t bytes) {
  const uint8_t *s = (const uint8_t *)text;
  const uint32_t wpm = run->tok->wpm;
  int len;
  if (!tok_run_buffer(run, 1 + 4 * (size_t)run->tok->word_chars)) return;
  wpm_word w = {.run = run, .text = run->buffer, .bytes = 1};
  w.text[0] = ' ';
  for (size_t i = 0; i < bytes && tok_run_goes_on(run); i += (size_t)len) {
    const uint32_t cp = ga_utf8_next(s + i, bytes - i, &len), class = ga_uc_class(cp);
    if (wpm & TOK_WPM_CLEAN && tok_is_dropped(cp, class)) continue;
    const bool alone = wpm & TOK_WPM_CJK && tok_is_cjk(cp);
    if (cp >= 0x80 && wpm & TOK_WPM_STRIP && !(class & GA_UC_SPACE))
      wpm_decomposed(&w, cp, alone);
    else
      wpm_lowered(&w, cp, alone);
  }
  wpm_flush(&w);
}
