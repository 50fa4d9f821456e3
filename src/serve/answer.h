/* Writes answers in the form of OpenAI's API: whole as JSON, or in chunks as server-sent events. */
#ifndef GA_SERVE_ANSWER_H
#define GA_SERVE_ANSWER_H

#include "serve/choice.h"

typedef struct sv_answer {
  const sv_request *request;
  const char *model; /* name under which the server offers the model */
  char id[48];
  int64_t created;    /* time when the answer was created, in seconds since 1970-01-01 UTC */
  sv_choice *choices; /* [n] choices; the choices of one prompt are next to each other */
  size_t n;
  int64_t prompt_tokens, cached_tokens;
  /* The fields below are the state of the event stream of an Anthropic message (anthropic.h). */
  const char *block; /* type of the content block that is open; NULL = no block is open */
  size_t n_blocks;   /* number of content blocks that have been closed */
  void *state;       /* state of the form (sv_form) that writes the answer, freed by state_free; NULL = none */
  void (*state_free)(void *state);
} sv_answer;

/* Writes the answer's usage: {"prompt_tokens","completion_tokens","total_tokens","prompt_tokens_details"}. */
void sv_put_usage(sv_text *t, const sv_answer *a);
/* Writes the whole answer as one JSON object. All choices must have ended without an error. */
void sv_put_answer(sv_text *t, sv_answer *a);
/* Writes the events, none to several, for the new text of choice number `index`. Removes that text from the choice. */
void sv_put_chunks(sv_text *t, const sv_answer *a, size_t index);
/* Writes the end of a stream of events: the usage, if the request asks for it, and [DONE]. */
void sv_put_done(sv_text *t, const sv_answer *a);

#endif
