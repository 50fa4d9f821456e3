/* Splits the output of a reasoning model: <think>...</think> is reasoning, the rest is content.
 *
 * The tag opens reasoning only at the beginning of the output, and only once: later tags are content. Reasoning that is
 * never closed stays reasoning. White space before and after <think> and </think> is dropped; before a tag at most 64
 * bytes of it. The division of the text into pushes changes only the division of the pieces. */
#ifndef GA_SERVE_REASONING_H
#define GA_SERVE_REASONING_H

#include "ga/base.h"

typedef struct reasoning_splitter reasoning_splitter;

/* Callbacks that receive the parts of the text. The text is valid only during the call. */
typedef struct reasoning_sink {
  void *user;
  void (*reasoning)(void *user, const char *text, size_t bytes);
  void (*content)(void *user, const char *text, size_t bytes);
} reasoning_sink;

/* Returns whether a chat template contains the tags. */
bool reasoning_detect(const char *chat_template_text, size_t bytes);
/* Returns whether a prompt ends in an open <think>: the output then starts inside of reasoning. */
bool reasoning_is_open(const char *prompt, size_t bytes);

/* Creates a splitter. starts_inside: the text starts inside of reasoning. GA_ERR_NOMEM. */
GA_NODISCARD ga_status reasoning_create(bool starts_inside, reasoning_splitter **out);
/* Takes text of whole UTF-8 sequences, and passes the parts that are decided to the sink. After GA_ERR_NOMEM the
 * stream has ended. */
GA_NODISCARD ga_status reasoning_push(reasoning_splitter *splitter, const char *text, size_t bytes,
                                      const reasoning_sink *sink);
/* Passes pending text to the sink and resets the splitter. */
void reasoning_finish(reasoning_splitter *splitter, const reasoning_sink *sink);
void reasoning_destroy(reasoning_splitter *splitter); /* NULL is fine */

#endif
