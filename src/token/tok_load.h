/* Vocabularies that are read from files: a ga_vocab with the memory of its arrays, kept until the tokenizer is
 * created. */
#ifndef GA_TOKEN_TOK_LOAD_H
#define GA_TOKEN_TOK_LOAD_H

#include <jansson.h>
#include <string.h>

#include "base/mem.h"
#include "ga/tokenizer.h"
#include "token/tok_extra.h"

typedef struct tok_load {
  ga_vocab vocab;
  tok_extra extra;
  ga_arena arena;
  tok_step *steps; /* [TOK_STEPS_MOST] array of extra.steps; NULL: not allocated yet */
  uint8_t *added;  /* the array of extra.added, writable while files are read */
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

/* Drops the last tokens of the vocabulary if the embedding of `file` has no rows for them. Ids of special tokens that
 * are dropped become GA_TOK_NONE. If one is a normal token, nothing is dropped, and loading the model fails. file may
 * be NULL. */
void tok_load_trim(tok_load *load, const ga_model_file *file);

/* Adds the ids of the key ga.eos_token_ids to the tokens that end generation, if `file` has that key. `file` may be
 * NULL. */
GA_NODISCARD ga_status tok_load_eog(tok_load *load, const ga_model_file *file);

/* Parsed files that describe a tokenizer. All but root may be NULL. */
typedef struct tok_files {
  json_t *root;   /* tokenizer.json */
  json_t *config; /* tokenizer_config.json */
  json_t *map;    /* special_tokens_map.json */
} tok_files;

/* Reads and parses files by their paths. Paths but the first may be NULL. Release with tok_files_free. */
GA_NODISCARD ga_status tok_files_read(const char *path, const char *config, const char *map, tok_files *out);
void tok_files_free(tok_files *files);

/* Makes a tokenizer from the files at these paths; config and map may be NULL. file: model whose key ga.eos_token_ids
 * is read, or NULL. */
GA_NODISCARD ga_status tok_from_json(const char *path, const char *config, const char *map, const ga_model_file *file,
                                     ga_tokenizer **out);
/* Fills in load->vocab and load->extra from parsed files. file: model whose key ga.eos_token_ids is read, or NULL. */
GA_NODISCARD ga_status tok_load_json(tok_load *load, const tok_files *files, const ga_model_file *file);

/* Writes the parts of tokenizer.json that the keys of a GGUF file cannot hold, as JSON: the value of
 * "ga.tokenizer.json". tok: tokenizer made from the vocabulary. The caller frees *out with free; NULL: the keys can
 * hold all parts. */
GA_NODISCARD ga_status tok_json_keep(const tok_load *load, const tok_files *files, const ga_tokenizer *tok, char **out);
#define TOK_KEPT_JSON "ga.tokenizer.json"
/* Applies the parsed value of "ga.tokenizer.json" to a vocabulary that was filled from the keys of a GGUF file. */
GA_NODISCARD ga_status tok_json_apply(tok_load *load, const json_t *root);

/* Translates normalizer and pre_tokenizer of a Unigram model's tokenizer.json into flags and charsmap of the
 * vocabulary. GA_ERR_UNSUPPORTED: GA does not have one of them; the text names it. */
GA_NODISCARD ga_status tok_json_unigram(tok_load *load, const json_t *root);
/* Returns the name of GA's pre-splitter that does the same as a pre_tokenizer of tokenizer.json; NULL: there is
 * none. */
const char *tok_json_pre(const json_t *pre_tokenizer);

#endif
