/* Pre-splitters against PCRE2 with the patterns they stand for, on strings drawn from the borders of their classes. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pcre2.h>

#include "base/compiler.h"
#include "base/rng.h"
#include "token/tok_split.h"
#include "token/unicode.h"

/* PCRE2's \s also holds U+180E, which is no white space since Unicode 6.3. */
#define WS                                      \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}" \
  "\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define SP     "[" WS "]"
#define SPACES "|" SP "+(?![^" WS "])|" SP "+"
#define GPT2   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+" SPACES
#define HEAD   "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?"
#define TAIL   "[\\r\\n]*|" SP "*[\\r\\n]+" SPACES

#define P      "[^\\r\\n\\p{L}\\p{N}]?"
#define U      "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define W      "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define ENDING "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define SLASH  "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]*|" SP "*[\\r\\n]+" SPACES

static const struct {
  const char *name, *first, *pattern; /* first: applied before, on its own */
} rules[] = {
    {"gpt-2", NULL, GPT2},
    {"smollm", "\\p{N}", GPT2},
    {"llama-bpe", NULL, HEAD "\\p{L}+|\\p{N}{1,3}| ?[^" WS "\\p{L}\\p{N}]+" TAIL},
    {"qwen2", NULL, HEAD "\\p{L}+|\\p{N}| ?[^" WS "\\p{L}\\p{N}]+" TAIL},
    {"qwen35", NULL, HEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^" WS "\\p{L}\\p{M}\\p{N}]+" TAIL},
    {"tekken", NULL, P U "*" W "+|" P U "+" W "*|\\p{N}" SLASH},
    {"gpt-4o", NULL, P U "*" W "+" ENDING "|" P U "+" W "*" ENDING "|\\p{N}{1,3}" SLASH},
    {"bailingmoe", NULL,
     "'(?i:[sdmt]|ll|ve|re)|" P "+\\p{L}+|\\p{N}| ?[^" WS "\\p{L}\\p{N}]++[\\r\\n]*|" SP "*[\\r\\n]" SPACES},
};

#define MOST_WORDS 512

typedef struct words {
  size_t end[MOST_WORDS];
  size_t count;
} words;

static pcre2_code *compile_pattern(const char *pattern) {
  int error;
  PCRE2_SIZE at;
  if (!pattern) return NULL;
  pcre2_code *code =
      pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
  assert_non_null(code);
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* ten times as fast; where there is none, interpreted */
  return code;
}

/* Matches and what lies between them, from `text` at `base` on. */
static void split_by(const pcre2_code *code, const pcre2_code *then, const char *text, size_t bytes, size_t base,
                     words *out) {
  pcre2_match_data *match = pcre2_match_data_create(4, NULL);
  size_t at = 0;
  while (at < bytes) {
    int rc = pcre2_match(code, (PCRE2_SPTR)text, bytes, at, PCRE2_NO_UTF_CHECK, match, NULL);
    assert_true(rc > 0 || rc == PCRE2_ERROR_NOMATCH);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
    size_t begin = rc > 0 ? span[0] : bytes, end = rc > 0 ? span[1] : bytes;
    if (begin > at) {
      if (then)
        split_by(then, NULL, text + at, begin - at, base + at, out);
      else
        out->end[out->count++] = base + begin;
    }
    if (end > begin) {
      if (then)
        split_by(then, NULL, text + begin, end - begin, base + begin, out);
      else
        out->end[out->count++] = base + end;
    }
    at = end;
  }
  pcre2_match_data_free(match);
}

static void split_by_hand(const char *name, const char *text, size_t bytes, words *out) {
  tok_split split = ga_tok_split_start(ga_tok_split_find(name), text, bytes);
  size_t expect = 0;
  for (size_t begin, end; ga_tok_split_next(&split, &begin, &end);) {
    assert_int_equal(begin, expect);
    assert_true(end > begin && end <= bytes && out->count < MOST_WORDS);
    out->end[out->count++] = expect = end;
  }
  assert_int_equal(expect, bytes);
}

/* Each class, its look-alikes in others, and what the patterns name. */
static const uint32_t alphabet[] = {
    ' ',    ' ',    ' ',    '\n',   '\r',   '\t',     0x0B,    0x0C,  0x1C,    0,      0x7F,   0x85,    0xA0,
    0x180E, 0x200B, 0x2003, 0x2028, 0x3000, '\'',     '\'',    '\'',  's',     'S',    't',    'T',     'r',
    'e',    'R',    'E',    'v',    'V',    'm',      'M',     'l',   'L',     'd',    'D',    'a',     'z',
    0x17F,  0x212A, 0x130,  0x131,  '0',    '1',      '9',     0xB2,  0xBD,    0x661,  0x2167, 0x3007,  0x1D7D8,
    0x301,  0x940,  0x903,  0x20DD, 0x4E2D, 0xAC00,   0x5D0,   0x2B0, 0x1D400, '!',    '-',    '/',     'A',
    0x1C5,  0xAA,   0xDF,   0x1E9E, '_',    '$',      '+',     '`',   0xAD,    0x2019, 0x20AC, 0x1F600, 0x1F3FD,
    0x200D, 0xFE0F, 0xE000, 0xFFFD, 0x378,  0x10FFFF, 0xE0001,
};

static size_t random_text(ga_rng *rng, char *out) {
  size_t n = 0, chars = 1 + ga_rng_below(rng, 14);
  for (size_t i = 0; i < chars; i++) {
    uint32_t cp = alphabet[ga_rng_below(rng, GA_COUNT_OF(alphabet))];
    if (ga_rng_below(rng, 16) == 0) {
      do cp = (uint32_t)ga_rng_below(rng, 0x110000);
      while (cp >= 0xD800 && cp < 0xE000);
    }
    n += (size_t)ga_utf8_encode(cp, (uint8_t *)out + n);
  }
  return n;
}

static void test_against_pcre2(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 1);
  pcre2_code *first[GA_COUNT_OF(rules)], *code[GA_COUNT_OF(rules)];
  for (size_t r = 0; r < GA_COUNT_OF(rules); r++) {
    first[r] = compile_pattern(rules[r].first);
    code[r] = compile_pattern(rules[r].pattern);
  }
  for (int round = 0; round < 120000; round++) {
    char text[64];
    size_t bytes = random_text(&rng, text);
    for (size_t r = 0; r < GA_COUNT_OF(rules); r++) {
      words ours = {.count = 0}, theirs = {.count = 0};
      split_by_hand(rules[r].name, text, bytes, &ours);
      split_by(first[r] ? first[r] : code[r], first[r] ? code[r] : NULL, text, bytes, 0, &theirs);
      assert_int_equal(ours.count, theirs.count);
      assert_memory_equal(ours.end, theirs.end, ours.count * sizeof(size_t));
    }
  }
  for (size_t r = 0; r < GA_COUNT_OF(rules); r++) {
    pcre2_code_free(first[r]);
    pcre2_code_free(code[r]);
  }
}

/* Every code point after and before letters of either case: classes agree one by one. */
static void test_every_code_point(void **state) {
  (void)state;
  static const size_t of[] = {4, 6}; /* qwen35: L, M, N and white space; gpt-4o: case */
  for (size_t i = 0; i < GA_COUNT_OF(of); i++) {
    pcre2_code *code = compile_pattern(rules[of[i]].pattern);
    for (uint32_t cp = 1; cp < 0x110000; cp++) {
      if (cp >= 0xD800 && cp < 0xE000) continue;
      char text[24];
      uint8_t utf8[5] = {0};
      utf8[ga_utf8_encode(cp, utf8)] = 0;
      size_t bytes = (size_t)snprintf(text, sizeof text, "a%sBbA%sBb", (char *)utf8, (char *)utf8);
      words ours = {.count = 0}, theirs = {.count = 0};
      split_by_hand(rules[of[i]].name, text, bytes, &ours);
      split_by(code, NULL, text, bytes, 0, &theirs);
      assert_int_equal(ours.count, theirs.count);
      assert_memory_equal(ours.end, theirs.end, ours.count * sizeof(size_t));
    }
    pcre2_code_free(code);
  }
}

/* Broken UTF-8: words still cover the text, each byte in one of them. */
static void test_broken_utf8(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 2);
  for (int round = 0; round < 100000; round++) {
    char text[96];
    size_t bytes = random_text(&rng, text), cuts = 1 + ga_rng_below(&rng, 4);
    for (size_t i = 0; i < cuts; i++) text[ga_rng_below(&rng, bytes)] = (char)ga_rng_below(&rng, 256);
    for (size_t r = 0; r < GA_COUNT_OF(rules); r++) {
      words ours = {.count = 0};
      split_by_hand(rules[r].name, text, 1 + ga_rng_below(&rng, bytes), &ours);
    }
  }
}

static void test_names(void **state) {
  (void)state;
  assert_ptr_equal(ga_tok_split_find(NULL), ga_tok_split_find("gpt-2"));
  assert_ptr_equal(ga_tok_split_find("default"), ga_tok_split_find("gpt2"));
  assert_ptr_equal(ga_tok_split_find("starcoder"), ga_tok_split_find("smollm"));
  assert_ptr_equal(ga_tok_split_find("llama3"), ga_tok_split_find("llama-bpe"));
  assert_ptr_equal(ga_tok_split_find("deepseek-r1-qwen"), ga_tok_split_find("qwen2"));
  assert_ptr_equal(ga_tok_split_find("llama4"), ga_tok_split_find("gpt-4o"));
  assert_ptr_not_equal(ga_tok_split_find("tekken"), ga_tok_split_find("gpt-4o"));
  assert_null(ga_tok_split_find("gpt"));
  assert_null(ga_tok_split_find("gpt-4"));
  assert_null(ga_tok_split_find("deepseek-v3"));
  assert_null(ga_tok_split_find("2"));
  assert_null(ga_tok_split_find(" "));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_against_pcre2),
      cmocka_unit_test(test_every_code_point),
      cmocka_unit_test(test_broken_utf8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
