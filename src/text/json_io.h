/* Converts JSON text to jansson's values and back, without jansson's own reader and writer. In version 2.14 both
 * continue after a failed allocation: the reader copies past the end of its buffer, the writer omits keys. See
 * docs/adr/0009-json-reader.md.
 *
 * All functions are safe when an allocation fails: they return NULL, free everything that they have allocated, and
 * leave their arguments unchanged. Results do not depend on the locale. */
#ifndef GA_TEXT_JSON_IO_H
#define GA_TEXT_JSON_IO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Largest number of levels of nested arrays and objects. Deeper texts are refused. */
#define GA_JSON_DEPTH 2048
/* Largest size in bytes of a file that ga_json_load_file reads. */
#define GA_JSON_FILE_BYTES ((size_t)256 << 20)

/* Flag of ga_json_load: reads all that Python's json module reads. Keys and strings may have \u0000. NaN, Infinity and
 * -Infinity are numbers, and so is a real number beyond doubles, which becomes one of them. An integer may have up to
 * 4300 digits. A number that jansson cannot hold becomes a value that ga_json_wide knows. */
#define GA_JSON_PYTHON ((size_t)1 << 24)

/* Returns the text of a number that jansson cannot hold: an integer beyond 64 bits, "NaN", "Infinity" or "-Infinity".
 * NULL: the value is not such a number. Such a number is an object whose only key is not UTF-8. No JSON text makes such
 * an object, and no function takes it for an integer, a string or a list. ga_json_dump writes the number as it was
 * read. */
const char *ga_json_wide(const json_t *value);

/* Reads `bytes` bytes of UTF-8 as one JSON value. It must be an array or an object unless flags has JSON_DECODE_ANY.
 * Further flags: JSON_REJECT_DUPLICATES, JSON_ALLOW_NUL (in strings, not in keys), JSON_DECODE_INT_AS_REAL,
 * GA_JSON_PYTHON. Without JSON_REJECT_DUPLICATES the last of several equal keys counts. The caller releases the result
 * with json_decref. Returns NULL on failure. *error_or_null then has line, column (in characters), position (in bytes),
 * a text and a code. The code is json_error_out_of_memory if and only if memory is short. */
json_t *ga_json_load(const char *text, size_t bytes, size_t flags, json_error_t *error_or_null);

/* Reads a whole file as ga_json_load reads a text. If the file cannot be read, the error has the code
 * json_error_cannot_open_file and errno's text. */
json_t *ga_json_load_file(const char *path, size_t flags, json_error_t *error_or_null);

/* Flag of ga_json_dump: NaN, Infinity and -Infinity become null, so that strict readers take the text. */
#define GA_JSON_FINITE ((size_t)1 << 25)

/* Writes a value as JSON text with a NUL at its end; the caller frees it with free. flags are GA_JSON_FINITE and flags
 * of json_dumps: JSON_COMPACT, JSON_INDENT, JSON_REAL_PRECISION, JSON_ENCODE_ANY. Returns NULL if memory is short, the
 * value is NULL, or a string in it is not UTF-8. Also returns NULL if it is no array or object and flags lacks
 * JSON_ENCODE_ANY. */
char *ga_json_dump(const json_t *value, size_t flags);

/* Returns whether `bytes` bytes are valid UTF-8. */
bool ga_json_is_utf8(const char *text, size_t bytes);

/* Makes a deep copy of a value, which the caller releases with json_decref. Returns NULL if memory is short, the value
 * is NULL, or it is deeper than GA_JSON_DEPTH. */
json_t *ga_json_copy(const json_t *value);

#endif
