/* The body of a request for tokens, as one struct. Nothing here uses a model. */
#ifndef GA_SERVE_REQUEST_H
#define GA_SERVE_REQUEST_H

#include "serve/params.h"

enum { SV_MAX_PROMPTS = 256, SV_MAX_CHOICES = 512, SV_MAX_MESSAGES = 65536 };

/* One prompt: a text owned by the body, or malloc'd ids. */
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
  bool is_message;     /* a chat in the form of Anthropic */
  bool echo;           /* the answer begins with the prompt */
  bool is_native;      /* the request is a completion in the form of llama-server */
  bool has_gap;        /* completions: the answer fills the gap between a prompt and `suffix` */
  bool fits_gap;       /* texts around the gap may be cut until they fit into the context */
  ga_text suffix;      /* text after the gap, owned by the body */
  ga_text line;        /* text that follows the prompt and is never cut, owned by the body */
  const json_t *extra; /* further texts that are put first: [{"filename", "text"}]; NULL = none */
  sv_prompt *prompts;  /* [n_prompts] completions only */
  size_t n_prompts;
  json_t *context;     /* chat: messages, tools and further variables of the template */
  bool continue_final; /* the answer continues the last message */
  /* "auto", "none", "required", or "function" for one function by its name; NULL = not given */
  const char *tool_choice;
} sv_request;

/* Reads the body of a completion and takes it over, also after a failure. The caller frees *out in either case. */
bool sv_request_completion(json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
/* Reads the body of a chat and takes it over, also after a failure. The caller frees *out in either case. */
bool sv_request_chat(json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
void sv_request_free(sv_request *r);
/* Checks that n_prompts x n is at most SV_MAX_CHOICES. */
bool sv_check_choices(const sv_request *r, sv_fail *fail);

/* Reads at most `most` prompts under `key`: string | [string] | [int] | [[int]]. */
bool sv_read_prompts(const json_t *body, const char *key, int64_t vocab, size_t most, sv_prompt **out, size_t *n,
                     sv_fail *fail);
void sv_prompts_free(sv_prompt *prompts, size_t n);

/* Makes the variables of the chat template from a body: messages, tools, add_generation_prompt and so on. */
bool sv_chat_context(const json_t *body, json_t **out, bool *continue_final, sv_fail *fail);

#endif
