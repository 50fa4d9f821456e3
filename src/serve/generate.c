#include "serve/generate.h"

#include <string.h>

#include "serve/job.h"

/* --- streams --- */

/* Fills job->out with what is new. */
static void sv_fill_stream(sv_job *job) {
  const sv_form *form = job->form;
  const bool ended = sv_job_pump(job);
  form->put_news(&job->out, &job->answer);
  if (!ended && atomic_load(&job->call->host->phase) == SV_ENDING)
    (void)sv_refuse(&job->fail, 503, "shutting_down", NULL, "The server is shutting down.");
  if (job->fail.http) {
    form->put_error(&job->out, &job->answer, &job->fail);
    job->finished = true;
  } else if (ended) {
    if (form->put_done) form->put_done(&job->out, &job->answer);
    job->finished = true;
  } else if (!job->out.n && job->w.ping && form->put_ping) {
    form->put_ping(&job->out, &job->answer);
  }
  job->w.ping = false;
}

/* The answer to a client that sends nothing more: it waits, or it has gone. JSON may begin with spaces; one a second
 * tells which, as the system of a client that has gone refuses it. */
static void sv_fill_padded(sv_job *job) {
  const bool ended = sv_job_pump(job);
  if (!ended && atomic_load(&job->call->host->phase) == SV_ENDING)
    (void)sv_refuse(&job->fail, 503, "shutting_down", NULL, "The server is shutting down.");
  if (job->fail.http)
    sv_put_call_fail(&job->out, job->call, &job->fail);
  else if (ended)
    job->form->put_whole(&job->out, &job->answer);
  else if (job->w.ping)
    sv_puts(&job->out, " ");
  job->finished = ended || job->fail.http;
  job->w.ping = false;
}

/* MHD asks for up to `most` bytes of the stream. */
static ssize_t sv_read_stream_bytes(void *user, uint64_t position, char *to, size_t most) {
  sv_job *job = user;
  (void)position;
  for (;;) {
    if (job->out.failed || job->w.gone) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (job->sent < job->out.n) {
      const size_t left = job->out.n - job->sent, n = left < most ? left : most;
      memcpy(to, job->out.p + job->sent, n);
      job->sent += n;
      return (ssize_t)n;
    }
    sv_text_drop(&job->out, job->out.n);
    job->sent = 0;
    if (job->finished) return MHD_CONTENT_READER_END_OF_STREAM;
    (job->is_padded ? sv_fill_padded : sv_fill_stream)(job);
    if (!job->out.n && !job->out.failed && !job->finished && sv_waiter_suspend(&job->w)) return 0;
  }
}

/* Begins a reply whose length is not known. The connection is not suspended now. */
static struct MHD_Response *sv_open_stream(sv_job *job) {
  job->w.pings = true;
  return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 8192, sv_read_stream_bytes, job, NULL);
}

static enum MHD_Result sv_reply_padded(sv_call *call, sv_job *job) {
  job->is_padded = job->w.ping = true;
  return sv_reply_with(call, 200, "application/json", sv_open_stream(job));
}

static enum MHD_Result sv_reply_stream(sv_call *call, sv_job *job) {
  struct MHD_Response *response = sv_open_stream(job);
  if (response) {
    (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
    (void)MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* nginx would hold events back */
  }
  return sv_reply_with(call, 200, job->form->stream_type, response);
}

/* --- both --- */

/* With a deadline a stream waits for its first token, so that it can still become a 503. */
static enum MHD_Result sv_go_on(sv_call *call, sv_job *job) {
  const bool is_stream = job->request.p.stream;
  if (is_stream && call->server->o.first_token_seconds <= 0) return sv_reply_stream(call, job);
  for (;;) {
    if (job->w.gone) return MHD_NO;
    const bool ended = sv_job_pump(job);
    if (job->fail.http) break;
    if (is_stream && (sv_job_has_begun(job) || job->w.is_half_closed)) return sv_reply_stream(call, job);
    if (ended) {
      sv_text body = {0};
      job->form->put_whole(&body, &job->answer);
      return sv_reply_json(call, &body);
    }
    if (atomic_load(&call->host->phase) == SV_ENDING) {
      (void)sv_refuse(&job->fail, 503, "shutting_down", NULL, "The server is shutting down.");
      break;
    }
    if (job->w.is_half_closed) return sv_reply_padded(call, job);
    if (sv_waiter_suspend(&job->w)) return MHD_YES;
  }
  call->fail = job->fail;
  return sv_reply_fail(call);
}

enum MHD_Result sv_run_generation(sv_call *call) {
  if (!call->job) {
    call->job = sv_job_create(call, call->route->form);
    call->job_free = sv_job_free;
    if (!call->job) return sv_reply_fail(call);
  }
  return sv_go_on(call, call->job);
}
