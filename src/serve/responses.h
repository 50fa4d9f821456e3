/* OpenAI's Responses API. Its requests are translated to chat requests; its answers are lists of items (messages,
 * reasoning, tool calls). */
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
  json_t *input;     /* items of the request, an array */
  sv_turn *previous; /* the kept response (serve/turns.h) that the request continues; NULL = none */
  char *fields;      /* JSON members that a response repeats from its request, without braces; allocated with malloc */
  /* The fields below are the output so far. */
  sv_text items;     /* JSON of the complete items, separated by commas */
  size_t n_items;    /* number of complete items */
  const char *open;  /* type of the item that is being written: "message", "reasoning"; NULL = none is open */
  sv_text text;      /* text of the open item */
  sv_text logprobs;  /* JSON of the open message's log-probabilities, separated by commas */
  sv_text reasoning; /* all reasoning, whose tokens `usage` counts */
  uint64_t sequence; /* number of the next event */
} sv_response;

void sv_response_free(void *response);

/* Translates a request to a body for sv_request_chat, in *out, and takes over `body`. Fills in *r, of which only turns
 * and tenant are set before. Returns false after a failure, with the reason in *fail. */
bool sv_response_translate(json_t *body, sv_response *r, json_t **out, sv_fail *fail);
/* Adds items to the messages of a chat. Consecutive items of the assistant become one message. */
bool sv_response_add_items(const json_t *items, json_t *messages, sv_fail *fail);
/* Returns the request's items as the text of a JSON array, with ids made from the response's `id`. The caller frees it
 * with free. NULL: memory is short. */
char *sv_response_dump_input(sv_response *r, const char *id);

/* Writes the whole response, and adds it to the kept responses. The choice must have ended without an error. */
void sv_response_put_whole(sv_text *t, sv_answer *a);
/* Writes the events for new text, and removes that text from the choice. Once the choice has ended, writes the last
 * events, and adds the response to the kept responses. */
void sv_response_put_events(sv_text *t, sv_answer *a);
/* Writes the event of a failed response. */
void sv_response_put_failed(sv_text *t, sv_answer *a, const sv_fail *fail);

extern const sv_form sv_form_response;

/* Handlers of GET and DELETE /v1/responses/ID, GET /v1/responses/ID/input_items and POST /v1/responses/ID/cancel. */
enum MHD_Result sv_run_get_response(sv_call *call);
enum MHD_Result sv_run_delete_response(sv_call *call);
enum MHD_Result sv_run_post_response(sv_call *call);
/* Handles POST /v1/responses/input_tokens: counts the tokens of a request. */
enum MHD_Result sv_run_response_tokens(sv_call *call);

#endif
