/* JSON texts of files, with GA's error texts and limits. */
#ifndef GA_BASE_JSON_H
#define GA_BASE_JSON_H

#include <jansson.h>

#include "ga/base.h"

/* Largest size of a JSON text in bytes: a config, an index or a safetensors header. The safetensors format allows
 * headers of 100 MB; a header of 10^5 tensors has 15 MB. */
#define GA_JSON_MAX_BYTES (32 << 20)
/* Limit of the bytes of a parsed tree: GA_JSON_TREE_TIMES times the text's bytes, plus GA_JSON_TREE_FREE. Measured
 * trees have these multiples of the text's bytes: safetensors headers 8 to 16, merges of tokenizers 25 to 35 (pairs
 * without white space). Arrays of empty texts have 36, arrays of empty arrays 112. */
#define GA_JSON_TREE_TIMES 32
#define GA_JSON_TREE_FREE  ((uint64_t)64 << 20)

/* Parses a text, which must be a JSON object, and accepts all that Python's json module accepts (GA_JSON_PYTHON of
 * text/json_io.h). If a key occurs several times, its last value counts. `label` names the text in error texts. Release
 * *out with json_decref. */
GA_NODISCARD ga_status ga_json_parse(const char *label, const char *text, size_t bytes, json_t **out);
/* Parses a text like ga_json_parse, but by the JSON standard, and refuses duplicate keys. It is for headers of
 * safetensors files. */
GA_NODISCARD ga_status ga_json_parse_strict(const char *label, const char *text, size_t bytes, json_t **out);
/* Reads a file and parses it like ga_json_parse. */
GA_NODISCARD ga_status ga_json_read_file(const char *path, json_t **out);
/* Reads a file and parses it like ga_json_parse, but the text must be an array. */
GA_NODISCARD ga_status ga_json_read_list(const char *path, json_t **out);
/* Returns the name of a value's type for error texts, such as "an integer" or "a text". */
const char *ga_json_type_name(const json_t *value);
/* Returns the value at a path of names separated by dots. NULL: a name is absent, the value is null, or a value on the
 * way is not an object. */
const json_t *ga_json_at(const json_t *object, const char *path);

#endif
