/* JSON text: what is read is what jansson reads, mutated texts too, and every allocation may fail. */
#include <dirent.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/alloc_faults.h"
#include "text/json_io.h"

static const size_t flag_sets[] = {0, JSON_REJECT_DUPLICATES, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                                   JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_REJECT_DUPLICATES};

/* Both writers give the same bytes. */
static void check_same_dump(const json_t *value) {
  static const size_t styles[] = {JSON_ENCODE_ANY, JSON_ENCODE_ANY | JSON_COMPACT, JSON_ENCODE_ANY | JSON_INDENT(2),
                                  JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6), JSON_COMPACT};
  for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
    char *want = json_dumps(value, styles[i]), *got = ga_json_dump(value, styles[i]);
    if (want)
      assert_string_equal(got, want);
    else
      assert_null(got);
    free(want);
    free(got);
  }
}

/* Both readers take the text, with equal values, or neither does. */
static bool check_same_json(const char *text, size_t n, size_t flags) {
  json_error_t e, ours;
  json_t *want = json_loadb(text, n, flags, &e), *got = ga_json_load(text, n, flags, &ours);
  const bool same = want ? got && json_equal(want, got) : !got;
  if (!same)
    fail_msg("flags %zu, '%.*s': %s, must be %s", flags, (int)(n < 300 ? n : 300), text, got ? "taken" : ours.text,
             want ? "as jansson reads it" : e.text);
  if (!got) assert_true(ours.text[0] && ours.line >= 1 && json_error_code(&ours) != json_error_out_of_memory);
  if (got) check_same_dump(got);
  json_decref(want);
  json_decref(got);
  return want != NULL;
}

static void check_all_flags(const char *text, size_t n) {
  for (size_t i = 0; i < sizeof flag_sets / sizeof *flag_sets; i++) (void)check_same_json(text, n, flag_sets[i]);
}

static void test_json_texts(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      " ",
                                      "{}",
                                      "[]",
                                      " [ ] ",
                                      "[1,]",
                                      "[,1]",
                                      "[1 2]",
                                      "{\"a\":1,}",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{a:1}",
                                      "{\"a\":1 \"b\":2}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":1,\"\\u0061\":2}",
                                      "{\"\":1}",
                                      "[",
                                      "{",
                                      "\"",
                                      "\"a",
                                      "[\"a]",
                                      "[1",
                                      "{\"a\":1",
                                      "nul",
                                      "null",
                                      "nullx",
                                      "[true,false,null]",
                                      "[tru]",
                                      "0",
                                      "-0",
                                      "-",
                                      "01",
                                      "[00]",
                                      "[1.]",
                                      "[.5]",
                                      "[1.5e]",
                                      "[1e+]",
                                      "[1e5,1E-5,-1.25e+3,0.1,0.30000000000000004]",
                                      "[1e400]",
                                      "[-1e400]",
                                      "[1e-400]",
                                      "[9223372036854775807]",
                                      "[9223372036854775808]",
                                      "[-9223372036854775808]",
                                      "[-9223372036854775809]",
                                      "[+1]",
                                      "[0x1]",
                                      "[NaN]",
                                      "[Infinity]",
                                      "[1]x",
                                      "[1] ",
                                      "[1]\n[2]",
                                      "\"\\u00e9\\n\\t\\b\\f\\r\\\\\\/\\\"\"",
                                      "\"\\u12\"",
                                      "\"\\x\"",
                                      "\"\\ud83d\\ude00\"",
                                      "\"\\ud83d\"",
                                      "\"\\ud83dx\"",
                                      "\"\\ud83d\\u0041\"",
                                      "\"\\ude00\"",
                                      "\"\\u0000\"",
                                      "{\"\\u0000\":1}",
                                      "{\"a\\u0000b\":1}",
                                      "[\"a\\u0000b\"]",
                                      "\"a\nb\"",
                                      "\"a\tb\"",
                                      "\"\x7f\"",
                                      "\"\xc3\xa9\"",
                                      "\"\xc3\"",
                                      "\"\xc0\x80\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\"",
                                      "\"\xf0\x9f\x98\x80\"",
                                      "\"\xe0\x80\x80\"",
                                      "\"\\",
                                      "\"\\u",
                                      "\xef\xbb\xbf{}",
                                      "[\"\\\xc3\xa9\"]",
                                      "/* x */ []",
                                      "['a']",
                                      "\f[]",
                                      "[1\x0b]"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check_all_flags(texts[i], strlen(texts[i]));
  check_all_flags("\"a\0\"", 4);
  assert_null(ga_json_load("[1\0]", 4, 0, NULL)); /* jansson passes over the NUL */
  assert_null(ga_json_load("[]\0", 3, 0, NULL));
}

static void test_deep_texts(void **state) {
  (void)state;
  enum { MOST = GA_JSON_DEPTH + 2 };
  char text[2 * MOST];
  for (size_t depth = GA_JSON_DEPTH - 1; depth <= MOST; depth++) {
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    assert_int_equal(check_same_json(text, 2 * depth, 0), depth <= GA_JSON_DEPTH);
  }
}

static void test_error_places(void **state) {
  (void)state;
  json_error_t e;
  assert_null(ga_json_load("{\n \"\xc3\xa9\": x}", 11, 0, &e));
  assert_true(e.line == 2 && e.column == 7 && e.position == 9);
  assert_null(ga_json_load("[1,\n", 4, 0, &e));
  assert_true(e.line == 2 && e.position == 4 && json_error_code(&e) == json_error_premature_end_of_input);
  assert_null(ga_json_load("{\"a\":1,\"a\":2}", 13, JSON_REJECT_DUPLICATES, &e));
  assert_int_equal(json_error_code(&e), json_error_duplicate_key);
  assert_null(ga_json_load_file("/nonexistent/x.json", 0, &e));
  assert_int_equal(json_error_code(&e), json_error_cannot_open_file);
  assert_null(ga_json_load_file("/", 0, &e));
  assert_null(ga_json_load_file("/dev/zero", 0, &e));
}

/* One to four bytes changed, dropped, doubled, or swapped for what JSON is made of. */
static size_t mutate_text(ga_rng *rng, char *text, size_t n, size_t room) {
  static const char marks[] = "{}[],:\"\\u0019e-+. \ntnf";
  for (uint64_t k = ga_rng_u64(rng) % 4 + 1; k-- && n;) {
    const size_t at = ga_rng_u64(rng) % n;
    switch (ga_rng_u64(rng) % 4) {
    case 0: text[at] = (char)ga_rng_u64(rng); break;
    case 1: text[at] = marks[ga_rng_u64(rng) % (sizeof marks - 1)]; break;
    case 2: memmove(text + at, text + at + 1, --n - at); break;
    default:
      if (n < room) memmove(text + at + 1, text + at, n++ - at);
    }
  }
  return n;
}

static void check_seed(const char *path, ga_rng *rng, long *taken, long *refused) {
  enum { ROOM = 1 << 16, TIMES = 60 };
  static char seed[ROOM], text[ROOM];
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  const size_t n = fread(seed, 1, ROOM - 8, f);
  (void)fclose(f);
  for (int i = 0; i < TIMES; i++) {
    memcpy(text, seed, n);
    const size_t bytes = i ? mutate_text(rng, text, n, ROOM) : n;
    *(check_same_json(text, bytes, flag_sets[i % 4]) ? taken : refused) += 1;
  }
}

static void test_mutated_texts(void **state) {
  (void)state;
  static const char *const folders[] = {"serve_body", "hf_config", "tok_json", "tool_calls"};
  long taken = 0, refused = 0;
  ga_rng rng;
  ga_rng_seed(&rng, 1);
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    char folder[1024], path[2048];
    (void)snprintf(folder, sizeof folder, "%s/fuzz/corpus/%s", GA_TEST_DIR, folders[i]);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
      if (entry->d_name[0] == '.') continue;
      (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
      check_seed(path, &rng, &taken, &refused);
    }
    closedir(dir);
  }
  print_message("%ld texts taken, %ld refused\n", taken, refused);
  assert_true(taken > 100 && refused > 1000);
}

static void test_locale_is_ignored(void **state) {
  (void)state;
  const bool set = setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL;
  json_t *v = ga_json_load("[1.5]", 5, 0, NULL);
  assert_true(json_real_value(json_array_get(v, 0)) > 1.4);
  char *text = ga_json_dump(v, JSON_COMPACT);
  assert_string_equal(text, "[1.5]");
  free(text);
  json_decref(v);
  if (set) (void)setlocale(LC_NUMERIC, "C");
}

/* --- memory --- */

/* A text with all there is, strings that jansson's buffer would grow for, and a long key. */
static char *full_text(size_t *n) {
  enum { LONG = 70000 };
  char *text = malloc(3 * LONG + 1000);
  assert_non_null(text);
  *n = (size_t)sprintf(text, "{\"a\":[1,2.5,-3e4,true,false,null,\"\",{\"b\":{}},[],NaN,99999999999999999999],"
                             "\"\\u00e9\":\"\\ud83d\\ude00 x\",\"long\":\"");
  memset(text + *n, 'a', LONG);
  *n += LONG;
  *n += (size_t)sprintf(text + *n, "\",\"escaped\":\"\\n");
  memset(text + *n, 'b', LONG);
  *n += LONG;
  *n += (size_t)sprintf(text + *n, "\",\"");
  memset(text + *n, 'k', LONG);
  *n += LONG;
  *n += (size_t)sprintf(text + *n,
                        "\":0.1234567890123456789012345678901234567890123456789012345678901234567890123,"
                        "\"c\":1,\"d\":2,\"e\":3,\"f\":4,\"g\":5,\"h\":6,\"i\":7,\"j\":[1,2,3,4,5,6,7,8,9,10]}");
  return text;
}

static long fail_loads(const char *text, size_t n, const json_t *want, bool and_later) {
  long k = 1;
  for (bool done = false; !done; k++) {
    json_error_t e;
    faults_after(k, and_later);
    json_t *v = ga_json_load(text, n, JSON_REJECT_DUPLICATES | GA_JSON_PYTHON, &e);
    done = !atomic_load(&faults_made);
    faults_after(0, false);
    if (done)
      assert_true(v && json_equal(v, want));
    else
      assert_true(!v && json_error_code(&e) == json_error_out_of_memory);
    json_decref(v);
  }
  return k;
}

static long fail_dumps(const json_t *v, const char *want, bool and_later) {
  long k = 1;
  for (bool done = false; !done; k++) {
    faults_after(k, and_later);
    char *text = ga_json_dump(v, JSON_COMPACT);
    done = !atomic_load(&faults_made);
    faults_after(0, false);
    if (done || text) assert_string_equal(text, want);
    free(text);
  }
  return k;
}

static long fail_copies(const json_t *v, bool and_later) {
  long k = 1;
  for (bool done = false; !done; k++) {
    faults_after(k, and_later);
    json_t *copy = ga_json_copy(v);
    done = !atomic_load(&faults_made);
    faults_after(0, false);
    assert_int_equal(copy != NULL, done);
    if (done) assert_true(json_equal(copy, v));
    json_decref(copy);
  }
  return k;
}

static void test_json_memory_runs_out(void **state) {
  (void)state;
  size_t n;
  char *text = full_text(&n);
  json_t *v = ga_json_load(text, n, GA_JSON_PYTHON, NULL);
  char *dumped = ga_json_dump(v, JSON_COMPACT);
  assert_true(v && dumped);
  for (int later = 0; later < 2; later++)
    print_message("%ld allocations to read, %ld to write, %ld to copy\n", fail_loads(text, n, v, later),
                  fail_dumps(v, dumped, later), fail_copies(v, later));
  free(dumped);
  json_decref(v);
  free(text);
}

/* jansson's writer leaves out a key that found no memory; ours gives nothing. */
static void test_no_key_is_lost(void **state) {
  (void)state;
  char key[5000];
  memset(key, 'k', sizeof key - 1);
  key[sizeof key - 1] = 0;
  json_t *v = json_object();
  assert_int_equal(json_object_set_new(v, key, json_integer(1)), 0);
  char *want = ga_json_dump(v, JSON_COMPACT);
  (void)fail_dumps(v, want, false);
  free(want);
  json_decref(v);
}

/* --- JSON as Python writes it --- */

/* Reads a text with GA_JSON_PYTHON; a refused text is "refused". */
static void check_python(const char *text, const char *want) {
  json_error_t e;
  assert_null(ga_json_load(text, strlen(text), 0, &e)); /* plain JSON has none of it */
  json_t *v = ga_json_load(text, strlen(text), GA_JSON_PYTHON, &e);
  char *got = v ? ga_json_dump(v, JSON_COMPACT) : NULL;
  assert_string_equal(v ? got : "refused", want);
  json_t *copy = ga_json_copy(v);
  char *again = ga_json_dump(copy, JSON_COMPACT);
  if (v) assert_string_equal(again, got);
  free(again);
  free(got);
  json_decref(copy);
  json_decref(v);
}

static void test_numbers_of_python(void **state) {
  (void)state;
  check_python("[18446744073709551615]", "[18446744073709551615]");
  check_python("[-9223372036854775809, 9223372036854775807]", "[-9223372036854775809,9223372036854775807]");
  check_python("{\"a\":1000000000000000019884624838656}", "{\"a\":1000000000000000019884624838656}");
  check_python("[NaN, Infinity, -Infinity, 1]", "[NaN,Infinity,-Infinity,1]");
  check_python("[1e999, -1e999]", "[Infinity,-Infinity]");
  check_python("{\"a\\u0000b\":\"\\u0000\"}", "{\"a\\u0000b\":\"\\u0000\"}");
  static const char *const bad[] = {"[Inf]", "[-NaN]", "[+Infinity]", "[Infinit]", "[nan]", "[- Infinity]", "[--1]"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) check_python(bad[i], "refused");
  char long_one[4400];
  for (int digits = 4300; digits <= 4301; digits++) {
    (void)snprintf(long_one, sizeof long_one, "[-%0*d]", digits, 0);
    long_one[2] = '7';
    check_python(long_one, digits > 4300 ? "refused" : long_one);
  }
}

static void test_wide_numbers(void **state) {
  (void)state;
  json_t *v = ga_json_load("[18446744073709551615,NaN,1,1.5,\"NaN\",{},{\"a\":\"b\"},null]", 56, GA_JSON_PYTHON, NULL);
  char *finite = ga_json_dump(v, JSON_COMPACT | GA_JSON_FINITE);
  assert_string_equal(finite, "[18446744073709551615,null,1,1.5,\"NaN\",{},{\"a\":\"b\"},null]");
  free(finite);
  assert_string_equal(ga_json_wide(json_array_get(v, 0)), "18446744073709551615");
  assert_string_equal(ga_json_wide(json_array_get(v, 1)), "NaN");
  for (size_t i = 2; i < json_array_size(v); i++) assert_null(ga_json_wide(json_array_get(v, i)));
  assert_null(ga_json_wide(NULL));
  assert_int_equal(json_array_size(v), 8);
  json_decref(v);
  /* No text makes the key. */
  assert_null(ga_json_load("{\"\xff\":\"1\"}", 9, GA_JSON_PYTHON, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_of_python), cmocka_unit_test(test_wide_numbers),
      cmocka_unit_test(test_json_texts),        cmocka_unit_test(test_deep_texts),
      cmocka_unit_test(test_error_places),      cmocka_unit_test(test_mutated_texts),
      cmocka_unit_test(test_locale_is_ignored), cmocka_unit_test(test_json_memory_runs_out),
      cmocka_unit_test(test_no_key_is_lost),
  };
  faults_install();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
