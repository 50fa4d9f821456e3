/* Splits the generated text of a chat message into its parts: reasoning, content and tool calls. */
#ifndef GA_SERVE_CONTENT_H
#define GA_SERVE_CONTENT_H

#include <jansson.h>

#include "serve/reasoning.h"
#include "serve/text.h"
#include "serve/tool_calls.h"

typedef struct sv_tool_call {
  char *name;
  sv_text arguments;
} sv_tool_call;

/* The parts of one message while its text is generated. All zero: the whole text is content. */
typedef struct sv_content {
  reasoning_splitter *splitter;
  tool_parser *parser;
  const json_t *tools; /* tools that the request offers to the model; NULL = none */
  sv_text content;     /* text that is known to be content and has not been sent yet */
  sv_text reasoning;   /* text that is known to be reasoning and has not been sent yet */
  sv_tool_call *calls;
  size_t n_calls; /* number of tool calls that have been found */
  size_t n_sent;  /* number of tool calls that have been sent */
  bool failed;    /* an allocation has failed, so that the parts are not complete */
} sv_content;

/* Initialises the parts of one message. format: format of tool calls, TOOL_FORMAT_NONE if the request has no tools.
 * thinks: the text may begin with reasoning. is_inside: the text begins inside of reasoning. tools: may be NULL; must
 * outlive *c. */
GA_NODISCARD ga_status sv_content_init(sv_content *c, tool_format format, bool thinks, bool is_inside,
                                       const json_t *tools);
void sv_content_free(sv_content *c);
void sv_content_push(sv_content *c, const char *text, size_t n);
/* Ends the text: decides whether its pending bytes are reasoning, content or calls. */
void sv_content_finish(sv_content *c);
/* Returns whether some content, reasoning or tool call has not been sent yet. */
bool sv_content_has_news(const sv_content *c);
void sv_content_sent(sv_content *c);
/* Writes the tool calls that have not been sent: [{"index","id","type","function":{"name","arguments"}}, ...].
 * with_index: false for a whole message, whose calls have no "index". id: prefix of the calls' ids. */
void sv_put_tool_calls(sv_text *t, const sv_content *c, const char *id, bool with_index);

#endif
