/* GGUF bytes as a whole file. */
#include "file/model_store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/walk_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ga_model_file *file;
  if (ga_model_file_parse("fuzz", data, size, &file) != GA_OK) return 0;
  walk_model(file);
  ga_model_file_destroy(file);
  return 0;
}
