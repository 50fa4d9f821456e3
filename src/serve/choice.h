/* One answer in the making: from the events of a ga_request to text, log-probabilities and a reason to end. */
#ifndef GA_SERVE_CHOICE_H
#define GA_SERVE_CHOICE_H

#include "serve/content.h"
#include "serve/request.h"
#include "serve/stops.h"

typedef struct sv_token {
  int32_t id;
  float logprob; /* NaN for the first token of a prompt */
  int32_t n_top;
  ga_token_logprob top[GA_MAX_TOP_LOGPROBS];
  size_t offset; /* characters of text before it */
} sv_token;

typedef struct sv_tokens {
  sv_token *p;
  size_t n, capacity;
} sv_tokens;

typedef struct sv_choice {
  const sv_params *params;
  const ga_tokenizer *tok;
  ga_request *request;
  ga_detok *detok, *prompt_detok;
  sv_stops stops;
  sv_content content;
  bool echo;
  sv_text text;             /* not sent yet */
  sv_tokens tokens, prompt; /* kept when log-probabilities are asked for; `tokens`: not sent yet */
  size_t chars, prompt_chars;
  int32_t n_generated;
  bool has_new_line;
  size_t line_at;     /* of text: where the line begins that is looked at, */
  bool is_later_line; /* which is not the first */
  double first_token; /* seconds, as of sv_choice_check_time; 0 = none yet */
  bool opened;        /* the first chunk was sent */
  bool ended, closed; /* closed: the last chunk was sent */
  const char *finish; /* "stop", "length", "abort", "error"; once ended */
  int32_t stop_id;    /* what ended it: a token besides the model's own; -1 = none */
  int stop_string;    /* number of the stop string, -1 = none */
  ga_status status;
  char error[256];
} sv_choice;

/* The request is to be submitted by the caller. echo: text that stands before what is generated, NULL = none. */
bool sv_choice_init(sv_choice *c, const sv_params *params, const ga_tokenizer *tok, const ga_text *echo, sv_fail *fail);
void sv_choice_free(sv_choice *c);
/* Takes what the request has ready, without waiting. Returns the number of tokens that were generated. */
int32_t sv_choice_pump(sv_choice *c);
/* An answer that takes longer than params->predict_seconds ends where it is, but not within its first line. */
void sv_choice_check_time(sv_choice *c, double now);
/* As sv_choice_pump for one event; for tests. */
void sv_choice_take(sv_choice *c, const ga_request_output *o);

#endif
