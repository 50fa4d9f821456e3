/* Reads generation_config.json: the settings with which a model's makers have it generate text. */
#ifndef GA_FILE_HF_GENERATION_H
#define GA_FILE_HF_GENERATION_H

#include <jansson.h>

#include "base/parts.h"

extern const ga_part_table ga_hf_generation_parts;

/* Checks a parsed generation_config.json. Adds its ids of tokens that end generation to "eos_token_id" of a parsed
 * config.json, so that each of them ends an answer. inside: name of the object of config.json that has the model's own
 * fields; NULL: the top level. Returns GA_ERR_UNSUPPORTED for a field that would change the generated text and that GA
 * does not have. */
GA_NODISCARD ga_status ga_hf_generation_apply(const json_t *generation, json_t *config, const char *inside);

#endif
