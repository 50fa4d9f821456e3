/* JSON objects in a stream of text: finding their end, and reading calls from them. */
#ifndef GA_SERVE_TOOL_JSON_H
#define GA_SERVE_TOOL_JSON_H

#include <jansson.h>

#include "ga/base.h"

/* Bounds of one object. jansson's tree takes at most about 100 bytes for a value. */
enum { TOOL_JSON_DEPTH_MAX = 128, TOOL_JSON_VALUES_MAX = 65536, TOOL_NAME_MAX = 256 };

typedef enum tool_json_result { TOOL_JSON_MORE, TOOL_JSON_DONE, TOOL_JSON_BAD } tool_json_result;

typedef struct tool_json_scan {
  int state;
  bool escaped;                           /* the last byte was a backslash in a string */
  uint32_t depth;                         /* number of open objects and arrays */
  uint32_t values;                        /* number of values scanned so far */
  uint8_t is_object[TOOL_JSON_DEPTH_MAX]; /* [depth] the open level is an object; else it is an array */
} tool_json_scan;

/* Scans the next byte of an object or array, from a zeroed scan on. DONE at its last byte, BAD at the first wrong byte.
 * Numbers, words and escapes are not checked here but by the parser of the whole. */
tool_json_result tool_json_byte(tool_json_scan *scan, char c);

/* A call in a text: its name, which the caller frees, and the offset and length of the object of its arguments. */
typedef struct tool_json_call {
  char *name;
  size_t from, bytes;
} tool_json_call;

/* Reads {"name": ..., "arguments": {...}}. "parameters" may stand for "arguments"; "id" and "type" are ignored. False:
 * not a call, or no memory, which sets *no_memory. */
bool tool_json_read_call(const char *text, size_t bytes, tool_json_call *call, bool *no_memory);
/* Parses a text that is one object or array; release with json_decref. NULL: another text, beyond a bound, or no
 * memory, which sets *no_memory. */
json_t *tool_json_load(const char *text, size_t bytes, bool *no_memory);
/* Returns whether a name is valid: 1 to TOOL_NAME_MAX bytes without control characters. */
bool tool_json_is_name(const char *name, size_t bytes);

#endif
