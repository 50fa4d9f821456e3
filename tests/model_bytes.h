/* For the tests of model files: raw bytes, files in a folder of their own, and error texts. */
#ifndef GA_TESTS_MODEL_BYTES_H
#define GA_TESTS_MODEL_BYTES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "file/byte_reader.h"
#include "file/model_store.h"
#include "ga/model_file.h"
#include "tests/fuzz/walk_model.h"

/* --- bytes ------------------------------------------------------------------------------------------------------- */

typedef struct raw_bytes {
  size_t n;
  uint8_t data[8192];
} raw_bytes;

static inline void raw_put(raw_bytes *b, const void *data, size_t n) {
  assert_true(n <= sizeof b->data - b->n);
  memcpy(b->data + b->n, data, n);
  b->n += n;
}

static inline void raw_le(raw_bytes *b, int n, uint64_t value) {
  uint8_t le[8];
  ga_store_le(le, n, value);
  raw_put(b, le, (size_t)n);
}

static inline void raw_text(raw_bytes *b, const char *text) {
  raw_le(b, 8, strlen(text));
  raw_put(b, text, strlen(text));
}

static inline void raw_gguf(raw_bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_keys) {
  b->n = 0;
  raw_put(b, "GGUF", 4);
  raw_le(b, 4, version);
  raw_le(b, 8, n_tensors);
  raw_le(b, 8, n_keys);
}

static inline void raw_u32_key(raw_bytes *b, const char *key, uint32_t value) {
  raw_text(b, key);
  raw_le(b, 4, 4);
  raw_le(b, 4, value);
}

/* A tensor of one dimension. */
static inline void raw_tensor(raw_bytes *b, const char *name, uint64_t ne, uint32_t type, uint64_t offset) {
  raw_text(b, name);
  raw_le(b, 4, 1);
  raw_le(b, 8, ne);
  raw_le(b, 4, type);
  raw_le(b, 8, offset);
}

static inline void raw_pad(raw_bytes *b, size_t to) {
  while (b->n % to) raw_le(b, 1, 0);
}

/* --- files ------------------------------------------------------------------------------------------------------- */

static char test_folder[64];

static inline int make_folder(void **state) {
  (void)state;
  (void)snprintf(test_folder, sizeof test_folder, "/tmp/ga-test-XXXXXX");
  return mkdtemp(test_folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
  char command[100];
  (void)state;
  (void)snprintf(command, sizeof command, "rm -rf '%s'", test_folder);
  return system(command);
}

/* Path of a file in the folder; one of four buffers in turn. */
static inline const char *in_folder(const char *name) {
  static char paths[4][256];
  static int turn;
  char *path = paths[turn++ % 4];
  (void)snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
  return path;
}

static inline void put_file_bytes(const char *name, const void *data, size_t bytes) {
  FILE *f = fopen(in_folder(name), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  assert_int_equal(fclose(f), 0);
}

static inline void put_file_text(const char *name, const char *text) { put_file_bytes(name, text, strlen(text)); }

/* --- outcomes ---------------------------------------------------------------------------------------------------- */

static inline void assert_error(ga_status seen, ga_status want, const char *part) {
  if (seen != want || !strstr(ga_error_text(), part))
    fail_msg("%s '%s'; must be %s with '%s'", ga_status_name(seen), ga_error_text(), ga_status_name(want), part);
}

static inline void assert_ok(ga_status seen) {
  if (seen != GA_OK) fail_msg("%s: %s", ga_status_name(seen), ga_error_text());
}

/* Opens by `open` with an arena that may hand out n bytes, for every n until that is enough: each allocation from the
 * arena is the one that fails, once. */
static inline void assert_every_arena_failure(ga_status (*open)(ga_model_file *)) {
  for (size_t n = 16;; n += 16) {
    ga_model_file *file;
    assert_true(n < 1 << 20);
    assert_ok(ga_model_store_create(GA_MODEL_GGUF, &file));
    file->arena.limit_bytes = n;
    ga_status status = open(file);
    ga_model_file_destroy(file);
    if (status == GA_OK) break;
    assert_error(status, GA_ERR_NOMEM, "arena: ");
  }
}

/* Parses an exact copy, so that a sanitizer sees a read past the end. */
static inline ga_status parse_copy(const void *data, size_t n, ga_model_file **out, void **copy) {
  *copy = malloc(n ? n : 1);
  assert_non_null(*copy);
  memcpy(*copy, data, n);
  return ga_model_file_parse("m", *copy, n, out);
}

/* Either refused with a text and no handle, or sound from end to end. */
static inline bool survives(const uint8_t *data, size_t n) {
  ga_model_file *file;
  void *copy;
  const ga_status status = parse_copy(data, n, &file, &copy);
  if (status == GA_OK) {
    walk_model(file);
    ga_model_file_destroy(file);
  } else {
    assert_null(file);
    assert_true(strlen(ga_error_text()) > 3 && ga_error_text()[0] == 'm');
  }
  free(copy);
  return status == GA_OK;
}

static inline void assert_refused(const raw_bytes *b, ga_status want, const char *part) {
  ga_model_file *file;
  void *copy;
  ga_status status = parse_copy(b->data, b->n, &file, &copy);
  assert_error(status, want, part);
  assert_null(file);
  free(copy);
}

static inline void assert_open_fails(const char *path, ga_status want, const char *part) {
  ga_model_file *file = (ga_model_file *)&file;
  assert_error(ga_model_file_open(path, &file), want, part);
  assert_null(file);
}

#endif
