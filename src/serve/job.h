/* The work for one HTTP request that generates text. It has the request's choices, each with a ga_request, and their
 * progress. */
#ifndef GA_SERVE_JOB_H
#define GA_SERVE_JOB_H

#include "serve/form.h"
#include "serve/http.h"

struct sv_job {
  sv_waiter w; /* must be the first field: the engine's callback gets its address */
  sv_server *server;
  sv_call *call;
  const sv_form *form;
  sv_request request;
  sv_answer answer; /* the answer, which owns the choices */
  double *last;     /* [choices] time of each choice's last token, from sv_seconds; 0 = no token yet */
  bool *counted;    /* [choices] true once the metrics have counted the end of the choice */
  sv_fail fail;     /* error of the choice that has failed; fail.http is 0 if none has */
  sv_text out;      /* bytes of the stream of events */
  size_t sent;      /* number of bytes of `out` that have been sent */
  bool is_padded;   /* `out` is a whole answer, with spaces before it that probe the connection */
  bool finished;    /* the last event of the stream has been written to `out` */
};

/* Reads the request's body and submits its choices to the engine. Returns NULL after a failure, with the reason in
 * call->fail. */
sv_job *sv_job_create(sv_call *call, const sv_form *form);
void sv_job_free(void *job);
/* Handles the events of all choices that have arrived. Returns true when all choices have ended, or one has failed
 * (fail.http is not 0). */
bool sv_job_pump(sv_job *job);
/* Returns whether some choice has generated a token or has ended. */
bool sv_job_has_begun(const sv_job *job);

#endif
