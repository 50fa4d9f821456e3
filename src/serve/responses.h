/* OpenAI's Responses API: its requests are translated to chat requests, answers are lists of items. */
#ifndef GA_SERVE_RESPONSES_H
#define GA_SERVE_RESPONSES_H

#include "serve/answer.h"
#include "serve/http.h"
#include "serve/turns.h"

/* The state of one response while it is generated. */
typedef struct sv_response {
  sv_turns *turns;
  uint64_t tenant;
  bool stores;       /* the response is kept once it is complete */
  json_t *input;     /* array of the request's items */
  sv_turn *previous; /* the turn that the request continues; NULL = none */
  char *fields;      /* members that a response repeats from its request, without braces; malloc'd */
  /* The output so far. */
  sv_text items;     /* complete items, separated by commas */
  size_t n_items;    /* number of complete items */
  const char *open;  /* type of the item that is being written: "message", "reasoning"; NULL = none is open */
  sv_text text;      /* text of the open item */
  sv_text logprobs;  /* log-probabilities of the open message, separated by commas */
  sv_text reasoning; /* all reasoning, whose tokens `usage` counts */
  uint64_t sequence; /* number of the next event */
} sv_response;

void sv_response_free(void *response);

/* Translates a request to a body for sv_request_chat, which *out gets, and fills a zeroed *r, whose turns and tenant
 * are set. Takes over `body`. */
bool sv_response_translate(json_t *body, sv_response *r, json_t **out, sv_fail *fail);
/* Adds items to the messages of a chat. Consecutive items of the assistant become one message. */
bool sv_response_add_items(const json_t *items, json_t *messages, sv_fail *fail);
/* Writes the request's items as a JSON array, malloc'd, with ids made of the response's `id`. NULL: no memory. */
char *sv_response_dump_input(sv_response *r, const char *id);

/* Writes the whole response and keeps it. The choice must have ended without an error. */
void sv_response_put_whole(sv_text *t, sv_answer *a);
/* Writes the events for new text and removes it from the choice. Once the choice has ended, writes the last events and
 * keeps the response. */
void sv_response_put_events(sv_text *t, sv_answer *a);
/* Writes the event of a failed response. */
void sv_response_put_failed(sv_text *t, sv_answer *a, const sv_fail *fail);

extern const sv_form sv_form_response;

/* GET and DELETE of /v1/responses/ID, GET of its input_items, and POST of its cancel. */
enum MHD_Result sv_run_get_response(sv_call *call);
enum MHD_Result sv_run_delete_response(sv_call *call);
enum MHD_Result sv_run_post_response(sv_call *call);
/* POST /v1/responses/input_tokens: counts the tokens of a request. */
enum MHD_Result sv_run_response_tokens(sv_call *call);

#endif
