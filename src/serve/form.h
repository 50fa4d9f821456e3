/* Forms of requests that generate text, one for each interface (OpenAI, Anthropic, llama-server, Ollama). A form has
 * the functions that read a body and write an answer. */
#ifndef GA_SERVE_FORM_H
#define GA_SERVE_FORM_H

#include "serve/answer.h"

typedef struct sv_job sv_job; /* job.h */

typedef struct sv_form {
  const char *id_prefix;   /* beginning of the ids of answers */
  const char *stream_type; /* value of the Content-Type header of a stream */
  /* The use of the server's defaults of sampling (sv_options.defaults): always; only if they are the model's own;
   * never, since the form has its own. */
  enum { SV_DEFAULTS_ALL, SV_DEFAULTS_OWN, SV_DEFAULTS_NONE } defaults;
  /* Reads a body into job->request and takes the body over, also after a failure. Returns false after a failure, with
   * the reason in *fail. The caller frees the request. */
  bool (*read)(sv_job *job, json_t *body, sv_fail *fail);
  /* Writes the whole answer. All choices must have ended without an error. */
  void (*put_whole)(sv_text *t, sv_answer *a);
  /* Writes the part of a stream for new text, and removes that text from the choices. */
  void (*put_news)(sv_text *t, sv_answer *a);
  /* Writes the end of a stream without an error. NULL = put_news has written it. */
  void (*put_done)(sv_text *t, const sv_answer *a);
  /* Writes a ping into a stream that has had no news for a second. NULL = the form has no pings. */
  void (*put_ping)(sv_text *t, const sv_answer *a);
  /* Writes an error as the end of a stream. */
  void (*put_error)(sv_text *t, sv_answer *a, const sv_fail *fail);
} sv_form;

extern const sv_form sv_form_completion, sv_form_chat, sv_form_message, sv_form_native, sv_form_infill;

#endif
