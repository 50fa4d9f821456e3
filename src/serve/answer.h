/* Answers as JSON, whole or in chunks of server-sent events. */
#ifndef GA_SERVE_ANSWER_H
#define GA_SERVE_ANSWER_H

#include "serve/choice.h"

typedef struct sv_answer {
  const sv_request *request;
  const char *model; /* name under which the server offers the model */
  char id[48];
  int64_t created;    /* seconds since 1970-01-01 UTC */
  sv_choice *choices; /* [n] choices, those of one prompt next to each other */
  size_t n;
  int64_t prompt_tokens, cached_tokens;
  /* State of the events of an Anthropic message (anthropic.h). */
  const char *block; /* type of the open block; NULL = no block is open */
  size_t n_blocks;   /* number of closed blocks */
} sv_answer;

/* Writes {"prompt_tokens","completion_tokens","total_tokens","prompt_tokens_details"}. */
void sv_put_usage(sv_text *t, const sv_answer *a);
/* Writes the whole answer. All choices must have ended without an error. */
void sv_put_answer(sv_text *t, const sv_answer *a);
/* Writes the events for the new text of choice `index`, none to several, and removes that text from the choice. */
void sv_put_chunks(sv_text *t, const sv_answer *a, size_t index);
/* Writes the end of a stream: usage, if requested, and [DONE]. */
void sv_put_done(sv_text *t, const sv_answer *a);

#endif
