/* An engine whose model has its layers on several devices gives what it gives on one, to the bit. On the tiny models of
 * tests/data/arch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ga/engine.h"
#include "tests/tiny_model.h"

/* The emulator is some hundred times slower. */
#ifdef GA_TEST_DEVICE
enum { FEW = 1 };
#else
#define GA_TEST_DEVICE "cpu"
enum { FEW = 0 };
#endif

enum { CONTEXT = 256, N = FEW ? 2 : 12, PROMPT = 60, NEW = FEW ? 72 : 150, PAGE = 64, STAGES_MAX = 3 };
enum { SWAP_BYTES = 1 << 24, POLL_MS = FEW ? 600000 : 60000, FEW_PAGES = FEW ? 4 : 9, MANY_PAGES = N * CONTEXT / PAGE };

typedef struct staged_rig {
  ga_ctx *ctx[STAGES_MAX];
  ga_model *model;
  ga_engine *engine;
  int n;
} staged_rig;

static ga_ctx *open_stage(void) {
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = GA_TEST_DEVICE;
  o.threads = 2;
  if (ga_ctx_create(&o, &ctx) != GA_OK) fail_msg("%s", ga_error_text());
  return ctx;
}

/* The model of tiny_path over n contexts. */
static staged_rig load_staged(int n) {
  staged_rig r = {.n = n};
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  for (int i = 0; i < n; i++) r.ctx[i] = open_stage();
  o.more = r.ctx + 1;
  o.n_more = n - 1;
  if (ga_model_load(r.ctx[0], tiny_path, &o, &r.model) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_model_placement_count(r.model), n);
  return r;
}

static staged_rig open_staged(int n, int pages, int64_t swap_bytes, uint32_t flags) {
  staged_rig r = load_staged(n);
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.max_sequences = 8;
  o.step_tokens = 64;
  o.kv_tokens = (int64_t)pages * PAGE;
  o.swap_bytes = swap_bytes;
  o.flags = flags;
  if (ga_engine_create(r.model, &o, &r.engine) != GA_OK) fail_msg("%s", ga_error_text());
  return r;
}

static void close_staged(staged_rig *r) {
  ga_engine_destroy(r->engine);
  ga_model_destroy(r->model);
  for (int i = 0; i < r->n; i++) ga_ctx_destroy(r->ctx[i]);
}

static ga_engine_stats staged_stats(const staged_rig *r) {
  ga_engine_stats s = GA_ENGINE_STATS_INIT;
  assert_int_equal(ga_engine_get_stats(r->engine, &s), GA_OK);
  return s;
}

/* --- answers --- */

typedef struct staged_answer {
  int32_t ids[PROMPT + NEW];
  float logprobs[PROMPT + NEW];
  int n, n_cached;
} staged_answer;

static void fill_ids(int32_t *ids, int n, uint64_t seed) {
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  for (int i = 0; i < n; i++) ids[i] = 3 + (int32_t)ga_rng_below(&rng, TINY_VOCAB - 3);
}

/* Every third one draws with penalties and a bias, every fourth has its prompt scored, every fifth wants no
 * log-probabilities, so that steps are enqueued ahead where the device draws. */
static ga_request *submit_staged(const staged_rig *r, int i, const int32_t *ids) {
  static const ga_sample_desc warm = {.struct_size = sizeof(ga_sample_desc),
                                      .temperature = 0.8f,
                                      .top_p = 0.9f,
                                      .typical_p = 1,
                                      .repetition_penalty = 1.1f};
  static const ga_logit_bias bias = {7, -2};
  ga_request *request;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids;
  o.n_ids = PROMPT;
  o.sample = i % 3 == 1 ? &warm : NULL;
  o.bias = &bias;
  o.n_bias = i % 3 == 1;
  o.seed = (uint64_t)i;
  o.max_tokens = NEW;
  o.ignore_eog = true;
  o.logprobs = FEW || i % 5 == 0 ? -1 : 0;
  o.prompt_logprobs = i % 4 == 3;
  if (ga_engine_submit(r->engine, &o, &request) != GA_OK) fail_msg("%s", ga_error_text());
  return request;
}

static void read_staged(ga_request *request, staged_answer *a) {
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  ga_request_info info = GA_REQUEST_INFO_INIT;
  for (*a = (staged_answer){.n = 0};;) {
    assert_int_equal(ga_request_poll(request, POLL_MS, &out), GA_OK);
    assert_int_not_equal(out.event, GA_REQUEST_PENDING);
    if (out.event == GA_REQUEST_END) break;
    assert_true(a->n < PROMPT + NEW);
    a->ids[a->n] = out.id;
    a->logprobs[a->n++] = isnan(out.logprob) ? 0.0f : out.logprob;
  }
  if (out.status != GA_OK) fail_msg("%s", ga_request_error(request));
  assert_int_equal(ga_request_get_info(request, &info), GA_OK);
  a->n_cached = info.n_cached;
  ga_request_destroy(request);
}

/* All at once; some prompts are the same. */
static void answer_staged(const staged_rig *r, staged_answer *answers) {
  static int32_t prompts[N][PROMPT];
  ga_request *requests[N];
  for (int i = 0; i < N; i++) {
    fill_ids(prompts[i], PROMPT, i % 5 ? (uint64_t)i : 7);
    requests[i] = submit_staged(r, i, prompts[i]);
  }
  for (int i = 0; i < N; i++) read_staged(requests[i], &answers[i]);
}

static void same_as_on_one(const staged_answer *got, const staged_answer *want, const char *arch, int n) {
  for (int i = 0; i < N; i++) {
    assert_int_equal(got[i].n, want[i].n);
    assert_int_equal(want[i].n, NEW + (i % 4 == 3 ? PROMPT : 0));
    for (int k = 0; k < got[i].n; k++)
      if (got[i].ids[k] != want[i].ids[k] || memcmp(&got[i].logprobs[k], &want[i].logprobs[k], sizeof(float)) != 0)
        fail_msg("%s over %d, request %d, token %d: %d (%a), not %d (%a)", arch, n, i, k, got[i].ids[k],
                 (double)got[i].logprobs[k], want[i].ids[k], (double)want[i].logprobs[k]);
  }
}

/* --- tests --- */

static void make_staged(const char *arch) {
  tiny_context = CONTEXT;
  if (tiny_make(arch, TINY_VOCAB) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
}

/* With room for all, with preemption, and with pages that go to host memory and come back. */
static void test_stages_as_one(void **state) {
  (void)state;
  static const char *const archs[] = {"llama", "gemma3"};
  static staged_answer want[N], got[N];
  for (int a = 0; a < (FEW ? 1 : 2); a++) {
    make_staged(archs[a]);
    staged_rig one = open_staged(1, MANY_PAGES, 0, GA_ENGINE_DETERMINISTIC);
    answer_staged(&one, want);
    assert_int_equal(staged_stats(&one).preemptions, 0);
    close_staged(&one);
    for (int n = 2; n <= (FEW ? 2 : STAGES_MAX); n++) {
      for (int way = 0; way < 3; way++) {
        staged_rig r = open_staged(n, way ? FEW_PAGES : MANY_PAGES, way == 2 ? SWAP_BYTES : 0, GA_ENGINE_DETERMINISTIC);
        answer_staged(&r, got);
        const ga_engine_stats s = staged_stats(&r);
        assert_int_equal(s.preemptions > 0, way > 0);
        assert_int_equal(s.swapped_in_bytes > 0, way == 2);
        same_as_on_one(got, want, archs[a], n);
        close_staged(&r);
      }
    }
  }
}

/* One after another, without batch-invariant rows: the second turn finds the first one's pages. */
static void two_turns(int n, staged_answer *answers) {
  int32_t ids[2 * PROMPT];
  staged_rig r = open_staged(n, MANY_PAGES, 0, 0);
  fill_ids(ids, 2 * PROMPT, 5);
  for (int turn = 0; turn < 2; turn++) {
    ga_request *request;
    ga_request_options o = GA_REQUEST_OPTIONS_INIT;
    o.ids = ids, o.n_ids = (turn + 1) * PROMPT, o.max_tokens = 20, o.ignore_eog = true, o.logprobs = 0;
    assert_int_equal(ga_engine_submit(r.engine, &o, &request), GA_OK);
    read_staged(request, &answers[turn]);
  }
  close_staged(&r);
}

static void test_stages_find_prefixes(void **state) {
  (void)state;
  staged_answer want[2], got[2];
  make_staged("llama");
  two_turns(1, want);
  two_turns(2, got);
  assert_int_equal(want[0].n_cached, 0);
  assert_int_equal(want[1].n_cached, PROMPT);
  for (int turn = 0; turn < 2; turn++) {
    assert_int_equal(got[turn].n_cached, want[turn].n_cached);
    assert_int_equal(got[turn].n, 20);
    assert_memory_equal(got[turn].ids, want[turn].ids, 20 * sizeof(int32_t));
    assert_memory_equal(got[turn].logprobs, want[turn].logprobs, 20 * sizeof(float));
  }
}

/* An engine has all contexts of its model, and gives all back, also when it cannot be made. */
static void test_stages_are_claimed(void **state) {
  (void)state;
  ga_engine *second;
  ga_session *session;
  make_staged("llama");
  staged_rig r = open_staged(2, 8, 0, 0);
  assert_int_equal(ga_engine_create(r.model, NULL, &second), GA_ERR_STATE);
  assert_non_null(strstr(ga_error_text(), "another engine uses the model's context"));
  assert_int_equal(ga_session_create(r.model, NULL, &session), GA_ERR_STATE);
  ga_engine_destroy(r.engine);
  r.engine = NULL;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.max_sequences = 4;
  o.kv_tokens = 1024;
  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; status == GA_ERR_NOMEM; n++) { /* no memory at the n-th allocation: nothing is left behind */
    ga_mem_fail_after(n);
    status = ga_engine_create(r.model, &o, &r.engine);
    ga_mem_fail_after(0);
  }
  if (status != GA_OK) fail_msg("%s", ga_error_text());
  close_staged(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stages_as_one),
      cmocka_unit_test(test_stages_find_prefixes),
      cmocka_unit_test(test_stages_are_claimed),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
