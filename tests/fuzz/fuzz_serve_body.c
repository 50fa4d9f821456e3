/* The body of a request, read as a completion, as a chat and as a message of Anthropic. Its stop strings are looked
 * for in its first prompt, in
 * pieces of growing length: what comes out must be the prompt up to the first stop string that is whole. */
#include <stdlib.h>
#include <string.h>

#include "serve/anthropic.h"
#include "serve/request.h"
#include "serve/stops.h"
#include "tests/fuzz/fuzz.h"

enum { VOCAB = 32000 };

static void require_that(bool truth) {
  if (!truth) abort();
}

static void walk_stops(const sv_request *r) {
  sv_stops s = {.stop = r->p.stop, .n = r->p.n_stop, .include = r->p.include_stop};
  sv_text out = {0};
  const sv_prompt *prompt = r->prompts;
  int found = -1;
  for (size_t at = 0, step = 1; at < prompt->bytes && found < 0; at += step, step = step % 7 + 1) {
    if (step > prompt->bytes - at) step = prompt->bytes - at;
    found = sv_stops_push(&s, prompt->text + at, step, &out);
  }
  sv_stops_flush(&s, &out);
  require_that(out.n <= prompt->bytes && (!out.n || !memcmp(out.p, prompt->text, out.n)));
  require_that(found >= 0 || out.n == prompt->bytes);
  for (size_t i = 0; i < r->p.n_stop && !r->p.include_stop; i++)
    require_that(!out.n || !memmem(out.p, out.n, r->p.stop[i].data, r->p.stop[i].bytes));
  sv_stops_free(&s);
  sv_text_free(&out);
}

static void read_as(json_t *body, bool is_chat) {
  sv_request r;
  sv_fail fail = {0};
  const bool ok = (is_chat ? sv_request_chat : sv_request_completion)(json_incref(body), VOCAB, &r, &fail);
  require_that(ok == !fail.http);
  if (!ok) {
    sv_text t = {0};
    json_error_t e;
    sv_put_fail(&t, &fail);
    json_t *json = json_loadb(t.p, t.n, 0, &e);
    require_that(json != NULL && fail.http >= 400);
    json_decref(json);
    sv_text_free(&t);
  } else if (is_chat) {
    char *context = json_dumps(r.context, 0);
    require_that(context != NULL);
    free(context);
  } else if (r.prompts->text) {
    walk_stops(&r);
  }
  sv_request_free(&r);
}

/* A request of Anthropic becomes one that a chat takes or refuses: never one with a fault of our own. */
static void read_as_message(json_t *body) {
  json_t *chat = NULL;
  sv_fail fail = {0};
  const bool ok = sv_ant_translate(json_incref(body), true, &chat, &fail);
  require_that(ok == !fail.http && ok == (chat != NULL) && fail.http < 500);
  if (chat) read_as(chat, true);
  json_decref(chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  json_t *body;
  sv_fail fail = {0};
  if (!sv_body_parse((const char *)data, size, &body, &fail)) {
    require_that(fail.http >= 400);
    return 0;
  }
  read_as(body, false);
  read_as(body, true);
  read_as_message(body);
  json_decref(body);
  return 0;
}
