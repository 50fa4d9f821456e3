/* Helpers for the readers of tokenizer.json. */
#ifndef GA_TOKEN_TOK_JSON_UTIL_H
#define GA_TOKEN_TOK_JSON_UTIL_H

#include <jansson.h>

#include "token/tok_load.h"

typedef struct json_src {
  const json_t *root, *config; /* config may be NULL */
  const json_t *map;           /* special_tokens_map.json, or NULL */
  json_t *vocab;               /* the vocabulary; only read, but jansson's loop over an object takes no const */
  const json_t *merges, *added;
  const json_t *pieces; /* Unigram: an array of [text, score]; `vocab` is NULL then */
  bool byte_fallback;
} json_src;

/* Returns the text at a path of names separated by dots; "" if there is none. */
const char *tok_json_text(const json_t *object, const char *path);
/* Returns whether the field "type" of a step has the value `type`. */
bool tok_json_is(const json_t *step, const char *type);
/* Reads an id, an integer from 0 to 2^22 - 1. `what` names the token in error texts. */
GA_NODISCARD ga_status tok_json_id(const char *what, const json_t *value, size_t *id);
/* Returns the id of a token by its text in the file; GA_TOK_NONE: no token has the text, or text is NULL. Added tokens
 * are searched first. */
int32_t tok_json_find(const json_src *src, const char *text);

/* Returns added_tokens_decoder of tokenizer_config.json, an object from ids to added tokens; NULL: there is none. */
json_t *tok_json_added_decoder(const json_src *src);
/* Reads an id from a key of added_tokens_decoder, a decimal number. */
GA_NODISCARD ga_status tok_json_decoder_id(const char *key, size_t *id);

#endif
