/* A request's body as JSON: bounded in depth and in the number of values, without duplicate keys. */
#ifndef GA_SERVE_BODY_H
#define GA_SERVE_BODY_H

#include <jansson.h>

#include "serve/fail.h"

enum {
  SV_JSON_DEPTH = 64,              /* most nested arrays and objects */
  SV_JSON_VALUES = 2 * 1024 * 1024 /* most values of a body; each takes up to 100 bytes of memory */
};

/* Parses an object; release with json_decref. */
bool sv_body_parse(const char *text, size_t bytes, json_t **out, sv_fail *fail);

#endif
