/* Functions that read and set fields of a JSON object. A field that is absent or null leaves *out unchanged. A value of
 * another type, or out of range, is refused. The functions then return false, and *fail names the field, the value seen
 * and the values allowed. */
#ifndef GA_SERVE_FIELDS_H
#define GA_SERVE_FIELDS_H

#include "serve/body.h"

/* Returns the value of field `key`; NULL: the field is absent or null. */
const json_t *sv_field(const json_t *object, const char *key);
/* Sets *fail to HTTP 400 with the text "`name` is `value`; must be `allowed`". Returns false. */
bool sv_refuse_value(sv_fail *fail, const char *name, const json_t *value, const char *allowed);

bool sv_read_bool(const json_t *object, const char *key, bool *out, sv_fail *fail);
/* Reads a whole number from min to max. 16.0 counts as a whole number. */
bool sv_read_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *out, sv_fail *fail);
bool sv_read_number(const json_t *object, const char *key, double min, double max, double *out, sv_fail *fail);
/* Reads a string that has no NUL characters. *out belongs to the JSON object. */
bool sv_read_string(const json_t *object, const char *key, const char **out, sv_fail *fail);
/* Sets *out to a JSON value that is a whole number from min to max. Returns false if the value is something else. */
bool sv_as_int(const json_t *value, int64_t min, int64_t max, int64_t *out);

/* Sets a field to a new value, which it takes over. Returns false if memory is short, as it is when value is NULL. */
bool sv_set_new(json_t *object, const char *key, json_t *value, sv_fail *fail);
/* Appends a new value, which it takes over. Returns false if memory is short, as it is when value is NULL. */
bool sv_append_new(json_t *array, json_t *value, sv_fail *fail);

#endif
