/* Tables of the metadata keys of GGUF files that GA reads, refuses or ignores (base/parts.h). */
#ifndef GA_MODEL_META_PARTS_H
#define GA_MODEL_META_PARTS_H

#include "base/parts.h"
#include "ga/model_file.h"

extern const ga_part_table meta_parts_rope, meta_parts_pooling, meta_parts_sampling;

/* Returns all tables of metadata keys, in the order of docs/reference/model-files.md. Sets *count to their number. */
const ga_part_table *const *meta_part_tables(size_t *count);

/* Checks the keys of a GGUF file against the tables. For safetensors folders it does nothing: they were checked when
 * they were opened. GA_ERR_UNSUPPORTED: a key with a value that GA does not have, or an unknown key of rotary
 * embedding, pooling or sampling; the text names it. */
GA_NODISCARD ga_status meta_parts_check(const ga_model_file *file);

#endif
