/* Parses the body of a request as JSON. Its depth and its number of values are bounded. All JSON that Python's json
 * module reads is accepted (text/json_io.h), as servers written in Python do. Of equal keys the last counts. */
#ifndef GA_SERVE_BODY_H
#define GA_SERVE_BODY_H

#include <jansson.h>

#include "serve/fail.h"

enum {
  SV_JSON_DEPTH = 64,              /* largest number of levels of nested arrays and objects */
  SV_JSON_VALUES = 2 * 1024 * 1024 /* largest number of values in a body; each takes up to 100 bytes of memory */
};

/* Parses a text that is a JSON object. The caller releases *out with json_decref. Returns false after a failure, with
 * the reason in *fail. */
bool sv_body_parse(const char *text, size_t bytes, json_t **out, sv_fail *fail);
/* Returns whether a value is a JSON object. Returns false for a number beyond 64 bits, which ga_json_load stores as an
 * object, too (ga_json_wide). */
bool sv_is_object(const json_t *value);

#endif
