/* A form of ga_tokenize for text whose bytes are marked by their origin. */
#ifndef GA_TOKEN_TOK_ENCODE_H
#define GA_TOKEN_TOK_ENCODE_H

#include "ga/tokenizer.h"

/* Tokenizes valid UTF-8 as ga_tokenize does with GA_TOK_PARSE_SPECIAL. Bytes whose mark in foreign[bytes] is not 0
 * never become part of a control token. Other tokens do not depend on marks. The caller frees *ids with ga_mem_free. */
GA_NODISCARD ga_status tok_encode_traced(const ga_tokenizer *tok, const char *text, size_t bytes,
                                         const uint8_t *foreign, int32_t **ids, size_t *n_ids);

#endif
