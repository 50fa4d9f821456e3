/* Ids of every line of tests/data/corpus.bin against those of llama.cpp and Hugging Face tokenizers, with the real
 * vocabularies. Formats and makers: tests/data/README.md. A model that is not there is skipped, by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "base/filemap.h"
#include "base/hash.h"
#include "ga/tokenizer.h"
#include "tests/engine_models.h"
#include "token/tok_split.h"
#include "token/unicode.h"

typedef struct model_row {
  const char *ids;   /* ids-<ids>.bin and ids-<ids>-special.bin */
  const char *model; /* below $GA_MODELS or ~/.cache/ga/models */
} model_row;

static model_row models[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"},
    {"gemma3", "gemma-3-270m-q4_k_m.gguf"},
    {"minilm", "all-MiniLM-L6-v2"},
    {"gpt2", "ggml-vocab-gpt-2.gguf"},
    {"llama2", "ggml-vocab-llama-spm.gguf"},
    {"llama3", "ggml-vocab-llama-bpe.gguf"},
    {"qwen2", "ggml-vocab-qwen2.gguf"},
};

typedef struct split_row {
  const char *file, *pre;
} split_row;

static split_row splits[] = {{"split-gpt2.bin", "gpt-2"},    {"split-smollm.bin", "smollm"},
                             {"split-llama3.bin", "llama3"}, {"split-qwen2.bin", "qwen2"},
                             {"split-tekken.bin", "tekken"}, {"split-gpt-4o.bin", "gpt-4o"}};

static uint32_t u32_at(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return x;
}

static uint64_t u64_at(const uint8_t *p) {
  uint64_t x;
  memcpy(&x, p, 8);
  return x;
}

static ga_filemap open_vectors(const char *name) {
  char path[1024];
  ga_filemap map;
  (void)snprintf(path, sizeof path, "%s/%s", GA_TEST_DATA, name);
  if (ga_filemap_open(path, &map) != GA_OK) fail_msg("%s", ga_error_text());
  return map;
}

static ga_tokenizer *open_tokenizer(const char *name) {
  const char *path = model_path(name);
  ga_model_file *file;
  ga_tokenizer *tok = NULL;
  if (!path) {
    print_message("%s is not here (make models)\n", name);
    skip();
  }
  ga_status status = ga_model_file_open(path, &file);
  if (status == GA_OK) status = ga_tokenizer_from_model(file, &tok);
  if (status != GA_OK) fail_msg("%s", ga_error_text());
  ga_model_file_destroy(file);
  return tok;
}

/* One line of the corpus: the next at *at, which moves behind it. */
static ga_text next_line(const ga_filemap *corpus, size_t *at) {
  ga_text line = {(const char *)corpus->data + *at + 4, u32_at(corpus->data + *at)};
  *at += 4 + line.bytes;
  assert_true(*at <= corpus->bytes);
  return line;
}

/* Count and hash of ids[n] against row i of the vectors. */
static bool same_ids(const ga_filemap *want, uint32_t i, const int32_t *ids, size_t n) {
  const uint8_t *row = want->data + 16 + 12 * (size_t)i;
  return u32_at(row) == n && u64_at(row + 4) == ga_fnv64(GA_FNV64_START, ids, n * sizeof(int32_t));
}

static void show_line(uint32_t i, ga_text line, const int32_t *ids, size_t n) {
  print_message("line %u \"", i);
  for (size_t k = 0; k < line.bytes && k < 200; k++) {
    uint8_t c = (uint8_t)line.data[k];
    if (c >= 0x20 && c < 0x7F)
      print_message("%c", c);
    else
      print_message("\\x%02x", c);
  }
  print_message("\":");
  for (size_t k = 0; k < n && k < 50; k++) print_message(" %d", ids[k]);
  print_message("\n");
}

static uint32_t corpus_lines(const ga_filemap *corpus, const ga_filemap *want) {
  assert_true(corpus->bytes > 12 && !memcmp(corpus->data, "GACORP1\n", 8));
  assert_true(want->bytes > 16 && !memcmp(want->data, "GAIDS1\n", 8));
  uint32_t lines = u32_at(corpus->data + 8);
  assert_int_equal(lines, u32_at(want->data + 8));
  return lines;
}

#define MOST_IDS 65536

static void compare_ids(const ga_tokenizer *tok, const char *vectors, uint32_t flags) {
  static int32_t ids[MOST_IDS];
  ga_filemap corpus = open_vectors("corpus.bin"), want = open_vectors(vectors);
  uint32_t lines = corpus_lines(&corpus, &want), bad = 0;
  size_t at = 12, n;
  for (uint32_t i = 0; i < lines; i++) {
    ga_text line = next_line(&corpus, &at);
    assert_int_equal(ga_tokenize(tok, line.data, line.bytes, flags, ids, MOST_IDS, &n), GA_OK);
    if (same_ids(&want, i, ids, n)) continue;
    if (bad++ < 10) show_line(i, line, ids, n);
  }
  print_message("%s: %u of %u lines identical\n", vectors, lines - bad, lines);
  ga_filemap_close(&corpus);
  ga_filemap_close(&want);
  assert_int_equal(bad, 0);
}

static void test_ids(void **state) {
  const model_row *row = *state;
  char name[64];
  ga_tokenizer *tok = open_tokenizer(row->model);
  (void)snprintf(name, sizeof name, "ids-%s.bin", row->ids);
  compare_ids(tok, name, GA_TOK_ADD_SPECIAL);
  ga_tokenizer_destroy(tok);
}

static void test_ids_special(void **state) {
  const model_row *row = *state;
  char name[64];
  ga_tokenizer *tok = open_tokenizer(row->model);
  (void)snprintf(name, sizeof name, "ids-%s-special.bin", row->ids);
  compare_ids(tok, name, GA_TOK_ADD_SPECIAL | GA_TOK_PARSE_SPECIAL);
  ga_tokenizer_destroy(tok);
}

/* Does the line hold a code point that Unicode 15 (utf8proc's) has not assigned? Vectors are of a later one. */
static bool has_unassigned(ga_text line) {
  int len;
  for (size_t i = 0; i < line.bytes; i += (size_t)len) {
    uint32_t cp = ga_utf8_next((const uint8_t *)line.data + i, line.bytes - i, &len);
    if (utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_CN) return true;
  }
  return false;
}

/* Lengths of words; lines of broken UTF-8 have none in the vectors (0xffffffff). */
static void test_splits(void **state) {
  static int32_t lengths[MOST_IDS];
  const split_row *row = *state;
  ga_filemap corpus = open_vectors("corpus.bin"), want = open_vectors(row->file);
  uint32_t lines = corpus_lines(&corpus, &want), bad = 0, broken = 0, younger = 0;
  size_t at = 12;
  for (uint32_t i = 0; i < lines; i++) {
    ga_text line = next_line(&corpus, &at);
    if (ga_utf8_valid((const uint8_t *)line.data, line.bytes) < line.bytes) {
      assert_int_equal(u32_at(want.data + 16 + 12 * (size_t)i), UINT32_MAX);
      broken++;
      continue;
    }
    tok_split split = ga_tok_split_start(ga_tok_split_find(row->pre), line.data, line.bytes);
    size_t n = 0;
    for (size_t begin, end; ga_tok_split_next(&split, &begin, &end);) lengths[n++] = (int32_t)(end - begin);
    if (same_ids(&want, i, lengths, n)) continue;
    if (has_unassigned(line))
      younger++;
    else if (bad++ < 10)
      show_line(i, line, lengths, n);
  }
  print_message("%s: %u of %u lines identical, %u differ by a character younger than our tables; %u more are broken\n",
                row->file, lines - bad - broken - younger, lines - broken, younger, broken);
  ga_filemap_close(&corpus);
  ga_filemap_close(&want);
  assert_int_equal(bad, 0);
  assert_true(younger <= 5);
}

#define IDS(i)         cmocka_unit_test_prestate(test_ids, &models[i])
#define IDS_SPECIAL(i) cmocka_unit_test_prestate(test_ids_special, &models[i])
#define SPLIT(i)       cmocka_unit_test_prestate(test_splits, &splits[i])

int main(void) {
  const struct CMUnitTest tests[] = {
      SPLIT(0), SPLIT(1),       SPLIT(2),       SPLIT(3),       SPLIT(4),       SPLIT(5),
      IDS(0),   IDS(1),         IDS(2),         IDS(3),         IDS(4),         IDS(5),
      IDS(6),   IDS_SPECIAL(0), IDS_SPECIAL(1), IDS_SPECIAL(2), IDS_SPECIAL(4), IDS_SPECIAL(5),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
