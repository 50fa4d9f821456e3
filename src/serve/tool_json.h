/* JSON objects in a stream of text: functions that find their end and read tool calls from them. */
#ifndef GA_SERVE_TOOL_JSON_H
#define GA_SERVE_TOOL_JSON_H

#include <jansson.h>

#include "ga/base.h"

/* Bounds of a JSON object: levels, values, and bytes of a function's name. jansson's tree takes at most about 100 bytes
 * for a value. */
enum { TOOL_JSON_DEPTH_MAX = 128, TOOL_JSON_VALUES_MAX = 65536, TOOL_NAME_MAX = 256 };

typedef enum tool_json_result { TOOL_JSON_MORE, TOOL_JSON_DONE, TOOL_JSON_BAD } tool_json_result;

typedef struct tool_json_scan {
  int state;
  bool escaped;                           /* the last byte was a backslash inside a string */
  uint32_t depth;                         /* number of open objects and arrays */
  uint32_t values;                        /* number of values seen so far */
  uint8_t is_object[TOOL_JSON_DEPTH_MAX]; /* [depth] for each open level: true for an object, false for an array */
} tool_json_scan;

/* Scans the next byte of a JSON object or array. *scan must be all zero before the first byte. Returns TOOL_JSON_DONE
 * at the last byte, TOOL_JSON_BAD at the first wrong byte, otherwise TOOL_JSON_MORE. Numbers, words and escapes are not
 * checked; tool_json_load checks them. */
tool_json_result tool_json_byte(tool_json_scan *scan, char c);

/* A tool call in a text. `name` is the function's name, which the caller frees. The JSON object of the arguments has
 * `bytes` bytes from offset `from` on. */
typedef struct tool_json_call {
  char *name;
  size_t from, bytes;
} tool_json_call;

/* Reads a tool call {"name": ..., "arguments": {...}}. "parameters" may stand for "arguments"; "id" and "type" are
 * ignored. Returns false if the text is no call. Also returns false if memory is short, and then sets *no_memory. */
bool tool_json_read_call(const char *text, size_t bytes, tool_json_call *call, bool *no_memory);
/* Parses a text that is one JSON object or array. The caller releases the result with json_decref. Returns NULL for
 * other texts, and for values beyond a bound. Also returns NULL if memory is short, and then sets *no_memory. */
json_t *tool_json_load(const char *text, size_t bytes, bool *no_memory);
/* Returns whether a function's name is valid: 1 to TOOL_NAME_MAX bytes without control characters. */
bool tool_json_is_name(const char *name, size_t bytes);

#endif
