/* Ollama's interface: chats and completions as lines of JSON, and descriptions of models. */
#ifndef GA_SERVE_OLLAMA_H
#define GA_SERVE_OLLAMA_H

#include "serve/form.h"
#include "serve/http.h"

/* The state of one answer in Ollama's form. */
typedef struct sv_ollama {
  bool is_chat;        /* /api/chat; else /api/generate */
  bool only_loads;     /* the request has no prompt: it loads the model, or unloads it */
  bool unloads;        /* keep_alive is 0 */
  int64_t logprobs;    /* number of alternatives for each token; -1 = no log-probabilities */
  double keep_seconds; /* keep_alive: below 0 = for ever; NaN = not given */
} sv_ollama;

/* Translates a body of /api/chat to a body for sv_request_chat, in *out, and fills in *state. Takes over `body`.
 * Returns false after a failure, with the reason in *fail. */
bool sv_ollama_chat(json_t *body, sv_ollama *state, json_t **out, sv_fail *fail);
/* Translates a body of /api/generate to a body in *out, and takes over `body`. *is_chat: *out is for sv_request_chat;
 * otherwise it is for sv_request_completion. has_template: the model has a chat template. */
bool sv_ollama_generate(json_t *body, bool has_template, sv_ollama *state, bool *is_chat, json_t **out, sv_fail *fail);
/* Sets the parameters of Ollama that bodies of OpenAI have no field for, after the translated body has been read into
 * *p. defaults: those of the model. */
bool sv_ollama_finish(const json_t *options, const sv_ollama *state, const sv_defaults *defaults, sv_params *p,
                      sv_fail *fail);
/* Reads the body's field keep_alive, a number of seconds or a text such as "5m". */
bool sv_ollama_keep_alive(const json_t *body, double *seconds, sv_fail *fail);
/* Returns the number of bytes of a model's name without the tag ":latest". */
size_t sv_ollama_name_bytes(const char *name);

void sv_ollama_put_whole(sv_text *t, sv_answer *a);
void sv_ollama_put_lines(sv_text *t, sv_answer *a);
/* Writes an error in Ollama's form: {"error": text}. */
void sv_ollama_put_fail(sv_text *t, const sv_fail *f);

extern const sv_form sv_form_ollama_chat, sv_form_ollama_generate;

/* Handlers of further routes under /api/. */
enum MHD_Result sv_run_ollama_tags(sv_call *call);
enum MHD_Result sv_run_ollama_show(sv_call *call);
enum MHD_Result sv_run_ollama_ps(sv_call *call);
enum MHD_Result sv_run_ollama_version(sv_call *call);
enum MHD_Result sv_run_ollama_embed(sv_call *call);
enum MHD_Result sv_run_ollama_embeddings(sv_call *call);
/* Refuses requests to /api/create, copy, delete and push, which this server does not support. */
enum MHD_Result sv_run_ollama_refuse(sv_call *call);

#endif
