/* Fields of a JSON object. A field that is absent or null leaves the value as it is; another type, or a value out of
 * range, is refused with the field, the value seen and what is allowed. */
#ifndef GA_SERVE_FIELDS_H
#define GA_SERVE_FIELDS_H

#include "serve/body.h"

/* The field, NULL when it is absent or null. */
const json_t *sv_field(const json_t *object, const char *key);
/* 400: `name` is `value`; must be `allowed`. */
bool sv_refuse_value(sv_fail *fail, const char *name, const json_t *value, const char *allowed);

bool sv_read_bool(const json_t *object, const char *key, bool *out, sv_fail *fail);
/* Whole numbers; 16.0 is one. */
bool sv_read_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *out, sv_fail *fail);
bool sv_read_number(const json_t *object, const char *key, double min, double max, double *out, sv_fail *fail);
/* Owned by the object, without NUL characters. */
bool sv_read_string(const json_t *object, const char *key, const char **out, sv_fail *fail);
/* Is the value a whole number in [min, max]? */
bool sv_as_int(const json_t *value, int64_t min, int64_t max, int64_t *out);

#endif
