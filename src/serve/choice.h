/* A choice: one completion of a prompt, while it is generated. The events of its ga_request become text,
 * log-probabilities and a finish reason. */
#ifndef GA_SERVE_CHOICE_H
#define GA_SERVE_CHOICE_H

#include "serve/content.h"
#include "serve/request.h"
#include "serve/stops.h"

typedef struct sv_token {
  int32_t id;
  float logprob; /* log-probability of the token; NaN for the first token of a prompt */
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
  sv_text text; /* generated text that has not been sent yet */
  /* generated tokens that have not been sent yet, and tokens of the prompt; kept if log-probabilities or ids are
   * requested */
  sv_tokens tokens, prompt;
  size_t chars, prompt_chars;
  int32_t n_generated;
  bool has_new_line;
  size_t line_at;     /* index in `text` where the current line of the text starts */
  bool is_later_line; /* the current line is not the first, and its indentation has not been checked yet */
  double first_token; /* time of the first token in seconds, on the clock of sv_choice_check_time; 0 = no token yet */
  bool opened;        /* the first chunk of the stream has been sent */
  bool ended;         /* the choice has ended: no more text follows */
  bool closed;        /* the last chunk of the stream has been sent */
  const char *finish; /* finish reason, valid once the choice has ended: "stop", "length", "abort", "error" */
  int32_t stop_id;    /* id of the stop token that ended the choice; -1 = no stop token did */
  int stop_string;    /* index of the stop string that ended the choice; -1 = no stop string did */
  ga_status status;
  char error[256];
} sv_choice;

/* Initialises a choice. The caller submits its request afterwards. echo: text to put before the generated text, NULL =
 * none. Returns false after a failure, with the reason in *fail. */
bool sv_choice_init(sv_choice *c, const sv_params *params, const ga_tokenizer *tok, const ga_text *echo, sv_fail *fail);
void sv_choice_free(sv_choice *c);
/* Handles the events of the request that have arrived, without waiting. Returns the number of generated tokens among
 * them. */
int32_t sv_choice_pump(sv_choice *c);
/* Ends a choice when more than params->predict_seconds seconds have passed since its first token. A choice that is
 * still in its first line goes on. now: the time in seconds. */
void sv_choice_check_time(sv_choice *c, double now);
/* Handles one event of the choice's request. sv_choice_pump and tests call it. */
void sv_choice_take(sv_choice *c, const ga_request_output *o);

#endif
