/* Splits the output of a reasoning model: text in <think>...</think> is reasoning, the rest is content.
 *
 * The tag opens reasoning only at the beginning of the output, and only once: later tags are content. Reasoning that is
 * never closed stays reasoning. White space before and after <think> and </think> is dropped, but before a tag at most
 * 64 bytes of it. The caller may push the text in any pieces: the bytes of reasoning and of content are the same. */
#ifndef GA_SERVE_REASONING_H
#define GA_SERVE_REASONING_H

#include "ga/base.h"

typedef struct reasoning_splitter reasoning_splitter;

/* Callbacks that receive the parts of the text. Each text is valid only during the call of the callback. */
typedef struct reasoning_sink {
  void *user;
  void (*reasoning)(void *user, const char *text, size_t bytes);
  void (*content)(void *user, const char *text, size_t bytes);
} reasoning_sink;

/* Returns whether the text of a chat template contains <think> or </think>. */
bool reasoning_detect(const char *chat_template_text, size_t bytes);
/* Returns whether a prompt ends with <think>, apart from white space. The model's output then starts inside of
 * reasoning. */
bool reasoning_is_open(const char *prompt, size_t bytes);

/* Creates a splitter, which reasoning_destroy frees. starts_inside: the text starts inside of reasoning. Returns GA_OK
 * or GA_ERR_NOMEM. */
GA_NODISCARD ga_status reasoning_create(bool starts_inside, reasoning_splitter **out);
/* Takes the next piece of text, which must have whole UTF-8 sequences. Passes the parts that are known to be reasoning
 * or content to the sink. After GA_ERR_NOMEM the splitter takes no more text. */
GA_NODISCARD ga_status reasoning_push(reasoning_splitter *splitter, const char *text, size_t bytes,
                                      const reasoning_sink *sink);
/* Ends the text: passes pending text to the sink, and resets the splitter. */
void reasoning_finish(reasoning_splitter *splitter, const reasoning_sink *sink);
void reasoning_destroy(reasoning_splitter *splitter); /* frees the splitter; NULL is accepted */

#endif
