/* The body of a request, read as a completion, as a chat, as a message of Anthropic and as a completion of
 * llama-server. Its stop strings are looked for in its first prompt, in pieces of growing length: what comes out must
 * be the prompt up to the first stop string that is whole. */
#include <stdlib.h>
#include <string.h>

#include "serve/anthropic.h"
#include "serve/native_request.h"
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

static void walk_fail(const sv_fail *fail) {
  sv_text t = {0};
  json_error_t e;
  sv_put_fail(&t, fail);
  json_t *json = json_loadb(t.p, t.n, 0, &e);
  require_that(json != NULL && fail->http >= 400);
  json_decref(json);
  sv_text_free(&t);
}

static void read_as(json_t *body, bool is_chat) {
  sv_request r;
  sv_fail fail = {0};
  const bool ok = (is_chat ? sv_request_chat : sv_request_completion)(json_incref(body), VOCAB, &r, &fail);
  require_that(ok == !fail.http);
  if (!ok) {
    walk_fail(&fail);
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

/* A token a byte. */
static bool encode_bytes(const void *user, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *n,
                         sv_fail *fail) {
  (void)user;
  (void)flags;
  *ids = malloc((bytes + 1) * sizeof **ids);
  if (!*ids) return sv_refuse_nomem(fail);
  for (size_t i = 0; i < bytes; i++) (*ids)[i] = (unsigned char)text[i];
  *n = bytes;
  return true;
}

/* What is accepted is within the bounds that the engine asks for. */
static void read_as_native(json_t *body) {
  const sv_encoder encoder = {encode_bytes, NULL, 4096};
  sv_request r;
  sv_fail fail = {0};
  const bool ok = sv_request_native(&encoder, json_deep_copy(body), VOCAB, &r, &fail);
  require_that(ok == !fail.http && fail.http < 500);
  if (!ok) walk_fail(&fail);
  for (size_t i = 0; ok && i < r.n_prompts; i++)
    for (size_t k = 0; k < r.prompts[i].n_ids; k++)
      require_that(r.prompts[i].ids[k] >= 0 && r.prompts[i].ids[k] < VOCAB);
  require_that(!ok || (r.n_prompts >= 1 && r.p.max_tokens >= SV_NO_LIMIT && r.p.max_tokens <= INT32_MAX));
  require_that(!ok || (r.p.penalty_last >= -1 && r.p.logprobs <= GA_MAX_TOP_LOGPROBS));
  for (int32_t i = 0; ok && i < r.p.n_bias; i++)
    require_that(r.p.bias[i].id >= 0 && r.p.bias[i].id < VOCAB && r.p.bias[i].bias <= 100);
  sv_request_free(&r);
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
  read_as_native(body);
  json_decref(body);
  return 0;
}
