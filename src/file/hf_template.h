/* Finds the chat templates of a folder of safetensors. */
#ifndef GA_FILE_HF_TEMPLATE_H
#define GA_FILE_HF_TEMPLATE_H

#include "file/model_store.h"

/* Metadata keys of chat templates, which GGUF files have too: the main one, the one for tools, and the list of names of
 * all. */
#define GA_CHAT_TEMPLATE   "tokenizer.chat_template"
#define GA_TOOL_TEMPLATE   "tokenizer.chat_template.tool_use"
#define GA_NAMED_TEMPLATES "tokenizer.chat_templates"
/* metadata key of the reason why a folder's chat template cannot be read */
#define GA_CHAT_TEMPLATE_ERROR "ga.chat_template_error"

/* Adds the folder's chat template, and its template for conversations with tools, to the metadata. They are the files
 * chat_template.jinja and additional_chat_templates/tool_use.jinja. Otherwise they are the value of "chat_template" in
 * tokenizer_config.json or chat_template.json: a text, a list of named templates, or an object of them. Of several
 * templates "default" counts, else the first; "tool_use" is the template for tools. A template that cannot be read is
 * no error, since raw prompts need no template. The reason becomes the value of the key GA_CHAT_TEMPLATE_ERROR. */
GA_NODISCARD ga_status ga_hf_templates(ga_model_file *file);

#endif
