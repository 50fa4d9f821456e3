/* Streaming detokenisation: any ids, pushed one by one, give what their bytes repaired as a whole give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "base/rng.h"
#include "tests/tok_vocabs.h"

static small_vocab vocab;

static ga_tokenizer *make_small_tokenizer(void (*make)(small_vocab *), bool prefix) {
  ga_tokenizer *tok;
  make(&vocab);
  vocab.v.add_space_prefix = prefix;
  assert_int_equal(ga_tokenizer_create(&vocab.v, &tok), GA_OK);
  return tok;
}

static bool is_char(const uint8_t *s, size_t n) {
  utf8proc_int32_t cp;
  return utf8proc_iterate(s, (utf8proc_ssize_t)n, &cp) == (utf8proc_ssize_t)n;
}

/* Can these bytes be the start of a character? By trying what may follow, with utf8proc as the judge. */
static bool can_become_char(const uint8_t *s, size_t n) {
  static const uint8_t follow[] = {0x80, 0x90, 0xA0, 0xBF};
  uint8_t c[4];
  memcpy(c, s, n);
  for (size_t total = n + 1; total <= 4; total++) {
    for (int k = 0; k < 64; k++) {
      for (size_t i = n; i < total; i++) c[i] = follow[(k >> 2 * (i - n)) & 3];
      if (is_char(c, total)) return true;
    }
  }
  return false;
}

/* Repair by the letter of the Unicode standard: U+FFFD for each maximal part that could have become a character. */
static size_t repair_bytes(const uint8_t *s, size_t n, char *out) {
  size_t made = 0, len;
  for (size_t i = 0; i < n; i += len) {
    for (len = 4; len > 0 && !(len <= n - i && is_char(s + i, len)); len--) continue;
    if (len > 0) {
      memcpy(out + made, s + i, len);
      made += len;
      continue;
    }
    for (len = n - i < 3 ? n - i : 3; len > 1 && !can_become_char(s + i, len); len--) continue;
    memcpy(out + made, "\xEF\xBF\xBD", 3);
    made += 3;
  }
  return made;
}

static bool is_valid(ga_text text) {
  utf8proc_int32_t cp;
  for (size_t i = 0; i < text.bytes;) {
    utf8proc_ssize_t n = utf8proc_iterate((const uint8_t *)text.data + i, (utf8proc_ssize_t)(text.bytes - i), &cp);
    if (n <= 0) return false;
    i += (size_t)n;
  }
  return true;
}

/* The bytes of all that shows, with the first space gone where the kind adds one. */
static size_t visible_bytes(const ga_tokenizer *tok, const int32_t *ids, size_t n, uint32_t flags, bool strip,
                            uint8_t *out) {
  size_t made = 0;
  for (size_t i = 0; i < n; i++) {
    int32_t type = ga_tokenizer_type(tok, ids[i]);
    bool special = type == GA_TOK_CONTROL || type == GA_TOK_UNKNOWN;
    if (special && !(flags & GA_DETOK_SPECIAL)) continue;
    ga_text piece = ga_tokenizer_piece(tok, ids[i]);
    size_t skip = strip && !special && piece.bytes && *piece.data == ' ';
    if (piece.bytes) strip = false;
    memcpy(out + made, piece.data + skip, piece.bytes - skip);
    made += piece.bytes - skip;
  }
  return made;
}

static void check_stream(const ga_tokenizer *tok, const int32_t *ids, size_t n, uint32_t flags, bool strip) {
  static uint8_t raw[8192];
  static char want[24576], pushed[24576], whole[24576];
  size_t want_bytes = repair_bytes(raw, visible_bytes(tok, ids, n, flags, strip, raw), want), at = 0, whole_bytes;
  ga_detok *detok;
  assert_int_equal(ga_detok_create(tok, flags, &detok), GA_OK);
  for (int round = 0; round < 2; round++) { /* a flush is a fresh start */
    at = 0;
    for (size_t i = 0; i <= n; i++) {
      ga_text text;
      if (i < n)
        assert_int_equal(ga_detok_push(detok, ids[i], &text), GA_OK);
      else
        text = ga_detok_flush(detok);
      assert_true(is_valid(text));
      memcpy(pushed + at, text.data, text.bytes);
      at += text.bytes;
    }
    assert_int_equal(at, want_bytes);
    assert_memory_equal(pushed, want, at);
  }
  ga_detok_destroy(detok);
  assert_int_equal(ga_detokenize(tok, ids, n, flags, whole, sizeof whole, &whole_bytes), GA_OK);
  assert_int_equal(whole_bytes, want_bytes);
  assert_memory_equal(whole, want, want_bytes);
}

/* Ids of random tokens, half of them single bytes of the kind that make and break UTF-8. */
static void test_random_streams(void **state) {
  (void)state;
  static const uint8_t edges[] = {0x00, 0x20, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1,
                                  0xC2, 0xDF, 0xE0, 0xE4, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5, 0xFF};
  void (*const make[])(small_vocab *) = {make_spm, make_bpe, make_wpm};
  ga_rng rng;
  ga_rng_seed(&rng, 7);
  for (int k = 0; k < 6; k++) {
    ga_tokenizer *tok = make_small_tokenizer(make[k / 2], k % 2);
    size_t size = ga_tokenizer_size(tok);
    for (int round = 0; round < 4000; round++) {
      int32_t ids[40];
      size_t n = ga_rng_below(&rng, 40);
      for (size_t i = 0; i < n; i++) {
        uint8_t b = edges[ga_rng_below(&rng, sizeof edges)];
        bool byte = k < 4 && ga_rng_below(&rng, 2);
        ids[i] = byte ? b + (k < 2 ? 3 : 0) : (int32_t)ga_rng_below(&rng, size);
      }
      uint32_t flags = (uint32_t)ga_rng_below(&rng, 4);
      bool strip = !(flags & GA_DETOK_CONTINUE) && (k >= 4 || k == 1);
      check_stream(tok, ids, n, flags, strip);
    }
    ga_tokenizer_destroy(tok);
  }
}

static void push_token(ga_detok *detok, int32_t id, const char *want) {
  ga_text text;
  assert_int_equal(ga_detok_push(detok, id, &text), GA_OK);
  assert_int_equal(text.bytes, strlen(want));
  assert_memory_equal(text.data, want, text.bytes);
}

static void test_never_cuts(void **state) {
  (void)state;
  ga_tokenizer *tok = make_small_tokenizer(make_spm, true);
  ga_detok *detok;
  assert_int_equal(ga_detok_create(tok, 0, &detok), GA_OK);
  push_token(detok, 1, ""); /* control: hidden, and not the first text */
  push_token(detok, SPM_MARK_AB, "ab");
  push_token(detok, SPM_MARK_AB, " ab");
  push_token(detok, 3 + 0xE4, "");
  push_token(detok, 3 + 0xB8, "");
  push_token(detok, 3 + 0xAD, "\xE4\xB8\xAD");
  push_token(detok, 3 + 0xE4, "");
  push_token(detok, SPM_A,
             "\xEF\xBF\xBD"
             "a");
  push_token(detok, 3 + 0xF0, "");
  ga_text text;
  assert_int_equal(ga_detok_push(detok, -1, &text), GA_ERR_ARG);
  assert_int_equal(ga_detok_push(detok, 4000, &text), GA_ERR_ARG);
  text = ga_detok_flush(detok);
  assert_int_equal(text.bytes, 3);
  assert_memory_equal(text.data, "\xEF\xBF\xBD", 3);
  push_token(detok, SPM_MARK_AB, "ab"); /* a fresh start */
  ga_detok_destroy(detok);
  assert_int_equal(ga_detok_create(tok, GA_DETOK_SPECIAL | GA_DETOK_CONTINUE, &detok), GA_OK);
  push_token(detok, SPM_MARK_AB, " ab");
  push_token(detok, 2, "</s>");
  ga_detok_destroy(detok);
  assert_int_equal(ga_detok_create(tok, 64, &detok), GA_ERR_ARG);
  ga_detok_destroy(NULL);
  ga_tokenizer_destroy(tok);
}

/* Text comes back from its ids, where the kind keeps it. */
static void test_round_trip(void **state) {
  (void)state;
  static const char *const texts[] = {"hello w", "  a  b\n", "\xE4\xB8\xAD\xF0\x9F\x98\x80 e\xCC\x81", "",
                                      "\x01\x7F aaaaa"};
  for (int k = 0; k < 4; k++) {
    ga_tokenizer *tok = make_small_tokenizer(k < 2 ? make_spm : make_bpe, k == 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
      int32_t ids[64];
      char text[64];
      size_t n, bytes;
      assert_int_equal(ga_tokenize(tok, texts[i], strlen(texts[i]), 0, ids, 64, &n), GA_OK);
      assert_int_equal(ga_detokenize(tok, ids, n, 0, text, 64, &bytes), GA_OK);
      assert_int_equal(bytes, strlen(texts[i]));
      assert_memory_equal(text, texts[i], bytes);
    }
    ga_tokenizer_destroy(tok);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_never_cuts),
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_random_streams),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
