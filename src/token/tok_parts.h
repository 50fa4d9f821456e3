/* Tables of the fields that files of tokenizers may have. Readers check files against these tables (base/parts.h). */
#ifndef GA_TOKEN_TOK_PARTS_H
#define GA_TOKEN_TOK_PARTS_H

#include <stddef.h>

#include "base/parts.h"

extern const ga_part_table tok_parts_json;      /* tokenizer.json without its model and its lists of steps */
extern const ga_part_table tok_parts_bpe;       /* model of type BPE */
extern const ga_part_table tok_parts_wordpiece; /* model of type WordPiece */
extern const ga_part_table tok_parts_unigram;   /* model of type Unigram */
extern const ga_part_table tok_parts_config;    /* tokenizer_config.json */
extern const ga_part_table tok_parts_map;       /* special_tokens_map.json */
extern const ga_part_table tok_parts_gguf;      /* keys of GGUF that begin with "tokenizer." */

/* Checks a step of `list`, which is normalizer, pre_tokenizer, post_processor or decoder: its type and its fields.
 * GA_ERR_UNSUPPORTED: a type or a field without a row; the text names it and the types that GA has. */
GA_NODISCARD ga_status tok_parts_check_step(const char *list, const json_t *step);

/* Returns all tables of tokenizer files, in the order of docs/reference/model-files.md. Sets *count to their number. */
const ga_part_table *const *tok_part_tables(size_t *count);

#endif
