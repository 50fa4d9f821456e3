/* Names in a chat: roles, and functions. Other texts are refused, so that no name holds a marker of a template. */
#ifndef GA_SERVE_NAMES_H
#define GA_SERVE_NAMES_H

#include "ga/chat.h"
#include "serve/fields.h"

/* The most bytes of a function's name; OpenAI allows 64, MCP 128. */
enum { SV_FUNCTION_NAME = 128 };

/* Checks the form of a role: 1 to 64 letters, digits, '_' and '-'. */
bool sv_check_role(const json_t *role, sv_fail *fail);
/* Checks that the roles of all messages are roles of the template. */
bool sv_check_roles(const ga_template *tpl, const json_t *messages, sv_fail *fail);
/* Checks a function's name: 1 to SV_FUNCTION_NAME letters, digits, '_', '-', '.', ':' and '/'. `field` is for the error
 * text. */
bool sv_check_function(const char *field, const json_t *name, sv_fail *fail);
/* Refuses variables of a client that belong to the model or to fields of the request. */
bool sv_check_variables(const json_t *kwargs, sv_fail *fail);

#endif
