/* Chat templates known by name, for models whose files have none, or in place of a model's own. */
#ifndef GA_CLI_TEMPLATES_H
#define GA_CLI_TEMPLATES_H

#include "ga/chat.h"

/* Returns the names that template_open knows, as "chatml, gemma, ...": a static string. */
const char *template_names(void);
/* Reads the source of a chat template by a known name, or from a file in the Jinja language. *text has a NUL at its
 * end; the caller frees it with free. */
ga_status template_read(const char *name_or_file, char **text);
/* Makes the source of a chat template of a Modelfile: a known name, or text in the Jinja language. *source is allocated
 * with malloc. GA_ERR_UNSUPPORTED: the text is in Go's template language, as Ollama's templates are. */
ga_status template_of_named(const char *text, char **source);
/* Opens a chat template by a known name, or from a file in the Jinja language. The caller releases it with
 * ga_template_destroy. */
ga_status template_open(const char *name_or_file, ga_template **out);

#endif
