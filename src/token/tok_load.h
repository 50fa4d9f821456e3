/* Vocabularies from files: a ga_vocab and the memory of its arrays, until the tokenizer is made. */
#ifndef GA_TOKEN_TOK_LOAD_H
#define GA_TOKEN_TOK_LOAD_H

#include <jansson.h>
#include <string.h>

#include "base/mem.h"
#include "ga/tokenizer.h"

typedef struct tok_load {
  ga_vocab vocab;
  ga_arena arena;
  int32_t fim[6];
  int32_t *types; /* tok_json.c: the array of vocab.types, writable while it is filled */
} tok_load;

/* Bytes of the arena. Each of at most 2^22 tokens needs 24 bytes, each merge 16; JSON needs their texts too. */
#define TOK_LOAD_LIMIT ((size_t)256 << 20)

static inline void tok_load_init(tok_load *load) {
  *load = (tok_load){.vocab = GA_VOCAB_INIT};
  ga_arena_init(&load->arena, TOK_LOAD_LIMIT);
}

static inline bool tok_text_is(ga_text text, const char *s) {
  return text.bytes == strlen(s) && !memcmp(text.data, s, text.bytes);
}

GA_NODISCARD ga_status tok_load_gguf(tok_load *load, const ga_model_file *file);

/* Adds the ids of ga.eos_token_ids, if `file` has that key; `file` may be NULL. */
GA_NODISCARD ga_status tok_load_eog(tok_load *load, const ga_model_file *file);

/* Fills a vocabulary from parsed tokenizer.json and tokenizer_config.json (or NULL). */
GA_NODISCARD ga_status tok_load_json(tok_load *load, const json_t *root, const json_t *config,
                                     const ga_model_file *file);
/* Makes a tokenizer from tokenizer.json with tokenizer_config.json (or NULL). `file`, or NULL, has further
 * end-of-generation ids. */
GA_NODISCARD ga_status tok_from_json(const char *path, const char *config, const ga_model_file *file,
                                     ga_tokenizer **out);
/* Translates normalizer, pre_tokenizer and post_processor of a Unigram model's tokenizer.json into flags and charsmap
 * of the vocabulary. GA_ERR_UNSUPPORTED: one that GA does not have, by name. */
GA_NODISCARD ga_status tok_json_unigram(tok_load *load, const json_t *root);
/* The name of the pre-splitter that equals a pre_tokenizer of tokenizer.json; NULL when there is none. */
const char *tok_json_pre(const json_t *pre_tokenizer);

#endif
