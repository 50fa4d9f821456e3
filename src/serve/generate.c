#include "serve/generate.h"

#include <string.h>

#include "serve/anthropic.h"
#include "serve/job.h"
#include "serve/native.h"

/* --- streams --- */

static void sv_put_whole(sv_text *t, const sv_job *job) {
  const sv_request *r = &job->request;
  (r->is_message ? sv_ant_put_message : r->is_native ? sv_native_put_answer : sv_put_answer)(t, &job->answer);
}

static void sv_put_error_event(sv_job *job) {
  const bool is_message = job->request.is_message;
  sv_puts(&job->out, is_message ? "event: error\ndata: " : "data: ");
  (is_message ? sv_ant_put_fail : sv_put_fail)(&job->out, &job->fail);
  sv_puts(&job->out, is_message || job->request.is_native ? "\n\n" : "\n\ndata: [DONE]\n\n");
  job->finished = true;
}

static void sv_put_news(sv_job *job) {
  if (job->request.is_message) {
    sv_ant_put_events(&job->out, &job->answer);
    return;
  }
  if (job->request.is_native) {
    sv_native_put_events(&job->out, &job->answer);
    return;
  }
  for (size_t i = 0; i < job->answer.n; i++) sv_put_chunks(&job->out, &job->answer, i);
}

static void sv_put_ping(sv_job *job) {
  if (job->request.is_message)
    sv_ant_put_ping(&job->out, &job->answer);
  else
    sv_puts(&job->out, ": ping\n\n");
}

/* Fills job->out with what is new. */
static void sv_fill_stream(sv_job *job) {
  const bool ended = sv_job_pump(job);
  sv_put_news(job);
  if (!ended && atomic_load(&job->server->phase) == SV_ENDING)
    (void)sv_refuse(&job->fail, 503, "shutting_down", NULL, "The server is shutting down.");
  if (job->fail.http) {
    sv_put_error_event(job);
  } else if (ended) {
    if (!job->request.is_message && !job->request.is_native) sv_put_done(&job->out, &job->answer);
    job->finished = true;
  } else if (!job->out.n && job->w.ping) {
    sv_put_ping(job);
  }
  job->w.ping = false;
}

/* The answer to a client that sends nothing more: it waits, or it has gone. JSON may begin with spaces; one a second
 * tells which, as the system of a client that has gone refuses it. */
static void sv_fill_padded(sv_job *job) {
  const bool ended = sv_job_pump(job);
  if (!ended && atomic_load(&job->server->phase) == SV_ENDING)
    (void)sv_refuse(&job->fail, 503, "shutting_down", NULL, "The server is shutting down.");
  if (job->fail.http)
    (job->request.is_message ? sv_ant_put_fail : sv_put_fail)(&job->out, &job->fail);
  else if (ended)
    sv_put_whole(&job->out, job);
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
  return sv_reply_with(call, 200, "text/event-stream; charset=utf-8", response);
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
      sv_put_whole(&body, job);
      return sv_reply_json(call, &body);
    }
    if (atomic_load(&call->server->phase) == SV_ENDING) {
      (void)sv_refuse(&job->fail, 503, "shutting_down", NULL, "The server is shutting down.");
      break;
    }
    if (job->w.is_half_closed) return sv_reply_padded(call, job);
    if (sv_waiter_suspend(&job->w)) return MHD_YES;
  }
  call->fail = job->fail;
  return sv_reply_fail(call);
}

static enum MHD_Result sv_run_generation(sv_call *call, sv_kind kind) {
  if (!call->job) {
    call->job = sv_job_create(call, kind);
    call->job_free = sv_job_free;
    if (!call->job) return sv_reply_fail(call);
  }
  return sv_go_on(call, call->job);
}

enum MHD_Result sv_run_completions(sv_call *call) { return sv_run_generation(call, SV_COMPLETION); }
enum MHD_Result sv_run_chat(sv_call *call) { return sv_run_generation(call, SV_CHAT); }
enum MHD_Result sv_run_messages(sv_call *call) { return sv_run_generation(call, SV_MESSAGE); }
enum MHD_Result sv_run_native_completion(sv_call *call) { return sv_run_generation(call, SV_NATIVE); }
enum MHD_Result sv_run_infill(sv_call *call) { return sv_run_generation(call, SV_INFILL); }
