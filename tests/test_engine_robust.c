/* An engine where things go wrong: no memory, prompts of one token, biases that leave no number. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ga/engine.h"
#include "tests/tiny_model.h"

enum { CONTEXT = 512 };

typedef struct opened {
  ga_ctx *ctx;
  ga_model *model;
  ga_engine *engine;
} opened;

static opened open_robust(const char *arch, const ga_engine_options *options) {
  opened o = {0};
  tiny_context = CONTEXT;
  if (tiny_make(arch, TINY_VOCAB) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = "cpu";
  co.threads = 1;
  assert_int_equal(ga_ctx_create(&co, &o.ctx), GA_OK);
  assert_int_equal(ga_model_load(o.ctx, tiny_path, NULL, &o.model), GA_OK);
  if (ga_engine_create(o.model, options, &o.engine) != GA_OK) fail_msg("%s", ga_error_text());
  return o;
}

static void close_robust(opened *o) {
  ga_engine_destroy(o->engine);
  ga_model_destroy(o->model);
  ga_ctx_destroy(o->ctx);
}

static ga_engine_stats robust_stats(ga_engine *e) {
  ga_engine_stats s = GA_ENGINE_STATS_INIT;
  assert_int_equal(ga_engine_get_stats(e, &s), GA_OK);
  return s;
}

static ga_engine_stats when_idle(ga_engine *e) {
  ga_engine_stats s = robust_stats(e);
  for (int i = 0; i < 2000 && (s.kv_pages_used || s.running || s.waiting); i++, s = robust_stats(e)) usleep(1000);
  return s;
}

/* Reads a request to its end and destroys it: what came of it. */
typedef struct outcome {
  int n_prompt, n_tokens, tokens[CONTEXT];
  ga_status status;
  char error[512];
} outcome;

static outcome read_outcome(ga_request *r) {
  outcome o = {.status = GA_OK};
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  do {
    assert_int_equal(ga_request_poll(r, 20000, &out), GA_OK);
    assert_int_not_equal(out.event, GA_REQUEST_PENDING);
    o.n_prompt += out.event == GA_REQUEST_PROMPT;
    if (out.event == GA_REQUEST_TOKEN) o.tokens[o.n_tokens++] = out.id;
  } while (out.event != GA_REQUEST_END);
  o.status = (ga_status)out.status;
  (void)snprintf(o.error, sizeof o.error, "%s", ga_request_error(r));
  ga_request_destroy(r);
  return o;
}

static outcome outcome_of(ga_engine *e, const ga_request_options *o) {
  ga_request *r;
  if (ga_engine_submit(e, o, &r) != GA_OK) fail_msg("%s", ga_error_text());
  return read_outcome(r);
}

static ga_request_options few_options(const int32_t *ids, int n, int max_tokens) {
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids;
  o.n_ids = n;
  o.max_tokens = max_tokens;
  o.ignore_eog = true;
  return o;
}

/* --- prompts --- */

static void test_prompt_of_one_token(void **state) {
  (void)state;
  static const int32_t id = 7;
  const ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  opened e = open_robust("llama", &eo);
  for (int max_tokens = 0; max_tokens < 3; max_tokens++) {
    ga_request_options o = few_options(&id, 1, max_tokens);
    o.prompt_logprobs = true;
    const outcome got = outcome_of(e.engine, &o);
    assert_int_equal(got.status, GA_OK);
    assert_int_equal(got.n_prompt, 1);
    assert_int_equal(got.n_tokens, max_tokens);
  }
  assert_int_equal(when_idle(e.engine).kv_pages_used, 0);
  close_robust(&e);
}

/* --- readers --- */

/* Two requests that nobody reads hold all places only until another one comes; then they go on with the same tokens. */
static void test_slow_readers(void **state) {
  (void)state;
  static const int32_t id = 7;
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.max_sequences = 2;
  opened e = open_robust("llama", &eo);
  ga_request_options o = few_options(&id, 1, CONTEXT - 8);
  const outcome alone = outcome_of(e.engine, &o);
  ga_request *slow[2];
  o.max_unread = 16;
  for (int i = 0; i < 2; i++) assert_int_equal(ga_engine_submit(e.engine, &o, &slow[i]), GA_OK);
  ga_request_options brief = few_options(&id, 1, 4);
  for (int i = 0; i < 20; i++) assert_int_equal(outcome_of(e.engine, &brief).n_tokens, 4);
  for (int i = 0; i < 2; i++) {
    const outcome got = read_outcome(slow[i]);
    assert_int_equal(got.status, GA_OK);
    assert_int_equal(got.n_tokens, alone.n_tokens);
    assert_memory_equal(got.tokens, alone.tokens, sizeof alone.tokens[0] * (size_t)alone.n_tokens);
  }
  const ga_engine_stats stats = when_idle(e.engine);
  assert_int_equal(stats.running + stats.waiting, 0);
  uint64_t steps = 0;
  for (int i = 0; i < GA_STEP_SIZES; i++) steps += stats.step_sizes[i];
  assert_int_equal(steps, stats.steps);
  assert_true(stats.step_tokens_run >= stats.generated_tokens && stats.step_sizes[1] > 0); /* two places: 2 tokens */
  o.max_unread = -1;
  ga_request *none;
  assert_int_equal(ga_engine_submit(e.engine, &o, &none), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "max_unread is -1"));
  close_robust(&e);
}

/* --- biases --- */

/* Biases that leave no token are refused; ends of generation that may not be drawn yet are passed over. */
static void test_biases_without_number(void **state) {
  (void)state;
  static const int32_t ids[] = {5, 6, 7};
  static ga_logit_bias all[TINY_VOCAB];
  const ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  opened e = open_robust("llama", &eo);
  for (int i = 0; i < 8; i++) {
    const bool draws = i & 1, bans = i & 2;
    ga_sample_desc d = GA_SAMPLE_DESC_INIT;
    d.temperature = draws ? 1.0f : 0.0f;
    for (int k = 0; k < TINY_VOCAB; k++) all[k] = (ga_logit_bias){k, i & 4 ? NAN : -INFINITY};
    ga_request_options o = few_options(ids, 3, 4);
    o.sample = &d;
    o.bias = all;
    o.n_bias = TINY_VOCAB;
    if (!bans) { /* the token that ends is the most wanted, but may not come before the fourth */
      all[0] = (ga_logit_bias){2, INFINITY};
      o.ignore_eog = false;
      o.n_bias = 1;
      o.min_tokens = 3;
    }
    ga_request *refused = NULL;
    if (bans) {
      assert_int_equal(ga_engine_submit(e.engine, &o, &refused), GA_ERR_ARG);
      assert_non_null(strstr(ga_error_text(), "ban every token"));
      assert_null(refused);
      continue;
    }
    const outcome got = outcome_of(e.engine, &o);
    assert_int_equal(got.status, GA_OK);
    assert_int_equal(got.n_tokens, 4);
    for (int k = 0; k < 4; k++) assert_true((got.tokens[k] == 2) == (k == 3));
  }
  close_robust(&e);
}

/* --- memory --- */

/* Memory that runs out at each allocation of a run. Each request ends, with an error or a right answer; the engine goes
 * on once there is memory again. */
static void sweep_memory(const char *arch, uint32_t flags) {
  static int32_t ids[4][200];
  static outcome want[4];
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.max_sequences = 3;
  eo.step_tokens = 48;
  eo.kv_tokens = CONTEXT;
  eo.flags = flags;
  opened e = open_robust(arch, &eo);
  ga_rng rng;
  ga_rng_seed(&rng, 1);
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 200; k++) ids[i][k] = 4 + (int32_t)ga_rng_below(&rng, TINY_VOCAB - 4);
  ga_request_options o[4];
  for (int i = 0; i < 4; i++) {
    o[i] = few_options(ids[i], 30 + 50 * i, 70);
    o[i].logprobs = i % 2 ? 3 : -1;
    o[i].prompt_logprobs = i == 2;
    o[i].tenant = (uint64_t)i;
    o[i].first_token_deadline = i == 1 ? 1000 : 0;
    want[i] = outcome_of(e.engine, &o[i]);
  }
  ga_request_options too_late =
      few_options(ids[0], 30, 70); /* a plan may end this one, and have no memory for others */
  too_late.first_token_deadline = 1e-9;
  int refused = 0, failed = 0, fine = 0;
  for (long n = 1; n < 2000; n += n < 120 ? 1 : 37) {
    ga_request *r[4] = {NULL};
    bool hit = false;
    for (int i = 0; i < 4; i++) o[i].cache_salt = n % 2 ? "a" : NULL;
    ga_request *late;
    ga_mem_fail_after(n);
    const bool is_late = ga_engine_submit(e.engine, &too_late, &late) == GA_OK;
    for (int i = 0; i < 4; i++) {
      const ga_status s = ga_engine_submit(e.engine, &o[i], &r[i]);
      if (s == GA_OK) continue;
      hit = true;
      refused++;
      if (s != GA_ERR_NOMEM) fail_msg("allocation %ld: submit: %s: %s", n, ga_status_name(s), ga_error_text());
      assert_null(r[i]);
    }
    for (int i = 0; i < 4; i++) {
      if (!r[i]) continue;
      const outcome got = read_outcome(r[i]);
      if (got.status != GA_OK) {
        hit = true;
        failed++;
        if (got.status != GA_ERR_NOMEM) fail_msg("allocation %ld: request %d: %s", n, i, got.error);
        continue;
      }
      fine++;
      assert_int_equal(got.n_tokens, want[i].n_tokens);
      if (memcmp(got.tokens, want[i].tokens, sizeof(int) * (size_t)got.n_tokens) != 0)
        fail_msg("allocation %ld: request %d has other tokens", n, i);
    }
    if (is_late) {
      const ga_status status = read_outcome(late).status;
      assert_true(status == GA_ERR_TIMEOUT || status == GA_ERR_NOMEM);
    }
    ga_mem_fail_after(0);
    const ga_engine_stats s = when_idle(e.engine);
    if (s.failed) fail_msg("allocation %ld: the engine has failed", n);
    if (s.running || s.waiting || s.kv_pages_used)
      fail_msg("allocation %ld: %d run, %d wait, %lld pages", n, s.running, s.waiting, (long long)s.kv_pages_used);
    if (!hit && n > 150) break;
  }
  const ga_engine_stats s = robust_stats(e.engine);
  assert_int_equal(s.submitted, s.finished_abort + s.finished_error + s.finished_length + s.finished_stop);
  assert_true(refused > 20 && failed > 20 && fine > 4);
  close_robust(&e);
}

static void test_no_memory(void **state) {
  (void)state;
  sweep_memory("llama", 0);
  sweep_memory("gemma3", 0);
}

/* --- one user of a context --- */

static ga_status eval_one(ga_session *s) { return ga_session_eval(s, &(int32_t){5}, 1, NULL, 0, NULL, NULL); }

static void expect_taken(ga_status status) {
  assert_int_equal(status, GA_ERR_STATE);
  assert_non_null(strstr(ga_error_text(), "ga_model_share"));
}

/* A session or a second engine beside an engine would race for the threads of their context. */
static void test_context_is_taken(void **state) {
  (void)state;
  static const int32_t ids[] = {5, 6, 7};
  opened e = open_robust("llama", NULL);
  ga_session *s, *other;
  ga_engine *second;
  ga_ctx *ctx;
  ga_model *shared;
  ga_engine_destroy(e.engine);
  assert_int_equal(ga_session_create(e.model, NULL, &s), GA_OK);
  assert_int_equal(ga_engine_create(e.model, &(ga_engine_options){.struct_size = 3}, &e.engine), GA_ERR_ARG);
  assert_int_equal(eval_one(s), GA_OK); /* an engine that could not be made holds nothing */
  assert_int_equal(ga_engine_create(e.model, NULL, &e.engine), GA_OK);
  expect_taken(eval_one(s));
  assert_int_equal(ga_session_length(s), 1);
  expect_taken(ga_session_create(e.model, NULL, &other));
  expect_taken(ga_engine_create(e.model, NULL, &second));
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = "cpu";
  assert_int_equal(ga_ctx_create(&co, &ctx), GA_OK);
  assert_int_equal(ga_model_share(e.model, ctx, &shared), GA_OK);
  assert_int_equal(ga_session_create(shared, NULL, &other), GA_OK);
  assert_int_equal(eval_one(other), GA_OK);
  const ga_request_options o = few_options(ids, 3, 4);
  assert_int_equal(outcome_of(e.engine, &o).status, GA_OK);
  ga_session_destroy(other);
  ga_model_destroy(shared);
  ga_ctx_destroy(ctx);
  ga_engine_destroy(e.engine);
  assert_int_equal(eval_one(s), GA_OK);
  ga_session_destroy(s);
  ga_model_destroy(e.model);
  ga_ctx_destroy(e.ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prompt_of_one_token),   cmocka_unit_test(test_slow_readers),
      cmocka_unit_test(test_biases_without_number), cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_context_is_taken),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
