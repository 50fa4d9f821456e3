/* Small vocabularies made by hand for the tokenizer tests. */
#ifndef GA_TESTS_TOK_VOCABS_H
#define GA_TESTS_TOK_VOCABS_H

#include <stdio.h>
#include <string.h>

#include "ga/tokenizer.h"

#define MARK        "\xE2\x96\x81" /* U+2581, a space in SPM and WPM vocabularies */
#define MOST_TOKENS 400

typedef struct small_vocab {
  ga_vocab v;
  ga_text tokens[MOST_TOKENS], merges[MOST_TOKENS];
  float scores[MOST_TOKENS];
  int32_t types[MOST_TOKENS];
  char byte_text[256][8];
} small_vocab;

static inline int32_t add_token(small_vocab *s, const char *text, ga_tok_type type, float score) {
  size_t i = s->v.n_tokens++;
  s->tokens[i] = (ga_text){text, strlen(text)};
  s->types[i] = (int32_t)type;
  s->scores[i] = score;
  return (int32_t)i;
}

static inline void add_merge(small_vocab *s, const char *text) {
  s->merges[s->v.n_merges++] = (ga_text){text, strlen(text)};
}

static inline void start_vocab(small_vocab *s, ga_tok_kind kind) {
  ga_vocab empty = GA_VOCAB_INIT;
  s->v = empty;
  s->v.kind = kind;
  s->v.tokens = s->tokens;
  s->v.scores = s->scores;
  s->v.types = s->types;
  s->v.merges = s->merges;
}

/* 0 <unk>, 1 <s>, 2 </s>, 3 + b the byte b, then from SPM_MARK on the pieces below. */
enum {
  SPM_MARK = 259,
  SPM_A,
  SPM_B,
  SPM_C,
  SPM_D,
  SPM_AB,
  SPM_BC,
  SPM_CD,
  SPM_ABCD,
  SPM_MARK_AB,
  SPM_AA,
  SPM_AAAA,
  SPM_USER,
  SPM_TURN,
  SPM_LONG
};

static inline void make_spm(small_vocab *s) {
  start_vocab(s, GA_TOK_SPM);
  s->v.unk = add_token(s, "<unk>", GA_TOK_UNKNOWN, 0);
  s->v.bos = add_token(s, "<s>", GA_TOK_CONTROL, 0);
  s->v.eos = add_token(s, "</s>", GA_TOK_CONTROL, 0);
  for (int b = 0; b < 256; b++) {
    (void)snprintf(s->byte_text[b], sizeof s->byte_text[b], "<0x%02X>", (unsigned)b);
    (void)add_token(s, s->byte_text[b], GA_TOK_BYTE, 0);
  }
  static const struct {
    const char *text;
    float score;
  } pieces[] = {{MARK, -10}, {"a", -20}, {"b", -21},   {"c", -22},      {"d", -23}, {"ab", -1},
                {"bc", -2},  {"cd", -1}, {"abcd", -3}, {MARK "ab", -4}, {"aa", -5}, {"aaaa", -6}};
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
    (void)add_token(s, pieces[i].text, GA_TOK_NORMAL, pieces[i].score);
  (void)add_token(s, "<ab>", GA_TOK_USER, 0);
  (void)add_token(s, "<end_of_turn>", GA_TOK_NORMAL, 0); /* wrongly normal, as in some files */
  (void)add_token(s, "<ab>aa", GA_TOK_USER, 0);
  s->v.add_bos = true;
}

/* GPT-2's printable character of a byte. */
static inline void byte_char(unsigned b, char out[8]) {
  unsigned cp = b, skipped = 0;
  for (unsigned i = 0; i <= b; i++) {
    bool prints = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
    if (i == b && !prints) cp = 256 + skipped;
    if (!prints) skipped++;
  }
  if (cp < 0x80)
    (void)snprintf(out, 8, "%c", (int)cp);
  else
    (void)snprintf(out, 8, "%c%c", (int)(0xC0 | cp >> 6), (int)(0x80 | (cp & 63)));
}

/* b the byte b, then from BPE_HE on the pieces below. U+0120 is the space. */
enum {
  BPE_HE = 256,
  BPE_LL,
  BPE_HELL,
  BPE_HELLO,
  BPE_W,
  BPE_LO,
  BPE_AA,
  BPE_AAAA,
  BPE_XYZ,
  BPE_CONTROL,
  BPE_USER,
  BPE_SPACES
};

static inline void make_bpe(small_vocab *s) {
  start_vocab(s, GA_TOK_BPE);
  for (unsigned b = 0; b < 256; b++) {
    byte_char(b, s->byte_text[b]);
    (void)add_token(s, s->byte_text[b], GA_TOK_NORMAL, 0);
  }
  static const char *const pieces[] = {"he", "ll", "hell", "hello", "\xC4\xA0w", "lo", "aa", "aaaa", "xyz"};
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) (void)add_token(s, pieces[i], GA_TOK_NORMAL, 0);
  (void)add_token(s, "<|im_end|>", GA_TOK_CONTROL, 0);
  (void)add_token(s, "  w", GA_TOK_USER, 0);
  (void)add_token(s, "\xC4\xA0\xC4\xA0w", GA_TOK_NORMAL, 0); /* the same bytes again */
  static const char *const merges[] = {"h e", "l l", "he ll", "hell o", "\xC4\xA0 w",
                                       "l o", "a a", "aa aa", "q q",    "l l"};
  for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) add_merge(s, merges[i]);
}

enum {
  WPM_PAD,
  WPM_UNK,
  WPM_CLS,
  WPM_SEP,
  WPM_UN,
  WPM_AFF,
  WPM_ABLE,
  WPM_COMMA,
  WPM_HAN,
  WPM_E,
  WPM_S,
  WPM_A,
  WPM_AA,
  WPM_MARK
};

static inline void make_wpm(small_vocab *s) {
  start_vocab(s, GA_TOK_WPM);
  s->v.pad = add_token(s, "[PAD]", GA_TOK_CONTROL, 0);
  s->v.unk = add_token(s, "[UNK]", GA_TOK_UNKNOWN, 0);
  s->v.cls = add_token(s, "[CLS]", GA_TOK_CONTROL, 0);
  s->v.sep = add_token(s, "[SEP]", GA_TOK_CONTROL, 0);
  static const char *const pieces[] = {MARK "un", "aff", "able",   MARK ",", MARK "\xE4\xB8\xAD",
                                       MARK "e",  "s",   MARK "a", "a",      MARK};
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) (void)add_token(s, pieces[i], GA_TOK_NORMAL, 0);
}

#endif
