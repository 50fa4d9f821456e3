/* ga_tokenize with a memory of where each byte of the text came from. */
#ifndef GA_TOKEN_TOK_ENCODE_H
#define GA_TOKEN_TOK_ENCODE_H

#include "ga/tokenizer.h"

/* Ids of valid UTF-8, with GA_TOK_PARSE_SPECIAL but for control tokens that would take in a byte marked in
 * foreign[bytes] (not 0); all other tokens pass over marks. *ids: release with ga_mem_free. */
GA_NODISCARD ga_status tok_encode_traced(const ga_tokenizer *tok, const char *text, size_t bytes,
                                         const uint8_t *foreign, int32_t **ids, size_t *n_ids);

#endif
