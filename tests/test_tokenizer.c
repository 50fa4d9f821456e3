/* Tokenizers over vocabularies made by hand: what each merges and why is in the comments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tests/tok_vocabs.h"
#include "token/unicode.h"

static small_vocab vocab;

static ga_tokenizer *make_tokenizer(void) {
  ga_tokenizer *tok;
  assert_int_equal(ga_tokenizer_create(&vocab.v, &tok), GA_OK);
  return tok;
}

/* Ids of text[bytes] against a list that ends with -1. */
static void check_bytes(const ga_tokenizer *tok, uint32_t flags, const char *text, size_t bytes, const int32_t *want) {
  int32_t ids[256];
  size_t n, count = 0;
  while (want[count] >= 0) count++;
  assert_int_equal(ga_tokenize(tok, text, bytes, flags, ids, 256, &n), GA_OK);
  assert_int_equal(n, count);
  assert_memory_equal(ids, want, n * sizeof(int32_t));
}

#define CHECK(tok, flags, text, ...) \
  check_bytes((tok), (flags), (text), strlen(text), (const int32_t[]){__VA_ARGS__, -1})

static void test_spm_merges_by_score(void **state) {
  (void)state;
  make_spm(&vocab);
  ga_tokenizer *tok = make_tokenizer();
  CHECK(tok, 0, "abcd", SPM_ABCD);     /* ab and cd tie: the left one first; then both */
  CHECK(tok, 0, "bcd", SPM_B, SPM_CD); /* cd (-1) before bc (-2) */
  CHECK(tok, 0, "abc", SPM_AB, SPM_C); /* ab before bc */
  CHECK(tok, 0, " ab", SPM_MARK_AB);   /* the space and U+2581 are one */
  CHECK(tok, 0, MARK "ab", SPM_MARK_AB);
  CHECK(tok, 0, "aaaaaaa", SPM_AAAA, SPM_AA, SPM_A);
  CHECK(tok, 0, "\xC3\xA9", 3 + 0xC3, 3 + 0xA9); /* no such character: bytes */
  CHECK(tok, 0, "a\xFF", SPM_A, 3 + 0xEF, 3 + 0xBF, 3 + 0xBD);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "a", 1, SPM_A);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "", 1);
  check_bytes(tok, 0, "a\0b", 3, (const int32_t[]){SPM_A, 3, SPM_B, -1});
  check_bytes(tok, 0, NULL, 0, (const int32_t[]){-1});
  ga_tokenizer_destroy(tok);
}

static void test_spm_options(void **state) {
  (void)state;
  make_spm(&vocab);
  vocab.v.add_space_prefix = vocab.v.add_eos = true;
  ga_tokenizer *tok = make_tokenizer();
  CHECK(tok, GA_TOK_ADD_SPECIAL, "ab", 1, SPM_MARK_AB, 2);
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "ab<s>ab", SPM_MARK_AB, 1, SPM_MARK_AB); /* again after a special token */
  CHECK(tok, 0, "<ab>a", SPM_USER, SPM_MARK, SPM_A);                        /* user-defined: always */
  ga_tokenizer_destroy(tok);
  vocab.v.add_space_prefix = vocab.v.add_eos = false;
  vocab.v.remove_extra_whitespaces = true;
  tok = make_tokenizer();
  CHECK(tok, 0, "  a   ab ", SPM_A, SPM_MARK_AB);
  check_bytes(tok, 0, "   ", 3, (const int32_t[]){-1});
  ga_tokenizer_destroy(tok);
  make_spm(&vocab);
  int32_t spaces = add_token(&vocab, "  ", GA_TOK_USER, 0); /* true spaces: cut out, but never merged */
  tok = make_tokenizer();
  CHECK(tok, 0, "a  b", SPM_A, spaces, SPM_B);
  CHECK(tok, 0, "a" MARK MARK "b", SPM_A, SPM_MARK, SPM_MARK, SPM_B);
  ga_tokenizer_destroy(tok);
}

static void test_special_tokens(void **state) {
  (void)state;
  make_spm(&vocab);
  ga_tokenizer *tok = make_tokenizer();
  int32_t lt = 3 + '<', gt = 3 + '>', s = 3 + 's';
  CHECK(tok, 0, "<s>", lt, s, gt); /* text never makes a control token */
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "a<s>b</s>", SPM_A, 1, SPM_B, 2);
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "<s", lt, s);
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "<<s>>", lt, 1, gt);
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "<end_of_turn>", SPM_TURN);
  CHECK(tok, 0, "<ab><ab>", SPM_USER, SPM_USER);
  CHECK(tok, 0, "<ab>a<ab>aaa", SPM_USER, SPM_A, SPM_LONG, SPM_A); /* the longest of two at one place */
  assert_int_equal(ga_tokenizer_type(tok, SPM_TURN), GA_TOK_CONTROL);
  assert_true(ga_tokenizer_is_eog(tok, SPM_TURN));
  assert_true(ga_tokenizer_is_eog(tok, 2));
  assert_false(ga_tokenizer_is_eog(tok, 1));
  assert_false(ga_tokenizer_is_eog(tok, -1));
  assert_false(ga_tokenizer_is_eog(tok, 1 << 20));
  ga_tokenizer_destroy(tok);
}

/* Each token is found by its text, the first one too, whether it is a control token or a normal one. */
static void test_find(void **state) {
  (void)state;
  for (int way = 0; way < 3; way++) {
    if (way == 0)
      make_spm(&vocab);
    else
      make_wpm(&vocab);
    if (way == 2) {
      vocab.tokens[0] = (ga_text){"zero", 4};
      vocab.types[0] = GA_TOK_NORMAL;
      vocab.v.pad = GA_TOK_NONE;
    }
    ga_tokenizer *tok = make_tokenizer();
    for (int32_t id = 0; id < (int32_t)ga_tokenizer_size(tok); id++) {
      const ga_text piece = ga_tokenizer_piece(tok, id);
      const int32_t found = ga_tokenizer_find(tok, piece.data, piece.bytes);
      const ga_text same = ga_tokenizer_piece(tok, found);
      if (ga_tokenizer_type(tok, id) == GA_TOK_BYTE) continue; /* a piece of that byte may stand for it */
      if (found != id) fail_msg("way %d: token %d is found as %d, '%.*s'", way, id, found, (int)same.bytes, same.data);
    }
    assert_int_equal(ga_tokenizer_find(tok, "nothing", 7), GA_TOK_NONE);
    ga_tokenizer_destroy(tok);
  }
}

static void test_bpe_merges_by_rank(void **state) {
  (void)state;
  make_bpe(&vocab);
  ga_tokenizer *tok = make_tokenizer();
  CHECK(tok, 0, "hello", BPE_HELLO);
  CHECK(tok, 0, "llo", BPE_LL, 'o');                              /* l l (1) before l o (5) */
  CHECK(tok, 0, "lllo", BPE_LL, BPE_LO);                          /* the left of two equal merges */
  CHECK(tok, 0, "a w", 'a', BPE_W);                               /* the space goes with the word behind it */
  CHECK(tok, 0, "a   w", 'a', ' ', BPE_USER);                     /* the user-defined "  w" is cut out first */
  assert_int_equal(ga_tokenizer_find(tok, "  w", 3), BPE_SPACES); /* normal before user-defined */
  CHECK(tok, 0, "xyz", 'x', 'y', 'z');                            /* a token that no merge makes */
  CHECK(tok, 0, "\xC3\xA9", 0xC3, 0xA9);
  CHECK(tok, 0, "\xE4\xB8", 0xEF, 0xBF, 0xBD); /* one broken part, one U+FFFD */
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "he<|im_end|>", BPE_HE, BPE_CONTROL);
  assert_true(ga_tokenizer_is_eog(tok, BPE_CONTROL));
  ga_tokenizer_destroy(tok);
  vocab.v.ignore_merges = true;
  tok = make_tokenizer();
  CHECK(tok, 0, "xyz", BPE_XYZ);
  ga_tokenizer_destroy(tok);
}

static void test_wpm_longest_match(void **state) {
  (void)state;
  make_wpm(&vocab);
  ga_tokenizer *tok = make_tokenizer();
  CHECK(tok, 0, "unaffable", WPM_UN, WPM_AFF, WPM_ABLE);
  CHECK(tok, 0, "UNaff,\tun", WPM_UN, WPM_AFF, WPM_COMMA, WPM_UN);
  CHECK(tok, 0, "un\xE4\xB8\xADun", WPM_UN, WPM_HAN, WPM_UN); /* ideographs stand alone */
  CHECK(tok, 0, "\xC3\x89s e\xCC\x81", WPM_E, WPM_S, WPM_E);  /* accents go, whole or combining */
  CHECK(tok, 0, "s", WPM_UNK);              /* a continuation starts no word, not even behind a bare U+2581 */
  CHECK(tok, 0, "unx un", WPM_UNK, WPM_UN); /* one part unknown: the word is */
  CHECK(tok, 0, "u\xEF\xBF\xBDn\x07\xC2\xAD un\xFF", WPM_UN, WPM_UN); /* dropped: U+FFFD, controls, soft hyphen */
  CHECK(tok, GA_TOK_ADD_SPECIAL, "un", WPM_CLS, WPM_UN, WPM_SEP);
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "un[SEP]un", WPM_UN, WPM_SEP, WPM_UN);
  CHECK(tok, 0, "[SEP]", WPM_UNK, WPM_UNK, WPM_UNK);
  char word[102];
  memset(word, 'a', sizeof word);
  int32_t want[102] = {WPM_A};
  for (int i = 1; i < 100; i++) want[i] = WPM_AA;
  want[100] = -1;
  check_bytes(tok, 0, word, 100, want);
  check_bytes(tok, 0, word, 101, (const int32_t[]){WPM_UNK, -1}); /* too long, as in BERT */
  ga_tokenizer_destroy(tok);
  vocab.v.cased = true;
  tok = make_tokenizer();
  CHECK(tok, 0, "un UN \xC3\xA9", WPM_UN, WPM_UNK, WPM_UNK);
  ga_tokenizer_destroy(tok);
}

static void test_queries(void **state) {
  (void)state;
  make_spm(&vocab);
  ga_tokenizer *tok = make_tokenizer();
  assert_int_equal(ga_tokenizer_size(tok), vocab.v.n_tokens);
  assert_int_equal(ga_tokenizer_kind(tok), GA_TOK_SPM);
  ga_text piece = ga_tokenizer_piece(tok, SPM_MARK_AB);
  assert_int_equal(piece.bytes, 3);
  assert_memory_equal(piece.data, " ab", 3);
  piece = ga_tokenizer_piece(tok, 3 + 0x41);
  assert_true(piece.bytes == 1 && *piece.data == 0x41);
  assert_int_equal(ga_tokenizer_piece(tok, -1).bytes, 0);
  assert_int_equal(ga_tokenizer_piece(tok, 1 << 20).bytes, 0);
  assert_int_equal(ga_tokenizer_find(tok, " ab", 3), SPM_MARK_AB);
  assert_int_equal(ga_tokenizer_find(tok, "<s>", 3), 1);
  assert_int_equal(ga_tokenizer_find(tok, "A", 1), 3 + 'A');
  assert_int_equal(ga_tokenizer_find(tok, "nothing", 7), GA_TOK_NONE);
  assert_int_equal(ga_tokenizer_type(tok, 1), GA_TOK_CONTROL);
  assert_int_equal(ga_tokenizer_type(tok, 4000), 0);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_EOS), 2);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_PAD), GA_TOK_NONE);
  assert_true(ga_tokenizer_adds_bos(tok) && !ga_tokenizer_adds_eos(tok));
  assert_true(ga_tokenizer_pre_known("llama-bpe") && ga_tokenizer_pre_known("starcoder"));
  assert_false(ga_tokenizer_pre_known("llama") || ga_tokenizer_pre_known("") || ga_tokenizer_pre_known("gpt-2 gpt2"));
  ga_tokenizer_destroy(tok);
}

static void test_capacity(void **state) {
  (void)state;
  make_bpe(&vocab);
  ga_tokenizer *tok = make_tokenizer();
  int32_t ids[4] = {-7, -7, -7, -7};
  size_t n = 99;
  assert_int_equal(ga_tokenize(tok, "abc", 3, 0, ids, 2, &n), GA_ERR_SHAPE);
  assert_int_equal(n, 3);
  assert_int_equal(ids[0], -7);
  assert_int_equal(ga_tokenize(tok, "abc", 3, 0, NULL, 0, &n), GA_ERR_SHAPE);
  assert_int_equal(ga_tokenize(tok, "abc", 3, 0, ids, 3, &n), GA_OK);
  assert_int_equal(ids[3], -7);
  assert_int_equal(ga_tokenize(tok, "abc", 3, 8, ids, 3, &n), GA_ERR_ARG);
  assert_int_equal(n, 0);
  assert_int_equal(ga_tokenize(tok, NULL, 3, 0, ids, 3, &n), GA_ERR_ARG);
  char text[3] = "xyz";
  size_t bytes;
  assert_int_equal(ga_detokenize(tok, ids, 3, 0, text, 2, &bytes), GA_ERR_SHAPE);
  assert_int_equal(bytes, 3);
  assert_memory_equal(text, "xyz", 3);
  assert_int_equal(ga_detokenize(tok, ids, 3, 0, text, 3, &bytes), GA_OK);
  assert_memory_equal(text, "abc", 3);
  ids[1] = 5000;
  assert_int_equal(ga_detokenize(tok, ids, 3, 0, text, 3, &bytes), GA_ERR_ARG);
  ga_tokenizer_destroy(tok);
}

/* By id, by a known name, or not there; a word of text is no such token. */
static void test_fill_in_the_middle(void **state) {
  (void)state;
  ga_tokenizer *tok;
  int32_t fim[6] = {GA_TOK_NONE, 6, GA_TOK_NONE, GA_TOK_NONE, GA_TOK_NONE, GA_TOK_NONE};
  make_spm(&vocab);
  vocab.tokens[3] = (ga_text){"<|fim_prefix|>", 14}, vocab.types[3] = GA_TOK_CONTROL;
  vocab.tokens[4] = (ga_text){"<fim_middle>", 12}, vocab.types[4] = GA_TOK_USER;
  vocab.tokens[5] = (ga_text){"<|fim_pad|>", 11}, vocab.types[5] = GA_TOK_NORMAL;
  vocab.tokens[7] = (ga_text){"<fim_suffix>", 12}, vocab.types[7] = GA_TOK_CONTROL;
  for (int with_ids = 0; with_ids < 2; with_ids++) {
    vocab.v.fim = with_ids ? fim : NULL;
    assert_int_equal(ga_tokenizer_create(&vocab.v, &tok), GA_OK);
    assert_int_equal(ga_tokenizer_special(tok, GA_TOK_FIM_PREFIX), 3);
    assert_int_equal(ga_tokenizer_special(tok, GA_TOK_FIM_SUFFIX), with_ids ? 6 : 7);
    assert_int_equal(ga_tokenizer_special(tok, GA_TOK_FIM_MIDDLE), 4);
    for (int i = GA_TOK_FIM_PAD; i <= GA_TOK_FIM_FILE; i++)
      assert_int_equal(ga_tokenizer_special(tok, (ga_tok_special)i), GA_TOK_NONE);
    assert_int_equal(ga_tokenizer_special(tok, (ga_tok_special)(GA_TOK_FIM_FILE + 1)), GA_TOK_NONE);
    ga_tokenizer_destroy(tok);
  }
}

static void refuse_vocab(ga_status want) {
  ga_tokenizer *tok = (ga_tokenizer *)&vocab;
  assert_int_equal(ga_tokenizer_create(&vocab.v, &tok), want);
  assert_null(tok);
  assert_true(strlen(ga_error_text()) > 0);
}

static void test_bad_vocabularies(void **state) {
  (void)state;
#define REFUSE(make, change, status) \
  do {                               \
    make(&vocab);                    \
    change;                          \
    refuse_vocab(status);            \
  } while (0)
  REFUSE(make_bpe, vocab.v.struct_size = 1, GA_ERR_ARG);
  REFUSE(make_bpe, vocab.v.kind = (ga_tok_kind)9, GA_ERR_UNSUPPORTED);
  REFUSE(make_bpe, vocab.v.pre = "no-such", GA_ERR_UNSUPPORTED);
  REFUSE(make_bpe, vocab.v.n_tokens = 0, GA_ERR_SHAPE);
  REFUSE(make_bpe, vocab.v.n_tokens = (size_t)1 << 25, GA_ERR_SHAPE);
  REFUSE(make_bpe, vocab.v.n_merges = (size_t)1 << 40, GA_ERR_SHAPE);
  REFUSE(make_bpe, vocab.v.tokens = NULL, GA_ERR_ARG);
  REFUSE(make_bpe, vocab.v.merges = NULL, GA_ERR_ARG);
  REFUSE(make_bpe, vocab.v.bos = (int32_t)vocab.v.n_tokens, GA_ERR_ARG);
  REFUSE(make_spm, vocab.v.mask = -2, GA_ERR_ARG);
  REFUSE(make_spm, vocab.v.n_eog = 1, GA_ERR_ARG);
  static const int32_t no_token[6] = {-1, -1, -1, -1, -1, 1 << 20};
  REFUSE(make_spm, vocab.v.fim = no_token, GA_ERR_ARG);
  REFUSE(make_spm, vocab.types[5] = 7, GA_ERR_FORMAT);
  REFUSE(make_spm, vocab.tokens[5].data = NULL, GA_ERR_ARG);
  REFUSE(make_spm, vocab.tokens[5].bytes = SIZE_MAX, GA_ERR_SHAPE);
  REFUSE(make_bpe, vocab.merges[1] = ((ga_text){"ab", 2}), GA_ERR_FORMAT);
  REFUSE(make_bpe, vocab.merges[1] = ((ga_text){"", 0}), GA_ERR_FORMAT);
  ga_tokenizer *tok;
  assert_int_equal(ga_tokenizer_create(NULL, &tok), GA_ERR_ARG);
  ga_tokenizer_destroy(NULL);
}

/* Texts long enough for the cache of words, with more words than it has room for, against the words one by one. */
static void test_word_cache(void **state) {
  (void)state;
  enum { WORDS = 40000, BYTES = 6 };
  void (*const make[])(small_vocab *) = {make_spm, make_bpe, make_wpm};
  char *text = malloc(WORDS * BYTES);
  int32_t *ids = malloc(WORDS * BYTES * sizeof(int32_t)), word[BYTES];
  assert_true(text && ids);
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  for (int i = 0; i < WORDS * BYTES; i++) text[i] = i % BYTES ? "abcdehlouns"[ga_rng_below(&rng, 11)] : ' ';
  for (int k = 0; k < 3; k++) {
    make[k](&vocab);
    ga_tokenizer *tok = make_tokenizer();
    size_t n, m, at = 0;
    assert_int_equal(ga_tokenize(tok, text, WORDS * BYTES, 0, ids, WORDS * BYTES, &n), GA_OK);
    for (int i = 0; i < WORDS; i++, at += m) {
      assert_int_equal(ga_tokenize(tok, text + i * BYTES, BYTES, 0, word, BYTES, &m), GA_OK);
      assert_true(m <= n - at);
      assert_memory_equal(ids + at, word, m * sizeof(int32_t));
    }
    assert_int_equal(at, n);
    ga_tokenizer_destroy(tok);
  }
  free(ids);
  free(text);
}

/* One word of 2^20 equal letters: quadratic time would be minutes. */
static void test_long_word(void **state) {
  (void)state;
  size_t bytes = (size_t)1 << 20, n;
  char *text = malloc(bytes);
  int32_t *ids = malloc(bytes * sizeof(int32_t));
  assert_true(text && ids);
  memset(text, 'a', bytes);
  void (*const make[])(small_vocab *) = {make_spm, make_bpe, make_wpm};
  for (int k = 0; k < 3; k++) {
    make[k](&vocab);
    ga_tokenizer *tok = make_tokenizer();
    assert_int_equal(ga_tokenize(tok, text, bytes, 0, ids, bytes, &n), GA_OK);
    assert_int_equal(n, k == 2 ? 1 : bytes / 4);
    assert_int_equal(ids[n - 1], k == 0 ? SPM_AAAA : k == 1 ? BPE_AAAA : WPM_UNK);
    ga_tokenizer_destroy(tok);
  }
  free(ids);
  free(text);
}

/* Every allocation in turn fails: an error, nothing leaked (under ASan), then success. */
static void test_out_of_memory(void **state) {
  (void)state;
  static char text[6000];
  for (size_t i = 0; i < sizeof text; i++) text[i] = "hello ab\xFF un \xC3\xA9"[i % 16];
  static int32_t ids[20000];
  void (*const make[])(small_vocab *) = {make_spm, make_bpe, make_wpm};
  for (int k = 0; k < 3; k++) {
    make[k](&vocab);
    ga_tokenizer *tok = NULL;
    ga_status status = GA_ERR_NOMEM;
    for (long i = 1; status != GA_OK; i++) {
      ga_mem_fail_after(i);
      status = ga_tokenizer_create(&vocab.v, &tok);
      assert_true(status == GA_OK || (status == GA_ERR_NOMEM && !tok));
    }
    size_t n;
    status = GA_ERR_NOMEM;
    for (long i = 1; status != GA_OK; i++) {
      ga_mem_fail_after(i);
      status = ga_tokenize(tok, text, sizeof text, 0, ids, 20000, &n);
      assert_true(status == GA_OK || (status == GA_ERR_NOMEM && n == 0));
    }
    ga_detok *detok;
    ga_mem_fail_after(1);
    assert_int_equal(ga_detok_create(tok, 0, &detok), GA_ERR_NOMEM);
    assert_null(detok);
    ga_mem_fail_after(0);
    ga_tokenizer_destroy(tok);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_spm_merges_by_score),
      cmocka_unit_test(test_spm_options),
      cmocka_unit_test(test_special_tokens),
      cmocka_unit_test(test_find),
      cmocka_unit_test(test_bpe_merges_by_rank),
      cmocka_unit_test(test_wpm_longest_match),
      cmocka_unit_test(test_queries),
      cmocka_unit_test(test_capacity),
      cmocka_unit_test(test_fill_in_the_middle),
      cmocka_unit_test(test_bad_vocabularies),
      cmocka_unit_test(test_word_cache),
      cmocka_unit_test(test_long_word),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
