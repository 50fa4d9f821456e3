/* For the tests that write GGUF files with the library's own writer. */
#ifndef GA_TESTS_GGUF_FILES_H
#define GA_TESTS_GGUF_FILES_H

#include "file/gguf.h"
#include "file/gguf_write.h"
#include "tests/model_bytes.h"

static inline ga_gguf_writer *new_writer(uint32_t version, uint32_t alignment) {
  ga_gguf_writer *w;
  assert_ok(ga_gguf_writer_create(version, alignment, &w));
  return w;
}

static inline void finish_file(ga_gguf_writer *w, const char *name) {
  assert_ok(ga_gguf_writer_finish(w, in_folder(name)));
  ga_gguf_writer_destroy(w);
}

static inline ga_model_file *open_file(const char *name) {
  ga_model_file *file;
  assert_ok(ga_model_file_open(in_folder(name), &file));
  return file;
}

static uint8_t weights[65536];

static inline void fill_weights(void) {
  for (size_t i = 0; i < sizeof weights; i++) weights[i] = (uint8_t)(i * 167 + i / 256);
}

#endif
