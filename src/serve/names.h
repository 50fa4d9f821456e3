/* Checks names in a chat: roles, and names of functions. Few kinds of characters are allowed in them, so that no name
 * contains a marker of the chat template. */
#ifndef GA_SERVE_NAMES_H
#define GA_SERVE_NAMES_H

#include "ga/chat.h"
#include "serve/fields.h"

/* Largest number of bytes in a function's name. OpenAI allows 64, MCP 128. */
enum { SV_FUNCTION_NAME = 128 };

/* Checks that a role consists of 1 to 64 letters, digits, '_' and '-'. Otherwise returns false with the reason in
 * *fail. */
bool sv_check_role(const json_t *role, sv_fail *fail);
/* Checks that the chat template knows the roles of all messages. Otherwise returns false with the reason in *fail. */
bool sv_check_roles(const ga_template *tpl, const json_t *messages, sv_fail *fail);
/* Checks that a function's name consists of 1 to SV_FUNCTION_NAME letters, digits, '_', '-', '.', ':' and '/'. `field`
 * names the field in the error text. */
bool sv_check_function(const char *field, const json_t *name, sv_fail *fail);
/* Checks the variables for the chat template that a client sends (chat_template_kwargs). Refuses names that belong to
 * the model or to other fields of the request. */
bool sv_check_variables(const json_t *kwargs, sv_fail *fail);

#endif
