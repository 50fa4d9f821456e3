/* The work of one HTTP request: its choices, each with a ga_request, and their progress. */
#ifndef GA_SERVE_JOB_H
#define GA_SERVE_JOB_H

#include "serve/answer.h"
#include "serve/http.h"

typedef enum sv_kind { SV_COMPLETION, SV_CHAT, SV_MESSAGE, SV_NATIVE, SV_INFILL } sv_kind;

typedef struct sv_job {
  sv_waiter w; /* must be the first field: the engine's callback gets its address */
  sv_server *server;
  sv_call *call;
  sv_request request;
  sv_answer answer; /* owns the choices */
  double *last;     /* [choices] sv_seconds of the last token, 0 = none yet */
  bool *counted;    /* [choices] the metrics have counted its end */
  sv_fail fail;     /* the reason, once a choice has failed */
  sv_text out;      /* bytes of a stream */
  size_t sent;      /* number of them that were sent */
  bool finished;    /* the stream is complete */
} sv_job;

/* Reads the body and submits its requests. NULL with call->fail set. */
sv_job *sv_job_create(sv_call *call, sv_kind kind);
void sv_job_free(void *job);
/* Takes pending events of all choices. True: all have ended, or one has failed (fail.http). */
bool sv_job_pump(sv_job *job);
/* True when any choice has generated output. */
bool sv_job_has_begun(const sv_job *job);

#endif
