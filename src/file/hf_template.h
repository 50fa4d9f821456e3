/* The chat template in tokenizer_config.json. */
#ifndef GA_FILE_HF_TEMPLATE_H
#define GA_FILE_HF_TEMPLATE_H

#include <jansson.h>

#include "ga/base.h"

/* Finds "chat_template": a text, or a list of named templates, of which "default" counts, else the first. *out is a
 * string owned by config; NULL: there is none, or config is NULL. GA_ERR_FORMAT: the value has another form. */
GA_NODISCARD ga_status ga_hf_template(const json_t *config, const json_t **out);

#endif
