/* Splits the output of a model, while it is generated, into content and tool calls.
 *
 * Formats, as models write them:
 *   hermes      <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number, with text between (Qwen too)
 *   qwen3_coder <tool_call><function=NAME><parameter=KEY>value</parameter>...</function></tool_call>, perhaps without
 *               <tool_call>
 *   llama3      {"name": ..., "parameters": {...}}, several with ';' between, as the whole output; <|python_tag|> may
 *               stand before them
 *   mistral     [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...], or [TOOL_CALLS]NAME[ARGS]{...}
 *
 * Text that is not a complete, valid call is content, with its markers: nothing is lost or invented. A call is passed
 * on when it is complete; for llama3 that is at the end of the output. A call whose JSON is complete counts although
 * the output ends before its closing tag. White space directly before a call is dropped, and also between the last call
 * and the end.
 *
 * The sequence of calls and of bytes of content does not depend on the division of the text into pushes. Some markers
 * are special tokens, which the text must contain. Use TOOL_FORMAT_NONE for requests without tools. A parser is used by
 * one thread. */
#ifndef GA_SERVE_TOOL_CALLS_H
#define GA_SERVE_TOOL_CALLS_H

#include "ga/base.h"

/* Bounds of a call. A call beyond them is content. TOOL_CALL_BYTES_MAX: the most bytes of one call with its markers, or
 * of one list of calls. */
#define TOOL_CALL_BYTES_MAX  ((size_t)1 << 20)
#define TOOL_CALL_LIST_MAX   64 /* the most calls in one list of mistral, or in one answer of llama3 */
#define TOOL_CALL_SPACES_MAX 64 /* the most consecutive white space between parts of the markup */

typedef enum tool_format {
  TOOL_FORMAT_NONE, /* the whole text is content */
  TOOL_FORMAT_HERMES,
  TOOL_FORMAT_QWEN3_CODER,
  TOOL_FORMAT_LLAMA3,
  TOOL_FORMAT_MISTRAL,
  TOOL_FORMAT_AUTO, /* the format follows from the chat template: tool_format_detect. No parser accepts it */
} tool_format;

/* Returns the format whose markers are in the text of a chat template; NONE: there are none. */
tool_format tool_format_detect(const char *chat_template_text, size_t bytes);
/* Finds a format by name: "hermes", "qwen" (the same), "qwen3_coder", "llama3", "mistral", "none", "auto". False:
 * another name. */
bool tool_format_by_name(const char *name, tool_format *out);
const char *tool_format_name(tool_format format);

/* Callbacks that take the pieces. Texts are valid only during the call. */
typedef struct tool_sink {
  void *user;
  void (*content)(void *user, const char *text, size_t bytes);
  void (*call_begin)(void *user, size_t index, const char *name); /* index: 0, 1, ... in the order of the text */
  void (*call_arguments)(void *user, size_t index, const char *json, size_t bytes); /* one JSON object, in one piece */
  void (*call_end)(void *user, size_t index);
  /* Returns whether a parameter is a string; qwen3_coder does not mark strings. NULL: a value is a string unless it
   * is JSON of another type. */
  bool (*is_string)(void *user, const char *function, const char *parameter);
} tool_sink;

typedef struct tool_parser tool_parser;

/* Creates a parser. GA_ERR_ARG: the format is AUTO or unknown. GA_ERR_NOMEM. */
GA_NODISCARD ga_status tool_parser_create(tool_format format, tool_parser **out);
/* Takes text and passes the decided part to the sink. Pieces end where a push ends, or at an ASCII byte: UTF-8
 * sequences stay whole if they are whole in each push. GA_ERR_NOMEM ends the stream: destroy the parser then. */
GA_NODISCARD ga_status tool_parser_push(tool_parser *parser, const char *text, size_t bytes, const tool_sink *sink);
/* Ends the output: passes pending text to the sink and resets the parser. */
void tool_parser_finish(tool_parser *parser, const tool_sink *sink);
void tool_parser_destroy(tool_parser *parser); /* NULL is fine */

#endif
