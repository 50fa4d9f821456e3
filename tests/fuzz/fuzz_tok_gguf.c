/* The tokenizer of a GGUF file, over the file itself as text. */
#include "file/model_store.h"
#include "tests/fuzz/fuzz_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ga_model_file *file;
  ga_tokenizer *tok;
  if (ga_model_file_parse("fuzz", data, size, &file) != GA_OK) return 0;
  if (ga_tokenizer_from_model(file, &tok) == GA_OK) {
    fuzz_encode(tok, (const char *)data, size, 3);
    ga_tokenizer_destroy(tok);
  }
  ga_model_file_destroy(file);
  return 0;
}
