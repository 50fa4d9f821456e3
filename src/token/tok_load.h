/* Vocabularies that are read from files: a ga_vocab with the memory of its arrays, kept until the tokenizer is
 * created. */
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
  int32_t *types; /* the array of vocab.types, which tok_json.c fills */
} tok_load;

/* Largest size of the arena in bytes. Each of at most 2^22 tokens needs 24 bytes, each merge 16; JSON also needs the
 * texts of both. */
#define TOK_LOAD_LIMIT ((size_t)256 << 20)

static inline void tok_load_init(tok_load *load) {
  *load = (tok_load){.vocab = GA_VOCAB_INIT};
  ga_arena_init(&load->arena, TOK_LOAD_LIMIT);
}

static inline bool tok_text_is(ga_text text, const char *s) {
  return text.bytes == strlen(s) && !memcmp(text.data, s, text.bytes);
}

/* Fills in load->vocab from the tokenizer.ggml.* keys of a GGUF file. */
GA_NODISCARD ga_status tok_load_gguf(tok_load *load, const ga_model_file *file);

/* Adds the ids of the key ga.eos_token_ids to the tokens that end generation, if `file` has that key. `file` may be
 * NULL. */
GA_NODISCARD ga_status tok_load_eog(tok_load *load, const ga_model_file *file);

/* Fills in load->vocab from a parsed tokenizer.json. config: parsed tokenizer_config.json, or NULL. file: as for
 * tok_load_eog. */
GA_NODISCARD ga_status tok_load_json(tok_load *load, const json_t *root, const json_t *config,
                                     const ga_model_file *file);
/* Creates a tokenizer from the file tokenizer.json at `path`. config: path of tokenizer_config.json, or NULL. file: as
 * for tok_load_eog. */
GA_NODISCARD ga_status tok_from_json(const char *path, const char *config, const ga_model_file *file,
                                     ga_tokenizer **out);
/* Translates normalizer, pre_tokenizer and post_processor of a Unigram model's tokenizer.json into flags and charsmap
 * of the vocabulary. Returns GA_ERR_UNSUPPORTED if GA lacks one of them; the text names it. */
GA_NODISCARD ga_status tok_json_unigram(tok_load *load, const json_t *root);
/* Returns the name of GA's pre-splitter that does the same as a pre_tokenizer of tokenizer.json; NULL: there is
 * none. */
const char *tok_json_pre(const json_t *pre_tokenizer);

#endif
