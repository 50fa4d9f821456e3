/* Chat templates for models whose files have none, or to be used in the place of the file's. */
#ifndef GA_CLI_TEMPLATES_H
#define GA_CLI_TEMPLATES_H

#include "ga/chat.h"

/* "chatml, gemma, ...": what template_open knows by name. */
const char *template_names(void);
/* A known name, or a file in Jinja. Release: ga_template_destroy. */
ga_status template_open(const char *name_or_file, ga_template **out);

#endif
