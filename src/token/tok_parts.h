/* The parts of tokenizer files: the tables that the readers check files against (base/parts.h). */
#ifndef GA_TOKEN_TOK_PARTS_H
#define GA_TOKEN_TOK_PARTS_H

#include <stddef.h>

#include "base/parts.h"

extern const ga_part_table tok_parts_json; /* tokenizer.json, its top level */

/* Returns all tables of tokenizer files, in the order of the reference. */
const ga_part_table *const *tok_part_tables(size_t *count);

#endif
