/* Unigram: vocabulary, flags, charsmap and text from the bytes. */
#include "tests/fuzz/fuzz_tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_tokenizer(GA_TOK_UGM, data, size); }
