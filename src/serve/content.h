/* Splits generated text into the parts of a chat message: reasoning, content and tool calls. */
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

/* The splitter of one answer. All zero: the whole text is content. */
typedef struct sv_content {
  reasoning_splitter *splitter;
  tool_parser *parser;
  const json_t *tools; /* tools of the request; NULL = none */
  sv_text content;     /* decided content that was not sent yet */
  sv_text reasoning;   /* decided reasoning that was not sent yet */
  sv_tool_call *calls;
  size_t n_calls; /* number of calls */
  size_t n_sent;  /* number of calls that were sent */
  bool failed;    /* out of memory: the content is not complete */
} sv_content;

/* Initialises the parts of one answer. format: TOOL_FORMAT_NONE if the request has no tools. thinks: the output may
 * begin with reasoning. is_inside: it begins inside of reasoning. tools: may be NULL; must outlive *c. */
GA_NODISCARD ga_status sv_content_init(sv_content *c, tool_format format, bool thinks, bool is_inside,
                                       const json_t *tools);
void sv_content_free(sv_content *c);
void sv_content_push(sv_content *c, const char *text, size_t n);
/* Ends the text: all pending bytes are decided. */
void sv_content_finish(sv_content *c);
/* Returns whether any content, reasoning or call was not sent yet. */
bool sv_content_has_news(const sv_content *c);
void sv_content_sent(sv_content *c);
/* Writes the calls that were not sent: [{"index","id","type","function":{"name","arguments"}}, ...]. with_index:
 * false for a whole message, which has no "index". id: prefix of the calls' ids. */
void sv_put_tool_calls(sv_text *t, const sv_content *c, const char *id, bool with_index);

#endif
