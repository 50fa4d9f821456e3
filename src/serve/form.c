#include "serve/form.h"

#include "serve/anthropic.h"
#include "serve/job.h"
#include "serve/native.h"
#include "serve/native_request.h"
#include "serve/prompts.h"

#define SV_EVENTS "text/event-stream; charset=utf-8"

static void sv_put_comment(sv_text *t, const sv_answer *a) {
  (void)a;
  sv_puts(t, ": ping\n\n");
}

static void sv_put_error_event(sv_text *t, sv_answer *a, const sv_fail *fail) {
  (void)a;
  sv_puts(t, "data: ");
  sv_put_fail(t, fail);
  sv_puts(t, "\n\n");
}

/* --- OpenAI --- */

static bool sv_read_completion(sv_job *job, json_t *body, sv_fail *fail) {
  return sv_request_completion(body, job->server->vocab, &job->request, fail);
}

static bool sv_read_chat(sv_job *job, json_t *body, sv_fail *fail) {
  return sv_request_chat(body, job->server->vocab, &job->request, fail);
}

static void sv_put_all_chunks(sv_text *t, sv_answer *a) {
  for (size_t i = 0; i < a->n; i++) sv_put_chunks(t, a, i);
}

static void sv_put_last_error(sv_text *t, sv_answer *a, const sv_fail *fail) {
  sv_put_error_event(t, a, fail);
  sv_puts(t, "data: [DONE]\n\n");
}

#define OPENAI_STREAM                                                                                           \
  .stream_type = SV_EVENTS, .put_whole = sv_put_answer, .put_news = sv_put_all_chunks, .put_done = sv_put_done, \
  .put_ping = sv_put_comment, .put_error = sv_put_last_error

const sv_form sv_form_completion = {.id_prefix = "cmpl-", .read = sv_read_completion, OPENAI_STREAM};
const sv_form sv_form_chat = {.id_prefix = "chatcmpl-", .read = sv_read_chat, OPENAI_STREAM};

/* --- Anthropic --- */

static bool sv_read_message(sv_job *job, json_t *body, sv_fail *fail) {
  return sv_ant_translate(body, false, &body, fail) && sv_read_chat(job, body, fail);
}

static void sv_put_error_message(sv_text *t, sv_answer *a, const sv_fail *fail) {
  (void)a;
  sv_puts(t, "event: error\ndata: ");
  sv_ant_put_fail(t, fail);
  sv_puts(t, "\n\n");
}

const sv_form sv_form_message = {.id_prefix = "msg_",
                                 .stream_type = SV_EVENTS,
                                 .read = sv_read_message,
                                 .put_whole = sv_ant_put_message,
                                 .put_news = sv_ant_put_events,
                                 .put_ping = sv_ant_put_ping,
                                 .put_error = sv_put_error_message};

/* --- llama-server --- */

static bool sv_encode_for(const void *server, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *n,
                          sv_fail *fail) {
  sv_ids made = {0};
  if (!sv_encode_text(server, text, bytes, flags, &made, fail)) return false;
  *ids = made.p;
  *n = made.n;
  return true;
}

static sv_encoder sv_encoder_of(const sv_job *job) {
  return (sv_encoder){sv_encode_for, job->server, (size_t)job->server->context};
}

static bool sv_read_native(sv_job *job, json_t *body, sv_fail *fail) {
  const sv_encoder encoder = sv_encoder_of(job);
  return sv_request_native(&encoder, body, job->server->vocab, &job->request, fail);
}

static bool sv_read_infill(sv_job *job, json_t *body, sv_fail *fail) {
  const sv_encoder encoder = sv_encoder_of(job);
  return sv_request_infill(&encoder, body, job->server->vocab, &job->request, fail);
}

#define NATIVE_STREAM                                                                            \
  .stream_type = SV_EVENTS, .put_whole = sv_native_put_answer, .put_news = sv_native_put_events, \
  .put_ping = sv_put_comment, .put_error = sv_put_error_event

const sv_form sv_form_native = {
    .id_prefix = "cmpl-", .defaults = SV_DEFAULTS_OWN, .read = sv_read_native, NATIVE_STREAM};
const sv_form sv_form_infill = {
    .id_prefix = "cmpl-", .defaults = SV_DEFAULTS_NONE, .read = sv_read_infill, NATIVE_STREAM};
