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
  double *last;     /* [choices] sv_seconds of the last token; 0 = no token yet */
  bool *counted;    /* [choices] the metrics have counted the end of the choice */
  sv_fail fail;     /* reason of the failure, once a choice has failed */
  sv_text out;      /* bytes of the stream */
  size_t sent;      /* number of bytes of `out` that were sent */
  bool finished;    /* the stream is complete */
} sv_job;

/* Reads the body and submits its requests to the engine. NULL: a failure, which call->fail has. */
sv_job *sv_job_create(sv_call *call, sv_kind kind);
void sv_job_free(void *job);
/* Takes the pending events of all choices. True: all choices have ended, or one has failed (fail.http is not 0). */
bool sv_job_pump(sv_job *job);
/* Returns whether any choice has generated output. */
bool sv_job_has_begun(const sv_job *job);

#endif
