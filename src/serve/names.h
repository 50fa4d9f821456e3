/* Names in a chat: roles, and functions. Other texts are refused, so that no name holds a marker of a template. */
#ifndef GA_SERVE_NAMES_H
#define GA_SERVE_NAMES_H

#include "ga/chat.h"
#include "serve/fields.h"

/* Bytes of a function's name: what OpenAI allows (64), and MCP. */
enum { SV_FUNCTION_NAME = 128 };

/* A role by its form alone: 1 to 64 letters, digits, '_' and '-'. */
bool sv_check_role(const json_t *role, sv_fail *fail);
/* The roles of all messages are among those of the template. */
bool sv_check_roles(const ga_template *tpl, const json_t *messages, sv_fail *fail);
/* 1 to SV_FUNCTION_NAME letters, digits, '_', '-', '.', ':' and '/'. `field` is for the error. */
bool sv_check_function(const char *field, const json_t *name, sv_fail *fail);
/* Variables that belong to the model or to fields of the request are not among a client's own. */
bool sv_check_variables(const json_t *kwargs, sv_fail *fail);

#endif
