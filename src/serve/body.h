/* A request's body as JSON, bounded in depth and in the number of values. Python's JSON is taken (text/json_io.h), as
 * servers written in Python take it; of equal keys the last counts. */
#ifndef GA_SERVE_BODY_H
#define GA_SERVE_BODY_H

#include <jansson.h>

#include "serve/fail.h"

enum {
  SV_JSON_DEPTH = 64,              /* the most levels of nested arrays and objects */
  SV_JSON_VALUES = 2 * 1024 * 1024 /* the most values of a body; each takes up to 100 bytes of memory */
};

/* Parses a JSON object, which the caller releases with json_decref. False: *fail has the reason. */
bool sv_body_parse(const char *text, size_t bytes, json_t **out, sv_fail *fail);
/* Returns whether a value is an object, and no number beyond 64 bits (ga_json_wide). */
bool sv_is_object(const json_t *value);

#endif
