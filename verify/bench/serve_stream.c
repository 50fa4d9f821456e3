/* One request at a time on one libcurl handle, and the times at which its answer came. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/status.h"
#include "verify/bench/serve_client.h"

#define REFUSAL_BYTES 4096
#define PAUSE_SECONDS 0.1 /* of a stream whose request failed: a server that refuses is not asked without end */

/* The first failure of a request is the one to tell. */
static void stream_fail(client_stream *s, const char *kind, const char *text) {
  if (*s->kind) return;
  (void)snprintf(s->kind, sizeof s->kind, "%s", kind);
  (void)snprintf(s->text, sizeof s->text, "%s", text);
}

/* --- the answer, as it comes --- */

static bool on_chunk(client_stream *s, double now) {
  if (!s->chunks)
    s->first = now;
  else if (!client_series_add(&s->gaps, now - s->last))
    return false;
  s->last = now;
  s->chunks++;
  return true;
}

static bool on_event(void *user, const char *data, size_t bytes) {
  client_stream *s = user;
  client_event e;
  const double now = ga_seconds();
  if (!client_event_read(data, bytes, &e)) {
    char text[CLIENT_TEXT];
    (void)snprintf(text, sizeof text, "an event is not JSON: %.*s", (int)(bytes < 80 ? bytes : 80), data);
    stream_fail(s, "bad SSE", text);
    return false;
  }
  if (*e.error) {
    stream_fail(s, "error event", e.error);
    return false;
  }
  if (e.done) s->done = true;
  if (e.prompt_tokens >= 0) s->prompt_tokens = e.prompt_tokens;
  if (e.output_tokens >= 0) s->output_tokens = e.output_tokens;
  if (e.choice && !(s->first_choice > 0)) s->first_choice = now;
  return !e.text || on_chunk(s, now);
}

/* Judges the head of an answer, when its first bytes are here. */
static void begin_answer(client_stream *s) {
  long code = 0;
  const char *type = NULL;
  s->begun = true;
  (void)curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &code);
  (void)curl_easy_getinfo(s->curl, CURLINFO_CONTENT_TYPE, &type);
  if (code == 200 && type && !strncasecmp(type, "text/event-stream", 17)) return;
  char kind[24], text[CLIENT_TEXT] = "";
  (void)snprintf(kind, sizeof kind, "http %ld", code);
  if (code == 200)
    (void)snprintf(text, sizeof text, "the answer is %.60s; it must be text/event-stream", type ? type : "of no type");
  stream_fail(s, code == 200 ? "bad SSE" : kind, text);
}

static size_t on_answer(char *data, size_t each, size_t n, void *user) {
  client_stream *s = user;
  const size_t bytes = each * n;
  if (!s->begun) begin_answer(s);
  if (!*s->kind) {
    if (client_sse_feed(&s->sse, data, bytes, on_event, s)) return bytes;
    stream_fail(s, "bad SSE", "an event is too long, or there is no memory for it");
    return 0;
  }
  const size_t room = REFUSAL_BYTES - s->n_refusal, kept = bytes < room ? bytes : room;
  memcpy(s->refusal + s->n_refusal, data, kept);
  s->n_refusal += kept;
  return s->n_refusal < REFUSAL_BYTES ? bytes : 0;
}

/* --- its life --- */

/* No proxy: what stands between is no part of the server. HTTP/1.1: a stream is a connection. */
static bool set_stream_options(client_stream *s) {
  CURL *c = s->curl;
  return !curl_easy_setopt(c, CURLOPT_URL, s->target->endpoint) && !curl_easy_setopt(c, CURLOPT_PROXY, "") &&
         !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") &&
         !curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
         !curl_easy_setopt(c, CURLOPT_HTTPHEADER, s->target->headers) && !curl_easy_setopt(c, CURLOPT_POST, 1L) &&
         !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_answer) && !curl_easy_setopt(c, CURLOPT_WRITEDATA, s) &&
         !curl_easy_setopt(c, CURLOPT_PRIVATE, s) && !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, s->detail) &&
         !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 10L) &&
         !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(s->target->timeout * 1e3));
}

ga_status client_stream_create(const client_target *t, client_stream **out) {
  client_stream *s = calloc(1, sizeof *s);
  *out = NULL;
  GA_REQUIRE(s, GA_ERR_NOMEM, "bench: no memory for a stream");
  s->target = t;
  s->curl = curl_easy_init();
  s->refusal = malloc(REFUSAL_BYTES);
  if (!s->curl || !s->refusal || !set_stream_options(s)) {
    client_stream_destroy(s);
    return ga_fail(GA_ERR_NOMEM, "bench: libcurl cannot start a stream");
  }
  *out = s;
  return GA_OK;
}

void client_stream_destroy(client_stream *s) {
  if (!s) return;
  curl_easy_cleanup(s->curl);
  client_sse_free(&s->sse);
  free(s->body);
  free(s->gaps.x);
  free(s->refusal);
  free(s);
}

ga_status client_stream_start(client_stream *s, CURLM *multi, char *body, double due) {
  free(s->body);
  s->body = body;
  client_sse_reset(&s->sse);
  s->gaps.n = s->n_refusal = 0;
  s->due = due;
  s->first = s->last = s->first_choice = 0;
  s->chunks = 0;
  s->prompt_tokens = s->output_tokens = -1;
  s->begun = s->done = false;
  *s->kind = *s->text = *s->detail = 0;
  const bool set = !curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, body) &&
                   !curl_easy_setopt(s->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
  GA_REQUIRE(set && !curl_multi_add_handle(multi, s->curl), GA_ERR_NOMEM, "bench: libcurl cannot start a request");
  s->busy = true;
  return GA_OK;
}

/* --- its end --- */

static const char *kind_of(CURLcode rc) {
  switch (rc) {
  case CURLE_COULDNT_CONNECT:
  case CURLE_COULDNT_RESOLVE_HOST: return "refused";
  case CURLE_OPERATION_TIMEDOUT: return "timeout";
  case CURLE_GOT_NOTHING:
  case CURLE_PARTIAL_FILE:
  case CURLE_SEND_ERROR:
  case CURLE_RECV_ERROR: return "reset";
  case CURLE_WEIRD_SERVER_REPLY:
  case CURLE_UNSUPPORTED_PROTOCOL: return "bad HTTP"; /* libcurl's name for HTTP/0.9 */
  default: return "other";
  }
}

static void judge_answer(client_stream *s, CURLcode rc) {
  if (!s->begun && rc == CURLE_OK) begin_answer(s); /* without a body */
  if (*s->kind) {
    if (!*s->text) client_error_text(s->refusal, s->n_refusal, s->text);
  } else if (rc != CURLE_OK) {
    stream_fail(s, kind_of(rc), *s->detail ? s->detail : curl_easy_strerror(rc));
  } else if (!s->done) {
    stream_fail(s, "bad SSE", "the stream ended without [DONE]");
  } else if (!(s->first_choice > 0)) {
    stream_fail(s, "bad SSE", "the stream has no choices");
  }
}

/* Adds the times and tokens of a whole answer. */
static ga_status add_answer(client_stream *s, double end, const client_args *a, client_level *l) {
  const double ttft = (s->chunks ? s->first : s->first_choice) - s->due;
  const bool told = s->output_tokens >= 0;
  const int64_t tokens = told ? s->output_tokens : s->chunks;
  const double tpot = tokens > 1 && s->chunks > 1 ? (s->last - s->first) / (double)(tokens - 1) : 0;
  l->completed++;
  l->no_usage += !told;
  l->chunks += s->chunks;
  l->output_tokens += tokens;
  l->prompt_tokens += s->prompt_tokens > 0 ? s->prompt_tokens : 0;
  l->good += ttft <= a->ttft_bound && tpot <= a->itl_bound;
  const bool added = client_series_add(&l->ttft, ttft) && client_series_add(&l->e2e, end - s->due) &&
                     (!(tpot > 0) || client_series_add(&l->tpot, tpot)) && client_series_join(&l->itl, &s->gaps);
  return added ? GA_OK : ga_fail_nomem("bench", l->itl.n * sizeof(double));
}

ga_status client_stream_finish(client_stream *s, CURLM *multi, CURLcode rc, const client_args *a, client_level *l) {
  const double end = ga_seconds();
  long connections = 0;
  judge_answer(s, rc);
  (void)curl_easy_getinfo(s->curl, CURLINFO_NUM_CONNECTS, &connections);
  l->connections += connections;
  GA_REQUIRE(!curl_multi_remove_handle(multi, s->curl), GA_ERR_INTERNAL, "bench: libcurl does not let go of a request");
  s->busy = false;
  s->not_before = *s->kind ? end + PAUSE_SECONDS : 0;
  if (!*s->kind) return add_answer(s, end, a, l);
  client_level_fail(l, s->kind, s->text);
  return GA_OK;
}
