/* The body of a request that generates text, as one struct. The functions need no model. */
#ifndef GA_SERVE_REQUEST_H
#define GA_SERVE_REQUEST_H

#include "serve/params.h"

enum { SV_MAX_PROMPTS = 256, SV_MAX_CHOICES = 512, SV_MAX_MESSAGES = 65536 };

/* One prompt of a request: a text owned by the request's body, or ids allocated with malloc. */
typedef struct sv_prompt {
  const char *text; /* NULL = the prompt is given by ids */
  size_t bytes;
  int32_t *ids;
  size_t n_ids;
} sv_prompt;

typedef struct sv_request {
  json_t *body;
  sv_params p;
  const char *model; /* name of the model in the request; NULL = not given */
  bool is_chat;
  bool echo;           /* the answer begins with the prompt */
  bool clips_length;   /* a max_tokens beyond the context is reduced to the tokens that the context has room for */
  bool has_gap;        /* completions: the answer fills the gap between a prompt and `suffix` (fill in the middle) */
  bool fits_gap;       /* the texts around the gap may be cut until they fit into the context */
  ga_text suffix;      /* text after the gap, owned by the body */
  ga_text line;        /* text between the prompt and the gap, which is never cut; owned by the body */
  const json_t *extra; /* further texts that are put before the prompt: [{"filename", "text"}]; NULL = none */
  sv_prompt *prompts;  /* [n_prompts] prompts of a completion */
  size_t n_prompts;
  json_t *context;     /* chats: variables of the chat template, such as messages and tools */
  bool continue_final; /* chats: the answer continues the last message */
  /* tool_choice of the request: "auto", "none", "required", or "function" if it names one function; NULL = not given */
  const char *tool_choice;
} sv_request;

/* Reads the body of a completion into *out, and takes over the body, also after a failure. vocab: token ids must be
 * below it. The caller frees *out with sv_request_free in either case. */
bool sv_request_completion(json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
/* Reads the body of a chat into *out, and takes over the body, also after a failure. vocab: token ids must be below it.
 * The caller frees *out with sv_request_free in either case. */
bool sv_request_chat(json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
void sv_request_free(sv_request *r);
/* Checks that n_prompts prompts with p.n choices each make at most SV_MAX_CHOICES choices. */
bool sv_check_choices(const sv_request *r, sv_fail *fail);

/* Reads the prompts that field `key` has, at most `most`. Its value is a string, an array of strings, an array of ids,
 * or an array of arrays of ids. */
bool sv_read_prompts(const json_t *body, const char *key, int64_t vocab, size_t most, sv_prompt **out, size_t *n,
                     sv_fail *fail);
void sv_prompts_free(sv_prompt *prompts, size_t n);

/* Makes the variables of the chat template from a chat's body: messages, tools, add_generation_prompt and so on. The
 * caller releases *out with json_decref. */
bool sv_chat_context(const json_t *body, json_t **out, bool *continue_final, sv_fail *fail);

/* Fills in `tools` of a chat from the `tools` of another interface: calls `add` for each, which checks one and appends
 * it to the chat's. allowed: what an error says `tools` must be. */
bool sv_add_tools(const json_t *body, json_t *chat, const char *allowed,
                  bool (*add)(const json_t *tool, json_t *tools, sv_fail *fail), sv_fail *fail);
/* Lets the answer continue the last message, if that is the assistant's and has no tool calls. */
bool sv_continue_last(const json_t *messages, json_t *chat, sv_fail *fail);
/* Sets `tool_choice` of a chat to the function `name`. */
bool sv_choose_function(const char *name, json_t *chat, sv_fail *fail);

#endif
