/* The chat template of a folder of safetensors. */
#ifndef GA_MODEL_FOLDER_TEMPLATE_H
#define GA_MODEL_FOLDER_TEMPLATE_H

#include "ga/chat.h"
#include "ga/model_file.h"

/* Compiles the chat template of a folder of safetensors. It is chat_template.jinja, else "chat_template" in
 * tokenizer_config.json. That is a text, or a list of named templates, of which "default" is taken, else the first.
 * *out NULL: there is none. */
GA_NODISCARD ga_status ga_folder_template(const ga_model_file *file, ga_template **out);

#endif
