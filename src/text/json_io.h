/* Converts JSON text to jansson's values and back. jansson's own reader and writer are not called. In version 2.14 both
 * continue after a failed allocation: the reader copies past the end of its buffer, the writer omits keys. See
 * docs/adr/0009-json-reader.md.
 *
 * All functions are safe where any allocation fails: they return NULL, free what they made, and leave their arguments
 * unchanged. Results do not depend on the locale. */
#ifndef GA_TEXT_JSON_IO_H
#define GA_TEXT_JSON_IO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The most levels of nested arrays and objects; deeper texts are refused. */
#define GA_JSON_DEPTH 2048
/* The most bytes of a file that ga_json_load_file reads. */
#define GA_JSON_FILE_BYTES ((size_t)256 << 20)

/* Flag of ga_json_load: what Python's json module reads is taken. Keys and texts may hold \u0000. NaN, Infinity and
 * -Infinity are numbers; a real number beyond doubles is one of them, and an integer may have up to 4300 digits.
 * Numbers that jansson cannot hold become what ga_json_wide knows. */
#define GA_JSON_PYTHON ((size_t)1 << 24)

/* Returns the text of a number that jansson cannot hold: an integer beyond 64 bits, "NaN", "Infinity" or "-Infinity".
 * NULL: the value is another one. Such a number is an object whose only key is not UTF-8: no other text makes one, and
 * nothing takes it for an integer, a text or a list. ga_json_dump writes it as it was read. */
const char *ga_json_wide(const json_t *value);

/* Reads `bytes` bytes of UTF-8 as one JSON value, an array or an object unless JSON_DECODE_ANY is given. Further flags:
 * JSON_REJECT_DUPLICATES, JSON_ALLOW_NUL (in texts, not in keys), JSON_DECODE_INT_AS_REAL, GA_JSON_PYTHON. Without
 * JSON_REJECT_DUPLICATES the last of several equal keys counts. Release the result with json_decref.
 * NULL on failure: *error_or_null then has line, column (in characters), position (in bytes), a text and a code;
 * json_error_out_of_memory if and only if memory is short. */
json_t *ga_json_load(const char *text, size_t bytes, size_t flags, json_error_t *error_or_null);

/* Reads a whole file as ga_json_load does. A file that cannot be read gives json_error_cannot_open_file and errno's
 * text. */
json_t *ga_json_load_file(const char *path, size_t flags, json_error_t *error_or_null);

/* Writes a value as text, NUL-terminated; release with free. Flags are of json_dumps: JSON_COMPACT, JSON_INDENT,
 * JSON_REAL_PRECISION, JSON_ENCODE_ANY. NULL: memory is short; the value is NULL; a text in it is not UTF-8; it is no
 * array or object and JSON_ENCODE_ANY is not given. */
char *ga_json_dump(const json_t *value, size_t flags);

/* Returns whether the bytes are valid UTF-8. */
bool ga_json_is_utf8(const char *text, size_t bytes);

/* Makes a copy that shares nothing with the value. NULL: memory is short, the value is NULL, or it is deeper than
 * GA_JSON_DEPTH. */
json_t *ga_json_copy(const json_t *value);

#endif
