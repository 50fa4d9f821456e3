/* Memory that runs out at every single allocation of loading, a session and an answer: each time a clear error, nothing
 * leaked (under AddressSanitizer), nothing half made, and all works once memory is back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/tiny_model.h"

typedef struct made {
  ga_model *model;
  ga_session *session;
  ga_generate_result result;
} made;

static int ignore_text(void *user, int32_t id, const char *text, size_t bytes) {
  (void)user, (void)id, (void)text, (void)bytes;
  return 0;
}

static ga_status generate_faulty(ga_session *s, ga_generate_result *r) {
  static const int32_t ids[] = {1, 5, 9, 20, 7};
  static const ga_logit_bias bias[] = {{2, -100.0f}};
  ga_generate_options o = GA_GENERATE_OPTIONS_INIT;
  o.max_tokens = 6;
  o.ignore_eog = true;
  ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
  sample.temperature = 0.8f;
  sample.top_k = 20;
  sample.top_p = 0.9f;
  sample.repetition_penalty = 1.1f;
  o.sample = &sample;
  o.bias = bias;
  o.n_bias = 1;
  o.text = ignore_text;
  return ga_generate(s, ids, 5, &o, r);
}

/* As a program does it. What was made is released by the caller, failed or not. */
static ga_status all_of_it(ga_ctx *ctx, const char *path, made *m) {
  *m = (made){.result = GA_GENERATE_RESULT_INIT};
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.context = 64;
  so.batch = 4;
  ga_status status = ga_model_load(ctx, path, NULL, &m->model);
  if (status == GA_OK) status = ga_session_create(m->model, &so, &m->session);
  return status == GA_OK ? generate_faulty(m->session, &m->result) : status;
}

/* An error leaves outputs null, and a model without answers leaves the session's length at the tokens it holds. */
static void close_fault(made *m) {
  if (!m->model) assert_null(m->session);
  ga_session_destroy(m->session);
  ga_model_destroy(m->model);
}

static void sweep_faults(const char *path, const char *device) {
  made m;
  long n = 1;
  for (;; n++) {
    ga_ctx *ctx;
    ga_ctx_options co = GA_CTX_OPTIONS_INIT;
    co.device = device;
    co.threads = 1;
    ga_mem_fail_after(n);
    ga_status status = ga_ctx_create(&co, &ctx);
    if (status == GA_OK)
      status = all_of_it(ctx, path, &m);
    else
      m = (made){.result = GA_GENERATE_RESULT_INIT};
    ga_mem_fail_after(0);
    if (status != GA_OK && status != GA_ERR_NOMEM) fail_msg("allocation %ld: %s", n, ga_error_text());
    if (status != GA_OK && !strstr(ga_error_text(), "out of memory"))
      fail_msg("allocation %ld: '%s'", n, ga_error_text());
    close_fault(&m);
    ga_ctx_destroy(ctx);
    if (status == GA_OK) break;
    assert_true(n < 100000);
  }
  assert_true(n > 50); /* it did fail often */
  assert_int_equal(m.result.n_generated, 6);
}

static void test_generation(void **state) {
  (void)state;
  static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3", "gpt2"};
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    if (tiny_make(archs[i], TINY_VOCAB) != GA_OK) fail_msg("%s: %s", archs[i], ga_error_text());
    sweep_faults(tiny_path, "cpu");
  }
  sweep_faults(tiny_path, "ref");
}

/* The same session fails and then answers: what a failed call leaves is the state before it. */
static void test_session_survives(void **state) {
  (void)state;
  ga_ctx *ctx;
  ga_model *model;
  ga_session *s, *fresh;
  float after[TINY_VOCAB], want[TINY_VOCAB];
  static const int32_t ids[] = {1, 5, 9, 20, 7, 11, 12};
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  assert_int_equal(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &ctx),
                   GA_OK);
  assert_int_equal(ga_model_load(ctx, tiny_path, NULL, &model), GA_OK);
  assert_int_equal(ga_session_create(model, NULL, &s), GA_OK);
  assert_int_equal(ga_session_create(model, NULL, &fresh), GA_OK);
  assert_int_equal(ga_session_eval(s, ids, 3, NULL, 0, NULL, NULL), GA_OK);
  for (long n = 1; n < 200; n++) {
    ga_mem_fail_after(n);
    ga_status status = ga_session_eval(s, ids + 3, 4, after, 1, NULL, NULL);
    ga_mem_fail_after(0);
    if (status == GA_OK) break;
    assert_int_equal(status, GA_ERR_NOMEM);
    assert_int_equal(ga_session_length(s), 3);
  }
  assert_int_equal(ga_session_length(s), 7);
  assert_int_equal(ga_session_eval(fresh, ids, 3, NULL, 0, NULL, NULL), GA_OK);
  assert_int_equal(ga_session_eval(fresh, ids + 3, 4, want, 1, NULL, NULL), GA_OK);
  assert_memory_equal(after, want, sizeof want);
  ga_session_destroy(fresh);
  ga_session_destroy(s);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

static ga_status embed_faulty(ga_ctx *ctx, const char *path) {
  static const int32_t ids[] = {1, 2, 3, 4};
  float v[64];
  ga_model *model;
  ga_status status = ga_model_load(ctx, path, NULL, &model);
  if (status == GA_OK) status = ga_embed_ids(model, ids, 4, v);
  ga_model_destroy(model);
  return status;
}

/* Folders of safetensors, where JSON is read too: jansson's own memory does not fail here. */
static void test_embedding(void **state) {
  (void)state;
  const char *path = GA_TEST_DATA "/arch/bert";
  for (long n = 1;; n++) {
    ga_ctx *ctx;
    assert_int_equal(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &ctx),
                     GA_OK);
    ga_mem_fail_after(n);
    ga_status status = embed_faulty(ctx, path);
    ga_mem_fail_after(0);
    if (status != GA_OK && status != GA_ERR_NOMEM) fail_msg("allocation %ld: %s", n, ga_error_text());
    ga_ctx_destroy(ctx);
    if (status == GA_OK) break;
    assert_true(n < 100000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_generation),
      cmocka_unit_test(test_session_survives),
      cmocka_unit_test(test_embedding),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
