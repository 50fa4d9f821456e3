/* Reads the scaling of rotary position embeddings (RoPE) from config.json. */
#ifndef GA_FILE_HF_ROPE_H
#define GA_FILE_HF_ROPE_H

#include <jansson.h>

#include "base/parts.h"

extern const ga_part_table ga_hf_rope_parts; /* table of the fields of rope_scaling and rope_parameters that GA knows */

/* Makes the object {"rope": {...}} from the fields of config.json's rope_scaling, or else of its rope_parameters. If
 * layers have different parameters, the part "full_attention" counts. rope_type is the type that the file gives under
 * either of its two names; a factor without a type is linear. The caller releases *out with json_decref. Returns
 * GA_ERR_FORMAT or GA_ERR_UNSUPPORTED for a field that GA does not have; the text names it. */
GA_NODISCARD ga_status ga_hf_rope_view(const char *label, const json_t *config, json_t **out);

#define GA_HF_FIELD_BYTES 96 /* largest path of a field in bytes, with its NUL */
/* Returns the path in config.json that "rope.X" stands for, such as "rope_scaling.X", in `out`. Other paths are
 * returned as they are. */
const char *ga_hf_rope_field(const json_t *config, const char *path, char out[GA_HF_FIELD_BYTES]);

#endif
