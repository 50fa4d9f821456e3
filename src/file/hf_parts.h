/* The parts of config files beside safetensors: the tables that the readers check files against (base/parts.h). */
#ifndef GA_FILE_HF_PARTS_H
#define GA_FILE_HF_PARTS_H

#include <stddef.h>

#include "base/parts.h"

extern const ga_part_table ga_hf_config_parts; /* fields of config.json that every model type may have */

/* Returns all tables of these files, in the order of the reference. */
const ga_part_table *const *ga_hf_part_tables(size_t *count);

#endif
