/* Splits the output of a model, as it comes, into content and tool calls.
 *
 * Formats, as models write them:
 *   hermes      <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number, with text between (Qwen too)
 *   qwen3_coder <tool_call><function=NAME><parameter=KEY>value</parameter>...</function></tool_call>, perhaps without
 *               <tool_call>
 *   llama3      {"name": ..., "parameters": {...}}, several with ';' between, as the whole output; <|python_tag|> may
 *               stand before them
 *   mistral     [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...], or [TOOL_CALLS]NAME[ARGS]{...}
 *
 * What is not a whole, valid call is content, markers included: nothing is lost and nothing is made up. A call is given
 * out when it is complete; for llama3 that is at the end of the output. A call whose JSON is complete counts although
 * the output ends before its closing tag. White space directly before a call is dropped, and so is that between the
 * last call and the end.
 *
 * The sequence of calls and of bytes of content does not depend on how the text is cut into pushes. Some markers are
 * special tokens of the vocabulary: the text must be one that keeps them. Use TOOL_FORMAT_NONE for requests without
 * tools. One parser is one thread's. */
#ifndef GA_SERVE_TOOL_CALLS_H
#define GA_SERVE_TOOL_CALLS_H

#include "ga/base.h"

/* Bounds. A call that is beyond them is content. */
#define TOOL_CALL_BYTES_MAX  ((size_t)1 << 20) /* of one call with its markers, or of one list of calls */
#define TOOL_CALL_LIST_MAX   64                /* calls in one list of mistral, or in one answer of llama3 */
#define TOOL_CALL_SPACES_MAX 64                /* consecutive white space between parts of the markup */

typedef enum tool_format {
  TOOL_FORMAT_NONE, /* all is content */
  TOOL_FORMAT_HERMES,
  TOOL_FORMAT_QWEN3_CODER,
  TOOL_FORMAT_LLAMA3,
  TOOL_FORMAT_MISTRAL,
  TOOL_FORMAT_AUTO, /* as the chat template says: tool_format_detect; no parser takes it */
} tool_format;

/* Goes by the markers in the text of a chat template; NONE where there are none. */
tool_format tool_format_detect(const char *chat_template_text, size_t bytes);
/* "hermes", "qwen" (the same), "qwen3_coder", "llama3", "mistral", "none", "auto". False: another name. */
bool tool_format_by_name(const char *name, tool_format *out);
const char *tool_format_name(tool_format format);

/* Where the pieces go. Texts are valid only during the call. */
typedef struct tool_sink {
  void *user;
  void (*content)(void *user, const char *text, size_t bytes);
  void (*call_begin)(void *user, size_t index, const char *name); /* index: 0, 1, ... in the order of the text */
  void (*call_arguments)(void *user, size_t index, const char *json, size_t bytes); /* one JSON object, in one piece */
  void (*call_end)(void *user, size_t index);
  /* qwen3_coder does not mark strings. May be NULL: then a value is a string unless it is JSON of another type. */
  bool (*is_string)(void *user, const char *function, const char *parameter);
} tool_sink;

typedef struct tool_parser tool_parser;

/* GA_ERR_ARG: AUTO or no format. GA_ERR_NOMEM. */
GA_NODISCARD ga_status tool_parser_create(tool_format format, tool_parser **out);
/* Takes in text and gives out what is decided. Pieces end where a push does, or at an ASCII byte: UTF-8 sequences stay
 * whole if they are whole in each push. GA_ERR_NOMEM ends the stream: destroy the parser then. */
GA_NODISCARD ga_status tool_parser_push(tool_parser *parser, const char *text, size_t bytes, const tool_sink *sink);
/* The output has ended: gives out what is held. Then the parser is as after its creation. */
void tool_parser_finish(tool_parser *parser, const tool_sink *sink);
void tool_parser_destroy(tool_parser *parser); /* NULL is fine */

#endif
