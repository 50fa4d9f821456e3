/* Reads fields of a JSON object. A field that is absent or null leaves *out unchanged. Another type, or a value out of
 * range, is refused; the text has the field, the value seen and the values allowed. */
#ifndef GA_SERVE_FIELDS_H
#define GA_SERVE_FIELDS_H

#include "serve/body.h"

/* Returns the field of a key; NULL: it is absent or null. */
const json_t *sv_field(const json_t *object, const char *key);
/* Refuses a value with HTTP 400: "`name` is `value`; must be `allowed`". */
bool sv_refuse_value(sv_fail *fail, const char *name, const json_t *value, const char *allowed);

bool sv_read_bool(const json_t *object, const char *key, bool *out, sv_fail *fail);
/* Reads a whole number; 16.0 counts as one. */
bool sv_read_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *out, sv_fail *fail);
bool sv_read_number(const json_t *object, const char *key, double min, double max, double *out, sv_fail *fail);
/* Reads a string without NUL characters; *out is owned by the object. */
bool sv_read_string(const json_t *object, const char *key, const char **out, sv_fail *fail);
/* Reads a whole number in [min, max]. False: the value is something else. */
bool sv_as_int(const json_t *value, int64_t min, int64_t max, int64_t *out);

#endif
