/* Tables of the fields of the JSON files in a safetensors folder. Readers check files against these tables
 * (base/parts.h). */
#ifndef GA_FILE_HF_PARTS_H
#define GA_FILE_HF_PARTS_H

#include <stddef.h>

#include "base/parts.h"

extern const ga_part_table ga_hf_config_parts; /* fields of config.json that every model type may have */

/* Returns all tables of the JSON files in a safetensors folder, in the order of docs/reference/model-files.md. Sets
 * *count to their number. */
const ga_part_table *const *ga_hf_part_tables(size_t *count);

#endif
