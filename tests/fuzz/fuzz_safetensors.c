/* safetensors bytes as a whole file; without config.json, so names stay. A mutation nearly always breaks the header's
 * length, so a file that is refused is tried again with the length that its last brace gives. */
#include "file/byte_reader.h"
#include "file/model_store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/walk_model.h"

static bool parse_and_walk(const uint8_t *data, size_t size) {
  ga_model_file *file;
  if (ga_model_file_parse("fuzz", data, size, &file) != GA_OK) return false;
  walk_model(file);
  ga_model_file_destroy(file);
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (parse_and_walk(data, size) || size < 9 || data[8] != '{') return 0;
  const uint8_t *brace = memrchr(data + 8, '}', size - 8);
  uint8_t *copy = brace ? malloc(size) : NULL;
  if (!copy) return 0;
  memcpy(copy, data, size);
  ga_store_le(copy, 8, (uint64_t)(brace - data) + 1 - 8);
  (void)parse_and_walk(copy, size);
  free(copy);
  return 0;
}
