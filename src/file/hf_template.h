/* The chat template in tokenizer_config.json. */
#ifndef GA_FILE_HF_TEMPLATE_H
#define GA_FILE_HF_TEMPLATE_H

#include <jansson.h>

#include "ga/base.h"

/* "chat_template": a text, or a list of templates with names, of which "default" is taken, else the first. *out is a
 * string of config's, NULL when there is none; so it is without a config. GA_ERR_FORMAT: something else. */
GA_NODISCARD ga_status ga_hf_template(const json_t *config, const json_t **out);

#endif
