/* The interfaces in which requests for tokens come: how each reads a body, and how it writes an answer. */
#ifndef GA_SERVE_FORM_H
#define GA_SERVE_FORM_H

#include "serve/answer.h"

typedef struct sv_job sv_job; /* job.h */

typedef struct sv_form {
  const char *id_prefix;   /* beginning of an answer's id */
  const char *stream_type; /* Content-Type of a stream */
  /* The defaults of sampling: the server's; only if they are the model's own; none but the form's. */
  enum { SV_DEFAULTS_ALL, SV_DEFAULTS_OWN, SV_DEFAULTS_NONE } defaults;
  /* Reads a body into job->request and takes it over, also after a failure. The caller frees the request. */
  bool (*read)(sv_job *job, json_t *body, sv_fail *fail);
  /* Writes the whole answer. All choices must have ended without an error. */
  void (*put_whole)(sv_text *t, sv_answer *a);
  /* Writes the part of a stream for new text, and removes that text from the choices. */
  void (*put_news)(sv_text *t, sv_answer *a);
  /* Writes the end of a stream without an error. NULL = put_news has written it. */
  void (*put_done)(sv_text *t, const sv_answer *a);
  /* Writes a sign of life into a stream without news. NULL = the stream has none. */
  void (*put_ping)(sv_text *t, const sv_answer *a);
  /* Ends a stream with an error. */
  void (*put_error)(sv_text *t, sv_answer *a, const sv_fail *fail);
} sv_form;

extern const sv_form sv_form_completion, sv_form_chat, sv_form_message, sv_form_native, sv_form_infill;

#endif
