/* What one HTTP request asks of the engine: its choices, each with a ga_request, and how far they are. */
#ifndef GA_SERVE_JOB_H
#define GA_SERVE_JOB_H

#include "serve/answer.h"
#include "serve/http.h"

typedef enum sv_kind { SV_COMPLETION, SV_CHAT, SV_MESSAGE, SV_NATIVE, SV_INFILL } sv_kind;

typedef struct sv_job {
  sv_waiter w; /* first: the engine's callback gets its address */
  sv_server *server;
  sv_call *call;
  sv_request request;
  sv_answer answer; /* owns the choices */
  double *last;     /* [choices] sv_seconds of the last token, 0 = none yet */
  bool *counted;    /* [choices] its end is in the metrics */
  sv_fail fail;     /* why it failed, once a choice has */
  sv_text out;      /* a stream's bytes, */
  size_t sent;      /* so many of which were sent */
  bool finished;    /* a stream has nothing more */
} sv_job;

/* Reads the body, submits. NULL with call->fail set. */
sv_job *sv_job_create(sv_call *call, sv_kind kind);
void sv_job_free(void *job);
/* Takes what is new; true = all choices have ended, or one has failed (fail.http). */
bool sv_job_pump(sv_job *job);
/* Has any choice something to show? */
bool sv_job_has_begun(const sv_job *job);

#endif
