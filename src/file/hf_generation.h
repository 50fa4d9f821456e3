/* generation_config.json: how the makers of a model have it generate. */
#ifndef GA_FILE_HF_GENERATION_H
#define GA_FILE_HF_GENERATION_H

#include <jansson.h>

#include "base/parts.h"

extern const ga_part_table ga_hf_generation_parts;

/* Checks a parsed generation_config.json, and adds its ids of ends of generation to "eos_token_id" of a parsed
 * config.json: any of them ends an answer. inside: the object of config.json that has the model's own fields; NULL:
 * the top level. GA_ERR_UNSUPPORTED: a field that would change what is generated, and that GA does not have. */
GA_NODISCARD ga_status ga_hf_generation_apply(const json_t *generation, json_t *config, const char *inside);

#endif
