/* Splits the output of a model, while it is generated, into content and tool calls.
 *
 * Models write tool calls in one of these formats:
 *   hermes      <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number of calls with text between them;
 *               also written by Qwen models
 *   qwen3_coder <tool_call><function=NAME><parameter=KEY>value</parameter>...</function></tool_call>; some models leave
 *               out <tool_call>
 *   llama3      {"name": ..., "parameters": {...}}, several calls with ';' between them, as the whole output;
 *               <|python_tag|> may stand before them
 *   mistral     [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...], or [TOOL_CALLS]NAME[ARGS]{...}
 *
 * Text that is not a complete, valid call is content, together with its markers: nothing is lost or invented. A call is
 * passed on when it is complete; for llama3 that is at the end of the output. A call whose JSON is complete counts,
 * even if the output ends before its closing tag. White space directly before a call is dropped, and so is white space
 * between the last call and the end.
 *
 * The caller may push the text in any pieces: the calls and the bytes of content are the same. Some markers are special
 * tokens, whose text the pushed text must contain. TOOL_FORMAT_NONE is for requests without tools. Only one thread may
 * use a parser. */
#ifndef GA_SERVE_TOOL_CALLS_H
#define GA_SERVE_TOOL_CALLS_H

#include "ga/base.h"

/* TOOL_CALL_BYTES_MAX is the largest number of bytes of one call with its markers, or of one list of calls. A call
 * beyond one of these bounds is content. */
#define TOOL_CALL_BYTES_MAX  ((size_t)1 << 20)
#define TOOL_CALL_LIST_MAX   64 /* largest number of calls in one list of mistral, or in one answer of llama3 */
#define TOOL_CALL_SPACES_MAX 64 /* largest number of consecutive white-space bytes between parts of the markup */

typedef enum tool_format {
  TOOL_FORMAT_NONE, /* the whole text is content */
  TOOL_FORMAT_HERMES,
  TOOL_FORMAT_QWEN3_CODER,
  TOOL_FORMAT_LLAMA3,
  TOOL_FORMAT_MISTRAL,
  TOOL_FORMAT_AUTO, /* the chat template determines the format (tool_format_detect); no parser accepts this value */
} tool_format;

/* Returns the format whose markers are in the text of a chat template, or TOOL_FORMAT_NONE. */
tool_format tool_format_detect(const char *chat_template_text, size_t bytes);
/* Sets *out to the format of a name: "hermes", "qwen" (the same), "qwen3_coder", "llama3", "mistral", "none", "auto".
 * Returns false for another name. */
bool tool_format_by_name(const char *name, tool_format *out);
const char *tool_format_name(tool_format format);

/* Callbacks that receive the pieces of content and the calls. Texts are valid only during the call of the callback. */
typedef struct tool_sink {
  void *user;
  void (*content)(void *user, const char *text, size_t bytes);
  /* index: 0, 1, ... in the order of the calls in the text */
  void (*call_begin)(void *user, size_t index, const char *name);
  void (*call_arguments)(void *user, size_t index, const char *json, size_t bytes); /* json: a whole JSON object */
  void (*call_end)(void *user, size_t index);
  /* Returns whether a parameter of a function is a string, because qwen3_coder does not mark strings. NULL: a value is
   * a string unless it is JSON of another type. */
  bool (*is_string)(void *user, const char *function, const char *parameter);
} tool_sink;

typedef struct tool_parser tool_parser;

/* Creates a parser, which tool_parser_destroy frees. Returns GA_ERR_ARG if the format is AUTO or unknown, and
 * GA_ERR_NOMEM if memory is short. */
GA_NODISCARD ga_status tool_parser_create(tool_format format, tool_parser **out);
/* Takes the next piece of text. Passes the parts that are known to be content or calls to the sink. UTF-8 sequences
 * that are whole in each push are whole in the sink's pieces. After GA_ERR_NOMEM the caller must destroy the parser. */
GA_NODISCARD ga_status tool_parser_push(tool_parser *parser, const char *text, size_t bytes, const tool_sink *sink);
/* Ends the text: passes pending text to the sink and resets the parser. */
void tool_parser_finish(tool_parser *parser, const tool_sink *sink);
void tool_parser_destroy(tool_parser *parser); /* frees the parser; NULL is accepted */

#endif
