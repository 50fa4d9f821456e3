/* From generated text to what a chat message says: reasoning, content and tool calls. */
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

/* All zero: text is content as it is. */
typedef struct sv_content {
  reasoning_splitter *splitter;
  tool_parser *parser;
  const json_t *tools;        /* of the request */
  sv_text content, reasoning; /* decided, not sent yet */
  sv_tool_call *calls;
  size_t n_calls, n_sent; /* so many calls were sent */
  bool failed;
} sv_content;

/* format: TOOL_FORMAT_NONE where the request has no tools. thinks: the output may begin with reasoning, is_inside: it
 * begins inside of it. tools: may be NULL; must live as long. */
GA_NODISCARD ga_status sv_content_init(sv_content *c, tool_format format, bool thinks, bool is_inside,
                                       const json_t *tools);
void sv_content_free(sv_content *c);
void sv_content_push(sv_content *c, const char *text, size_t n);
/* The end: what was held back is decided. */
void sv_content_finish(sv_content *c);
/* Is there anything that was not sent? */
bool sv_content_has_news(const sv_content *c);
void sv_content_sent(sv_content *c);
/* [{"index","id","type","function":{"name","arguments"}}, ...] of what was not sent; without indices for a whole
 * message. id: what ids of calls begin with. */
void sv_put_tool_calls(sv_text *t, const sv_content *c, const char *id, bool with_index);

#endif
