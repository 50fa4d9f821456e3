/* One answer while it is generated: turns the events of a ga_request into text, log-probabilities and a finish
 * reason. */
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
  size_t offset; /* number of characters of text before the token */
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
  sv_text text; /* generated text that was not sent yet */
  /* kept if log-probabilities are requested: tokens that were not sent yet, and tokens of the prompt */
  sv_tokens tokens, prompt;
  size_t chars, prompt_chars;
  int32_t n_generated;
  bool has_new_line;
  size_t line_at;     /* index in `text` where the current line starts */
  bool is_later_line; /* the current line is not the first */
  double first_token; /* time of the first token in seconds, as in sv_choice_check_time; 0 = no token yet */
  bool opened;        /* the first chunk was sent */
  bool ended;         /* the request has ended */
  bool closed;        /* the last chunk was sent */
  const char *finish; /* valid once the choice has ended: "stop", "length", "abort", "error" */
  int32_t stop_id;    /* stop token of the request that ended the answer; -1 = no stop token */
  int stop_string;    /* index of the stop string that ended the answer; -1 = no stop string */
  ga_status status;
  char error[256];
} sv_choice;

/* Initialises a choice; the caller submits its request. echo: text to put before the generated text, NULL = none. */
bool sv_choice_init(sv_choice *c, const sv_params *params, const ga_tokenizer *tok, const ga_text *echo, sv_fail *fail);
void sv_choice_free(sv_choice *c);
/* Takes the request's pending events, without waiting. Returns the number of generated tokens among them. */
int32_t sv_choice_pump(sv_choice *c);
/* Ends an answer that takes longer than params->predict_seconds; its first line is never cut. now: seconds. */
void sv_choice_check_time(sv_choice *c, double now);
/* Handles one event, as sv_choice_pump does. For tests. */
void sv_choice_take(sv_choice *c, const ga_request_output *o);

#endif
