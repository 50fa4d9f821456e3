/* The scaling of rotary embedding in config.json. */
#ifndef GA_FILE_HF_ROPE_H
#define GA_FILE_HF_ROPE_H

#include <jansson.h>

#include "base/parts.h"

extern const ga_part_table ga_hf_rope_parts; /* the fields of rope_scaling and rope_parameters */

/* Makes {"rope": {...}}: the fields of rope_scaling, else those of rope_parameters, of which the part
 * "full_attention" counts where layers have several. rope_type is that of the file under either of its names; a factor
 * without a type is linear. *out: released by the caller with json_decref. GA_ERR_FORMAT, GA_ERR_UNSUPPORTED: a field
 * that GA does not have; the text names it. */
GA_NODISCARD ga_status ga_hf_rope_view(const char *label, const json_t *config, json_t **out);

#define GA_HF_FIELD_BYTES 96 /* room for a field's path */
/* Returns the path of the config's field that "rope.X" stands for, such as "rope_scaling.X"; other paths are returned
 * as they are. */
const char *ga_hf_rope_field(const json_t *config, const char *path, char out[GA_HF_FIELD_BYTES]);

#endif
