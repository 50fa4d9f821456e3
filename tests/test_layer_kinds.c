/* Models whose layers differ in heads, keys or chunks of attention: an engine with a small cache, whose requests push
 * each other out, answers as a session does that has one sequence. */
#include <unistd.h>

#include "ga/engine.h"
#include "tests/model_bytes.h"

enum { REQUESTS = 6, VOCAB = 96, LONGEST = 100, NEW = 24, PAGE = 64, POLL_MS = 60000 };

typedef struct asked {
  int32_t ids[LONGEST], n, answer[NEW];
} asked;

/* Returns the token with the largest logit. The last row of logits is left out: the tokenizer has no token for it. */
static int32_t best_drawable(const float *logits) {
  int32_t best = 0;
  for (int32_t i = 1; i < VOCAB - 1; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

/* Prompts of several lengths; the second begins like the first. */
static void ask_session(ga_model *model, int i, asked *a) {
  static const int32_t lengths[REQUESTS] = {90, 100, 7, 64, 65, 30};
  float logits[VOCAB];
  ga_session *session;
  ga_session_options o = GA_SESSION_OPTIONS_INIT;
  o.flags = GA_SESSION_DETERMINISTIC;
  a->n = lengths[i];
  for (int32_t k = 0; k < a->n; k++) a->ids[k] = (k * 31 + (i < 2 ? 0 : i) * 17 + 5) % VOCAB;
  assert_int_equal(ga_session_create(model, &o, &session), GA_OK);
  if (ga_session_eval(session, a->ids, a->n, logits, 1, NULL, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  for (int32_t k = 0; k < NEW; k++) {
    a->answer[k] = best_drawable(logits);
    assert_int_equal(ga_session_eval(session, &a->answer[k], 1, logits, 1, NULL, NULL), GA_OK);
  }
  ga_session_destroy(session);
}

static ga_request *submit_asked(ga_engine *e, const asked *a) {
  ga_request *request;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = a->ids;
  o.n_ids = a->n;
  o.max_tokens = NEW;
  o.ignore_eog = true;
  if (ga_engine_submit(e, &o, &request) != GA_OK) fail_msg("%s", ga_error_text());
  return request;
}

static void check_request(const char *name, int i, ga_request *request, const asked *a) {
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  for (int32_t k = 0; k < NEW; k++) {
    assert_int_equal(ga_request_poll(request, POLL_MS, &out), GA_OK);
    if (out.event != GA_REQUEST_TOKEN) fail_msg("%s, request %d: %s", name, i, ga_request_error(request));
    if (out.id != a->answer[k]) fail_msg("%s, request %d, token %d: %d, not %d", name, i, k, out.id, a->answer[k]);
  }
  ga_request_destroy(request);
}

/* The folder's model with a tokenizer, which engines need: a token for each printable character. */
static void put_model(const char *name) {
  static const char *const parts[] = {"config.json", "model.safetensors"};
  char target[600], json[4096];
  int n = snprintf(json, sizeof json,
                   "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                   "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"\\u0120\":0");
  for (int i = 1; i < VOCAB - 1; i++)
    n += snprintf(json + n, sizeof json - (size_t)n, ",\"%s%c\":%d", strchr("\"\\", '!' + i - 1) ? "\\" : "",
                  '!' + i - 1, i);
  (void)snprintf(json + n, sizeof json - (size_t)n, "}}}");
  put_file_text("tokenizer.json", json);
  for (int i = 0; i < 2; i++) {
    (void)snprintf(target, sizeof target, "%s/arch/%s/%s", GA_TEST_DATA, name, parts[i]);
    (void)unlink(in_folder(parts[i]));
    assert_int_equal(symlink(target, in_folder(parts[i])), 0);
  }
}

static void answers_as_alone(const char *name) {
  static asked all[REQUESTS];
  ga_request *requests[REQUESTS];
  ga_ctx *ctx;
  ga_model *model;
  ga_engine *e;
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  co.device = "cpu";
  co.threads = 2;
  put_model(name);
  assert_int_equal(ga_ctx_create(&co, &ctx), GA_OK);
  if (ga_model_load(ctx, test_folder, NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
  for (int i = 0; i < REQUESTS; i++) ask_session(model, i, &all[i]);
  o.max_sequences = 4;
  o.step_tokens = 48;
  o.kv_tokens = 6 * PAGE;
  o.flags = GA_ENGINE_DETERMINISTIC;
  o.swap_bytes = 1 << 22;
  if (ga_engine_create(model, &o, &e) != GA_OK) fail_msg("%s", ga_error_text());
  for (int round = 0; round < 2; round++) { /* the second finds prefixes kept */
    for (int i = 0; i < REQUESTS; i++) requests[i] = submit_asked(e, &all[i]);
    for (int i = 0; i < REQUESTS; i++) check_request(name, i, requests[i], &all[i]);
  }
  ga_engine_destroy(e);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

static void test_chunks(void **state) {
  (void)state;
  answers_as_alone("llama4_folder");
}

static void test_shared_keys(void **state) {
  (void)state;
  answers_as_alone("gemma4");
}

static void test_heads_by_layer(void **state) {
  (void)state;
  answers_as_alone("gemma4_moe");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_chunks), cmocka_unit_test(test_shared_keys),
                                     cmocka_unit_test(test_heads_by_layer)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
