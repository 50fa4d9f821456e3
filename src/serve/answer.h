/* Answers as JSON, whole or in chunks of server-sent events. */
#ifndef GA_SERVE_ANSWER_H
#define GA_SERVE_ANSWER_H

#include "serve/choice.h"

typedef struct sv_answer {
  const sv_request *request;
  const char *model; /* as the server calls it */
  char id[48];
  int64_t created;    /* seconds since 1970 */
  sv_choice *choices; /* [n], n of each prompt beside each other */
  size_t n;
  int64_t prompt_tokens, cached_tokens;
  /* Events of a message (anthropic.h). */
  const char *block; /* type of the block that is open, NULL = none */
  size_t n_blocks;   /* that were closed */
} sv_answer;

/* {"prompt_tokens","completion_tokens","total_tokens","prompt_tokens_details"} */
void sv_put_usage(sv_text *t, const sv_answer *a);
/* The whole answer; all choices have ended without an error. */
void sv_put_answer(sv_text *t, const sv_answer *a);
/* The events for what choice `index` has new, which is taken from it: none, one or several. */
void sv_put_chunks(sv_text *t, const sv_answer *a, size_t index);
/* Behind the last chunk: usage where asked for, and [DONE]. */
void sv_put_done(sv_text *t, const sv_answer *a);

#endif
