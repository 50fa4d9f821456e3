/* A tokenizer.json; it is its own tokenizer_config.json too, and the tokenizer that comes of it reads it as text. */
#include "base/json.h"
#include "tests/fuzz/fuzz_encode.h"
#include "token/tok_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  json_t *root;
  ga_tokenizer *tok = NULL;
  tok_load load;
  if (ga_json_parse("fuzz", (const char *)data, size, &root) != GA_OK) return 0;
  tok_load_init(&load);
  const tok_files files = {root, root, root};
  if (tok_load_json(&load, &files, NULL) == GA_OK && tok_create(&load.vocab, &load.extra, &tok) == GA_OK)
    fuzz_encode(tok, (const char *)data, size, 3);
  ga_tokenizer_destroy(tok);
  ga_arena_free(&load.arena);
  json_decref(root);
  return 0;
}
