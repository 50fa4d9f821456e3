/* Tables of the fields that files of tokenizers may have. Readers check files against these tables (base/parts.h). */
#ifndef GA_TOKEN_TOK_PARTS_H
#define GA_TOKEN_TOK_PARTS_H

#include <stddef.h>

#include "base/parts.h"

extern const ga_part_table tok_parts_json; /* table of the fields at the top level of tokenizer.json */

/* Returns all tables of tokenizer files, in the order of docs/reference/model-files.md. Sets *count to their number. */
const ga_part_table *const *tok_part_tables(size_t *count);

#endif
