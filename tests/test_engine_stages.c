/* An engine whose model has its layers on several devices gives what it gives on one, to the bit. GA_TEST_GPUS=N: on
 * N GPUs in turn. */
#include "engine/engine.h"
#include "tests/answers_rig.h"

/* Stages on GPUs run different steps at the same time; those of a CPU work within calls, one after the other. */
static void check_pipeline(const ga_engine *e, int n) {
  const bool is_gpu = n_test_gpus() || strcmp(GA_TEST_DEVICE, "cpu") != 0;
  assert_int_equal(runner_pipelines(e->runner), is_gpu && n > 1);
  if (is_gpu) assert_true(runner_count(e->runner).n_ahead > 0);
}

/* With room for all, with preemption, and with pages that go to host memory and come back. */
static void stages_as_one(const char *arch, int n, const answer *want) {
  static answer got[N];
  rig r = answers_open(arch, n);
  for (int way = 0; way < 3; way++) {
    ga_engine *e =
        engine_of(&r, way ? FEW_PAGES : MANY_PAGES, way == 2 ? SWAP_BYTES : 0, GA_ENGINE_DETERMINISTIC, GA_F16);
    const ga_engine_stats s = answer_all(e, got);
    assert_int_equal(s.preemptions > 0, way > 0);
    assert_int_equal(s.swapped_in_bytes > 0, way == 2);
    same_answers(got, want, arch, n);
    check_pipeline(e, n);
    ga_engine_destroy(e);
  }
  answers_close(&r);
}

static void test_stages_as_one(void **state) {
  (void)state;
  static const char *const archs[] = {"llama", "gemma3"};
  static answer want[N];
  for (int a = 0; a < (FEW ? 1 : 2); a++) {
    rig one = answers_open(archs[a], 1);
    ga_engine *e = engine_of(&one, MANY_PAGES, 0, GA_ENGINE_DETERMINISTIC, GA_F16);
    assert_int_equal(answer_all(e, want).preemptions, 0);
    ga_engine_destroy(e);
    answers_close(&one);
    for (int n = 2; n <= (FEW ? 2 : DEVICES_MAX); n++) stages_as_one(archs[a], n, want);
  }
}

/* Requests that want nothing but tokens: stages on GPUs have them in two halves, in turn. */
static void test_halves_as_one(void **state) {
  (void)state;
  if (FEW) skip(); /* those of the emulator want nothing else in any test */
  answers_are_bare = true;
  test_stages_as_one(NULL);
  answers_are_bare = false;
}

enum { TURNS = 2, NEXT = FEW ? 6 : 20 };

/* One after another, without batch-invariant rows: the second turn finds the first one's pages. */
static void two_turns(int n, answer *answers) {
  int32_t ids[TURNS * PROMPT];
  rig r = answers_open("llama", n);
  ga_engine *e = engine_of(&r, MANY_PAGES, 0, 0, GA_F16);
  fill_seeded(ids, TURNS * PROMPT, 5);
  for (int turn = 0; turn < TURNS; turn++) {
    ga_request *request;
    ga_request_options o = GA_REQUEST_OPTIONS_INIT;
    o.ids = ids, o.n_ids = (turn + 1) * PROMPT, o.max_tokens = NEXT, o.ignore_eog = true, o.logprobs = 0;
    assert_int_equal(ga_engine_submit(e, &o, &request), GA_OK);
    read_answer(request, &answers[turn]);
  }
  ga_engine_destroy(e);
  answers_close(&r);
}

static void test_stages_find_prefixes(void **state) {
  (void)state;
  answer want[TURNS], got[TURNS];
  two_turns(1, want);
  two_turns(2, got);
  assert_int_equal(want[0].n_cached, 0);
  assert_int_equal(want[1].n_cached, PROMPT);
  for (int turn = 0; turn < TURNS; turn++) {
    assert_int_equal(got[turn].n_cached, want[turn].n_cached);
    assert_int_equal(got[turn].n, NEXT);
    assert_memory_equal(got[turn].ids, want[turn].ids, NEXT * sizeof(int32_t));
    assert_memory_equal(got[turn].logprobs, want[turn].logprobs, NEXT * sizeof(float));
  }
}

/* An engine has all contexts of its model, and gives all back, also when it cannot be made. */
static void test_stages_are_claimed(void **state) {
  (void)state;
  ga_engine *second;
  ga_session *session;
  rig r = answers_open("llama", 2);
  ga_engine *e = engine_of(&r, 8, 0, 0, GA_F16);
  assert_int_equal(ga_engine_create(r.model, NULL, &second), GA_ERR_STATE);
  assert_non_null(strstr(ga_error_text(), "another engine uses the model's context"));
  assert_int_equal(ga_session_create(r.model, NULL, &session), GA_ERR_STATE);
  ga_engine_destroy(e);
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.max_sequences = 4;
  o.kv_tokens = 1024;
  ga_engine_destroy(engine_after_failures(&r, &o));
  answers_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stages_as_one),
      cmocka_unit_test(test_halves_as_one),
      cmocka_unit_test(test_stages_find_prefixes),
      cmocka_unit_test(test_stages_are_claimed),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
