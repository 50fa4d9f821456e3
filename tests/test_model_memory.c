/* Loading takes a small multiple of a file's size, whatever the file holds: files made to cost much are refused, and
 * those that just pass are measured. Each in a process of its own, by its peak of resident memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "file/gguf_write.h"
#include "ga/llm.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURED 0 /* the sanitizer's own memory */
#else
#define MEASURED 1
#endif

#define MIB ((size_t)1 << 20)

static char folder[] = "/tmp/ga-memory-XXXXXX", path[64];

typedef ga_status (*load_fn)(const char *file);

typedef struct outcome {
  ga_status status;
  char text[512];
  size_t bytes; /* more than before */
} outcome;

static size_t peak(void) {
  struct rusage r;
  (void)getrusage(RUSAGE_SELF, &r);
  return (size_t)r.ru_maxrss * 1024;
}

static outcome measure_load(load_fn fn) {
  outcome o = {.status = GA_ERR_INTERNAL};
  int ends[2], status;
  assert_int_equal(pipe(ends), 0);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    const size_t before = peak();
    o.status = fn(path);
    o.bytes = peak() - before;
    (void)snprintf(o.text, sizeof o.text, "%s", o.status == GA_OK ? "" : ga_error_text());
    _exit(write(ends[1], &o, sizeof o) != sizeof o);
  }
  (void)close(ends[1]);
  assert_int_equal(read(ends[0], &o, sizeof o), sizeof o);
  (void)close(ends[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  return o;
}

static size_t file_bytes(void) {
  FILE *f = fopen(path, "rb");
  assert_true(f && !fseek(f, 0, SEEK_END));
  const long n = ftell(f);
  (void)fclose(f);
  return (size_t)n;
}

static void refused(load_fn fn, const char *says, size_t times) {
  const outcome o = measure_load(fn);
  if (o.status != GA_ERR_FORMAT || !strstr(o.text, says)) fail_msg("%d: %s", (int)o.status, o.text);
  if (MEASURED && o.bytes > times * file_bytes() + 8 * MIB)
    fail_msg("%zu MiB for a file of %zu", o.bytes / MIB, file_bytes() / MIB);
}

static void passes(load_fn fn, size_t times, size_t more) {
  const outcome o = measure_load(fn);
  if (o.status != GA_OK) fail_msg("%d: %s", (int)o.status, o.text);
  if (MEASURED && o.bytes > times * file_bytes() + more)
    fail_msg("%zu MiB for a file of %zu", o.bytes / MIB, file_bytes() / MIB);
}

static ga_status load_gguf(const char *file) {
  ga_model_file *f;
  ga_tokenizer *tok = NULL;
  ga_status status = ga_model_file_open(file, &f);
  if (status != GA_OK) return status;
  status = ga_tokenizer_from_model(f, &tok);
  ga_tokenizer_destroy(tok);
  ga_model_file_destroy(f);
  return status;
}

static ga_status load_hf_config(const char *file) {
  ga_tokenizer *tok = NULL;
  const ga_status status = ga_tokenizer_from_json(file, NULL, &tok);
  ga_tokenizer_destroy(tok);
  return status;
}

/* --- GGUF --- */

static void write_number(FILE *f, uint64_t v, size_t bytes) { assert_int_equal(fwrite(&v, 1, bytes, f), bytes); }
static void write_text(FILE *f, const char *text) {
  write_number(f, strlen(text), 8);
  assert_true(fputs(text, f) >= 0);
}

/* Says that it has n tokens, and has `full` of `text`, then `empty` without any. By hand: the writer refuses most. */
static void put_gguf(const char *kind, size_t n, const char *text, size_t full, size_t empty) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_true(fputs("GGUF", f) >= 0);
  write_number(f, 3, 4);
  write_number(f, 0, 8);
  write_number(f, 2, 8);
  write_text(f, "tokenizer.ggml.model");
  write_number(f, 8, 4);
  write_text(f, kind);
  write_text(f, "tokenizer.ggml.tokens");
  write_number(f, 9, 4);
  write_number(f, 8, 4);
  write_number(f, n, 8);
  for (size_t i = 0; i < full; i++) write_text(f, text);
  void *zeros = calloc(empty + 1, 8);
  assert_non_null(zeros);
  assert_int_equal(fwrite(zeros, 8, empty, f), empty);
  free(zeros);
  assert_int_equal(fclose(f), 0);
}

static void test_gguf_memory(void **state) {
  (void)state;
  enum { MOST = 1 << 22, SOME = 1 << 20 };
  put_gguf("llama", 1 << 24, "a", 8, 8);
  refused(load_gguf, "array of 16777216 elements; at most 4194304", 1);
  put_gguf("llama", MOST, "a", 8, MOST - 8);
  refused(load_gguf, "4194296 of 4194304 texts of tokenizer.ggml.tokens are empty; at most half may be", 2);
  put_gguf("llama", SOME, "a", SOME / 2, SOME / 2);
  passes(load_gguf, 7, 8 * MIB);
  put_gguf("bert", SOME, "a", SOME, 0);
  passes(load_gguf, 7, 8 * MIB);
}

/* --- JSON --- */

static void write_repeated(const char *head, const char *each, size_t n, const char *tail) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_true(fputs(head, f) >= 0);
  for (size_t i = 0; i < n; i++) assert_true((i == 0 || fputc(',', f) >= 0) && fputs(each, f) >= 0);
  assert_true(fputs(tail, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

static void test_json(void **state) {
  (void)state;
  static const char *const pieces[] = {"[]", "{}", "0", "\"\"", "[[]]", "{\"\":0}", "[0,0]"};
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
    const size_t each = strlen(pieces[i]) + 1;
    write_repeated("{\"more\":[", pieces[i], 24 * MIB / each, "]}");
    refused(load_hf_config, "so many arrays and objects", 1);
  }
}

#define TOKENIZER                                                                                    \
  "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0,\"a\":1}},\"pre_tokenizer\":{\"type\":" \
  "\"BertPreTokenizer\"},\"padding\":["

/* What passes stays below the bound that the parser has set itself. */
static void test_json_that_passes(void **state) {
  (void)state;
  static const struct {
    const char *piece;
    size_t n;
  } most[] = {{"[]", 229000}, {"{}", 172000}, {"0", 900000}, {"\"\"", 1130000}, {"[[]]", 135000}, {"[0,0]", 190000}};
  for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
    write_repeated(TOKENIZER, most[i].piece, most[i].n, "]}");
    passes(load_hf_config, 16, 72 * MIB);
  }
  write_repeated(TOKENIZER, "\"[{,:\\\"[{,:\"", 8 * MIB / 14, "]}"); /* marks inside of texts do not count */
  passes(load_hf_config, 16, 72 * MIB);
}

/* As tokenizers writes without white space: half a million pairs. */
static void test_json_of_pairs(void **state) {
  (void)state;
  write_repeated(TOKENIZER, "[\"ab\",\"cde\"]", 500000, "]}");
  passes(load_hf_config, 32, 8 * MIB);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gguf_memory),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_json_that_passes),
      cmocka_unit_test(test_json_of_pairs),
  };
  if (!mkdtemp(folder)) return 1;
  (void)snprintf(path, sizeof path, "%s/file", folder);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  (void)unlink(path);
  (void)rmdir(folder);
  return failed;
}
