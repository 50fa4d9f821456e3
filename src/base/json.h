/* JSON texts of files, with GA's errors and bounds. Duplicate keys are refused. */
#ifndef GA_BASE_JSON_H
#define GA_BASE_JSON_H

#include <jansson.h>

#include "ga/base.h"

/* JSON: config, index and safetensors header. The format allows 100 MB; 10^5 tensors take 15 MB. */
#define GA_JSON_MAX_BYTES (32 << 20)
/* Bound on the bytes of a parsed tree: GA_JSON_TREE_TIMES the text's bytes plus GA_JSON_TREE_FREE. Measured trees, in
 * multiples of the text: headers of many tensors 8 to 16, merges as pairs without white space 25 to 35. Arrays of empty
 * texts take 36, arrays of empty arrays 112. */
#define GA_JSON_TREE_TIMES 32
#define GA_JSON_TREE_FREE  ((uint64_t)64 << 20)

/* The text must be an object. Release with json_decref. */
GA_NODISCARD ga_status ga_json_parse(const char *label, const char *text, size_t bytes, json_t **out);
GA_NODISCARD ga_status ga_json_read_file(const char *path, json_t **out);
/* "an integer", "a text": for error texts. */
const char *ga_json_type_name(const json_t *value);
/* Follows names separated by dots; NULL when one is absent, null, or not in an object. */
const json_t *ga_json_at(const json_t *object, const char *path);

#endif
