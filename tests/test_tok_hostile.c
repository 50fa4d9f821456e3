/* Vocabularies and texts that are made to be slow. Each case takes a fraction of a second, or minutes where time grows
 * with the square of the input; the limit stands far from both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ga/tokenizer.h"

#define LIMIT_SECONDS 20

static double cpu_seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A vocabulary of bytes, in whose place `n_more` tokens may follow. */
static ga_tokenizer *tokenizer_of(const ga_text *more, const int32_t *types, size_t n_more) {
  const size_t n = 257 + n_more;
  ga_text *tokens = calloc(n, sizeof *tokens);
  int32_t *type = calloc(n, sizeof *type);
  float *scores = calloc(n, sizeof *scores);
  static char names[256][8];
  tokens[0] = (ga_text){"<unk>", 5};
  type[0] = GA_TOK_UNKNOWN;
  for (int b = 0; b < 256; b++) {
    (void)snprintf(names[b], sizeof names[b], "<0x%02X>", (unsigned)b);
    tokens[1 + b] = (ga_text){names[b], 6};
    type[1 + b] = GA_TOK_BYTE;
  }
  for (size_t i = 0; i < n_more; i++) {
    tokens[257 + i] = more[i];
    type[257 + i] = types ? types[i] : GA_TOK_NORMAL;
  }
  ga_vocab v = GA_VOCAB_INIT;
  v.kind = GA_TOK_SPM;
  v.tokens = tokens;
  v.types = type;
  v.scores = scores;
  v.n_tokens = n;
  v.unk = 0;
  ga_tokenizer *tok;
  assert_int_equal(ga_tokenizer_create(&v, &tok), GA_OK);
  free(tokens);
  free(type);
  free(scores);
  return tok;
}

/* A control token of L letters a and one b; a text of 2 L letters a: at each of them L letters match. */
static void test_long_control_token(void **state) {
  (void)state;
  const size_t length = 400000;
  char *name = malloc(length + 1), *text = malloc(2 * length);
  int32_t *ids = malloc(2 * length * sizeof *ids);
  memset(name, 'a', length);
  name[length] = 'b';
  memset(text, 'a', 2 * length);
  const ga_text control = {name, length + 1};
  const int32_t type = GA_TOK_CONTROL;
  const double start = cpu_seconds();
  ga_tokenizer *tok = tokenizer_of(&control, &type, 1);
  size_t n = 0;
  assert_int_equal(ga_tokenize(tok, text, 2 * length, GA_TOK_PARSE_SPECIAL, ids, 2 * length, &n), GA_OK);
  assert_int_equal(n, 2 * length);
  text[2 * length - 1] = 'b';
  assert_int_equal(ga_tokenize(tok, text, 2 * length, GA_TOK_PARSE_SPECIAL, ids, 2 * length, &n), GA_OK);
  assert_int_equal(n, length - 1 + 1);
  assert_int_equal(ids[n - 1], 257);
  assert_true(cpu_seconds() - start < LIMIT_SECONDS);
  ga_tokenizer_destroy(tok);
  free(name);
  free(text);
  free(ids);
}

/* Tokens within tokens: a, aa, aaa, ... of which all end at each letter. */
static void test_nested_control_tokens(void **state) {
  (void)state;
  enum { TOKENS = 1000, LETTERS = 1000000 };
  static char name[TOKENS];
  memset(name, 'a', sizeof name);
  ga_text *more = malloc(TOKENS * sizeof *more);
  int32_t *types = malloc(TOKENS * sizeof *types), *ids = malloc(LETTERS * sizeof *ids);
  char *text = malloc(LETTERS);
  memset(text, 'a', LETTERS);
  for (int i = 0; i < TOKENS; i++) {
    more[i] = (ga_text){name, (size_t)i + 1};
    types[i] = GA_TOK_USER;
  }
  const double start = cpu_seconds();
  ga_tokenizer *tok = tokenizer_of(more, types, TOKENS);
  size_t n = 0;
  assert_int_equal(ga_tokenize(tok, text, LETTERS, 0, ids, LETTERS, &n), GA_OK);
  assert_int_equal(n, LETTERS / TOKENS);
  for (size_t i = 0; i < n; i++) assert_int_equal(ids[i], 257 + TOKENS - 1);
  assert_true(cpu_seconds() - start < LIMIT_SECONDS);
  ga_tokenizer_destroy(tok);
  free(more);
  free(types);
  free(ids);
  free(text);
}

/* Multiplication by an odd number and x ^ x >> 29, which a table of tokens once hashed by, can be run backwards: these
 * tokens of 16 bytes all had one hash. */
static uint64_t old_mix(uint64_t h) {
  h *= 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

static void test_forged_tokens(void **state) {
  (void)state;
  enum { TOKENS = 200000 };
  char(*names)[16] = malloc(TOKENS * sizeof *names);
  ga_text *more = malloc(TOKENS * sizeof *more);
  size_t n = 0;
  for (uint64_t first = 0x4141414141414141u; n < TOKENS; first += 0x10001) {
    const uint64_t last = old_mix(16 ^ first);
    const uint32_t high = (uint32_t)(last >> 32), low = (uint32_t)last;
    memcpy(names[n], &first, 8);
    memcpy(names[n] + 8, &high, 4);
    memcpy(names[n] + 12, &low, 4);
    more[n] = (ga_text){names[n], 16};
    if (!memchr(names[n], ' ', 16)) n++; /* with a space it could only be cut out */
  }
  const double start = cpu_seconds();
  ga_tokenizer *tok = tokenizer_of(more, NULL, TOKENS);
  for (int i = 0; i < TOKENS; i++) assert_true(ga_tokenizer_find(tok, names[i], 16) >= 257);
  assert_true(cpu_seconds() - start < LIMIT_SECONDS);
  ga_tokenizer_destroy(tok);
  free(names);
  free(more);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_long_control_token),
      cmocka_unit_test(test_nested_control_tokens),
      cmocka_unit_test(test_forged_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
