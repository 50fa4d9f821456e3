/* The engine on a GPU, over the mock driver: steps in which all requests generate are replayed as graphs, and a token
 * more costs the same few calls. Kernels do not run: each request draws the token that it had. */
#include "base/status.h"
#include "engine/engine.h"
#include "tests/cuda_rig.h"
#include "tests/tiny_model.h"

static int with_engine_driver(void **state) {
  (void)reset(state);
  cuda_replace_tables(image_of_every_row(), no_sources);
  mockcu.args_bytes = 8;
  return 0;
}

typedef struct mocked_rig {
  ga_ctx *ctx, *more; /* more: of the first layers, where there are two devices */
  ga_model *model;
  ga_engine *engine;
} mocked_rig;

/* n: devices that share the layers; 0: a GPU has one, a CPU the others. */
static mocked_rig mocked_open_over(int n, int32_t max_sequences) {
  mocked_rig r = {0};
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  tiny_context = 512;
  o.max_sequences = max_sequences;
  o.step_tokens = 128;
  o.kv_tokens = 8192;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  r.ctx = open_cuda();
  if (n > 1) assert_int_equal(open_as("cuda:1", &r.more), GA_OK);
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  mo.more = &r.more;
  mo.n_more = n > 1;
  mo.gpu_layers = n ? -1 : 1;
  if (ga_model_load(r.ctx, tiny_path, &mo, &r.model) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_model_placement_count(r.model), n ? n : 2);
  if (ga_engine_create(r.model, &o, &r.engine) != GA_OK) fail_msg("%s", ga_error_text());
  assert_true(runner_count(r.engine->runner).draws_on_device);
  return r;
}

static mocked_rig mocked_open(int32_t max_sequences) { return mocked_open_over(1, max_sequences); }

static void mocked_close(mocked_rig *r) {
  ga_engine_destroy(r->engine);
  ga_model_destroy(r->model);
  ga_ctx_destroy(r->ctx);
  ga_ctx_destroy(r->more);
}

static ga_status submit_mocked(const mocked_rig *r, int i, int32_t max_tokens, ga_request **out) {
  static const int32_t ids[] = {1, 5, 9, 20, 7, 11, 12, 13};
  const ga_logit_bias bias = {3, 1};
  ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  sample.temperature = i % 3 ? 0.8f : 0;
  sample.repetition_penalty = i % 2 ? 1.1f : 1;
  o.ids = ids;
  o.n_ids = 2 + i % 6;
  o.max_tokens = max_tokens;
  o.ignore_eog = true;
  o.sample = &sample;
  o.bias = &bias;
  o.n_bias = i % 5 == 0;
  o.logprobs = i % 7 == 0 ? 2 : -1;
  return ga_engine_submit(r->engine, &o, out);
}

static ga_request *ask_mocked(const mocked_rig *r, int i, int32_t max_tokens) {
  ga_request *request;
  if (submit_mocked(r, i, max_tokens, &request) != GA_OK) fail_msg("%s", ga_error_text());
  return request;
}

/* Reads it to its end; *n: its tokens. */
static ga_status tokens_of(ga_request *r, int32_t *n) {
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  int32_t made = 0;
  do {
    assert_int_equal(ga_request_poll(r, 20000, &out), GA_OK);
    assert_int_not_equal(out.event, GA_REQUEST_PENDING);
    made += out.event == GA_REQUEST_TOKEN;
  } while (out.event != GA_REQUEST_END);
  ga_request_destroy(r);
  if (n) *n = made;
  return (ga_status)out.status;
}

static void has_tokens(ga_request *r, int32_t want) {
  int32_t n;
  assert_int_equal(tokens_of(r, &n), GA_OK);
  assert_int_equal(n, want);
}

/* Requests of many lengths come and go. */
static void test_replays(void **state) {
  (void)state;
  enum { ROUNDS = 4, N = 14 };
  mocked_rig r = mocked_open(12);
  for (int round = 0; round < ROUNDS; round++) {
    ga_request *requests[N];
    for (int i = 0; i < N; i++) requests[i] = ask_mocked(&r, i, 40 + 29 * i);
    for (int i = 0; i < N; i++) has_tokens(requests[i], 40 + 29 * i);
  }
  const long steps = runner_count(r.engine->runner).n_recordable, replayed = runner_count(r.engine->runner).n_replayed;
  assert_true(steps > 1000);
  if (replayed * 100 < steps * 95) fail_msg("%ld of %ld steps were replayed", replayed, steps);
  assert_int_equal(mockcu.misuse[0], 0);
  mocked_close(&r);
}

/* A plain request, without biases or log-probabilities. */
static ga_request *ask_plainly(const mocked_rig *r, int i, int32_t max_tokens) {
  const int32_t ids[] = {1, 5 + i, 9, 20};
  ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  ga_request *request;
  sample.temperature = i % 2 ? 0.8f : 0;
  sample.repetition_penalty = i % 3 ? 1.1f : 1;
  o.ids = ids;
  o.n_ids = 4;
  o.max_tokens = max_tokens;
  o.ignore_eog = true;
  o.sample = &sample;
  if (ga_engine_submit(r->engine, &o, &request) != GA_OK) fail_msg("%s", ga_error_text());
  return request;
}

/* Steps in which all generate are enqueued before the tokens of the step before are known. Lengths differ. */
static void test_steps_ahead(void **state) {
  (void)state;
  enum { N = 10, TOKENS = 200 };
  mocked_rig r = mocked_open(12);
  ga_request *requests[N];
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  for (int i = 0; i < N; i++) requests[i] = ask_plainly(&r, i, TOKENS + i);
  for (int i = 0; i < 40; i++) assert_int_equal(ga_request_poll(requests[3], 20000, &out), GA_OK);
  ga_request_cancel(requests[3]);
  ga_request_destroy(requests[3]);
  for (int i = 0; i < N; i++)
    if (i != 3) has_tokens(requests[i], TOKENS + i);
  const long ahead = runner_count(r.engine->runner).n_ahead, steps = runner_count(r.engine->runner).n_steps;
  /* On a busy machine requests come one after another, and share few steps. */
  if (ahead * 100 < steps * 80 || steps > N * (TOKENS + N)) fail_msg("%ld of %ld steps were ahead", ahead, steps);
  /* Requests that want what only the host can tell. */
  for (int i = 0; i < 4; i++) requests[i] = ask_mocked(&r, 0, 40);
  for (int i = 0; i < 4; i++) has_tokens(requests[i], 40);
  assert_int_equal(runner_count(r.engine->runner).n_ahead, ahead);
  assert_int_equal(mockcu.misuse[0], 0);
  mocked_close(&r);
}

/* The devices replay their parts of a step, and steps are enqueued ahead as on one. 0 devices: a CPU helps one. Its
 * part of a step runs in the call, and would keep back the tokens of the step before: none is enqueued ahead. */
static void runs_over(int n_devices) {
  enum { N = 10, TOKENS = 200 };
  mocked_rig r = mocked_open_over(n_devices, 12);
  ga_request *requests[N];
  for (int i = 0; i < N; i++) requests[i] = ask_plainly(&r, i, TOKENS + i);
  for (int i = 0; i < N; i++) has_tokens(requests[i], TOKENS + i);
  const runner_counts n = runner_count(r.engine->runner);
  if (n_devices ? n.n_ahead * 100 < n.n_steps * 80 : n.n_ahead > 0)
    fail_msg("%ld of %ld steps were ahead", n.n_ahead, n.n_steps);
  if (n.n_replayed * 100 < n.n_recordable * 80) fail_msg("%ld of %ld were replayed", n.n_replayed, n.n_recordable);
  for (int i = 0; i < N; i++) requests[i] = ask_mocked(&r, i, 40 + i);
  for (int i = 0; i < N; i++) has_tokens(requests[i], 40 + i);
  assert_int_equal(mockcu.misuse[0], 0);
  mocked_close(&r);
}

static void test_two_devices(void **state) {
  (void)state;
  runs_over(2);
}

static void test_cpu_helps(void **state) {
  (void)state;
  runs_over(0);
}

/* Prompts, in pieces too, come and end while others generate, with biases and penalties: all steps but few are
 * enqueued ahead. Some requests leave in mid-answer. */
static void test_prompts_ahead(void **state) {
  (void)state;
  enum { N = 120, AT_ONCE = 12, LONG = 300 };
  static int32_t ids[LONG];
  mocked_rig r = mocked_open(AT_ONCE);
  ga_request *requests[N];
  for (int i = 0; i < LONG; i++) ids[i] = 4 + i % 60;
  for (int i = 0; i < N; i++) {
    const ga_logit_bias bias = {3, 1};
    ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
    ga_request_options o = GA_REQUEST_OPTIONS_INIT;
    sample.temperature = i % 3 ? 0.8f : 0;
    sample.repetition_penalty = i % 2 ? 1.1f : 1;
    o.ids = ids;
    o.n_ids = i % 4 ? 1 + i : LONG - i;
    o.max_tokens = 5 + i % 50;
    o.ignore_eog = true;
    o.tenant = (uint64_t)i;
    o.sample = &sample;
    o.bias = &bias;
    o.n_bias = i % 5 == 0;
    if (ga_engine_submit(r.engine, &o, &requests[i]) != GA_OK) fail_msg("%s", ga_error_text());
  }
  for (int i = 0; i < N; i++) {
    ga_request_output out = GA_REQUEST_OUTPUT_INIT;
    if (i % 7 != 3) {
      has_tokens(requests[i], 5 + i % 50);
      continue;
    }
    assert_int_equal(ga_request_poll(requests[i], 20000, &out), GA_OK);
    ga_request_destroy(requests[i]);
  }
  const long ahead = runner_count(r.engine->runner).n_ahead, steps = runner_count(r.engine->runner).n_steps;
  const long plain = runner_count(r.engine->runner).n_recordable;
  if (ahead * 100 < steps * 95) fail_msg("%ld of %ld steps were ahead", ahead, steps);
  assert_true(steps - plain > 40); /* those with prompts */
  assert_int_equal(mockcu.misuse[0], 0);
  mocked_close(&r);
}

/* Reads it to its end; *prompt: its events of the prompt's tokens. */
static ga_status events_of(ga_request *r, int32_t *prompt) {
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  *prompt = 0;
  do {
    assert_int_equal(ga_request_poll(r, 20000, &out), GA_OK);
    assert_int_not_equal(out.event, GA_REQUEST_PENDING);
    *prompt += out.event == GA_REQUEST_PROMPT;
  } while (out.event != GA_REQUEST_END);
  ga_request_destroy(r);
  return (ga_status)out.status;
}

/* A prompt that is scored comes while another request generates: the plan ahead that has it is given up, and the next
 * one tells all of its tokens. */
static void test_scores_beside_steps_ahead(void **state) {
  (void)state;
  enum { N = 6 };
  static const int32_t ids[] = {1, 5, 9, 20, 7, 11, 12, 13, 2};
  mocked_rig r = mocked_open(4);
  ga_request *busy = ask_plainly(&r, 1, 400);
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  assert_int_equal(ga_request_poll(busy, 20000, &out), GA_OK);
  for (int i = 0; i < N; i++) {
    ga_request_options o = GA_REQUEST_OPTIONS_INIT;
    ga_request *scored;
    int32_t n;
    o.ids = ids, o.n_ids = 9 - i, o.max_tokens = i % 2, o.ignore_eog = true, o.prompt_logprobs = true;
    if (ga_engine_submit(r.engine, &o, &scored) != GA_OK) fail_msg("%s", ga_error_text());
    assert_int_equal(events_of(scored, &n), GA_OK);
    if (n != o.n_ids) fail_msg("request %d: %d of %d tokens of the prompt", i, n, o.n_ids);
  }
  ga_request_destroy(busy);
  assert_int_equal(mockcu.misuse[0], 0);
  mocked_close(&r);
}

/* The engine ends while steps are under way. */
static void test_ends_in_mid_step(void **state) {
  (void)state;
  for (int i = 0; i < 40; i++) {
    mocked_rig r = mocked_open(4);
    ga_request *a = ask_plainly(&r, 1, 400), *b = ask_plainly(&r, 2, 300);
    usleep((useconds_t)(i * 97));
    ga_engine_destroy(r.engine);
    r.engine = NULL;
    ga_request_destroy(a);
    ga_request_destroy(b);
    mocked_close(&r);
    assert_int_equal(mockcu.misuse[0], 0);
  }
}

/* A life of an engine over n devices with a call of the driver failing, once or from then on; how far it came. */
static ga_status faulty_life(bool ahead, int n) {
  mocked_rig r = {0};
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  ga_request *requests[3] = {0};
  o.max_sequences = 4;
  o.kv_tokens = 8192;
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  mo.more = &r.more;
  mo.n_more = n - 1;
  ga_status status = open_as("cuda:0", &r.ctx);
  if (status == GA_OK && n > 1) status = open_as("cuda:1", &r.more);
  if (status == GA_OK) status = ga_model_load(r.ctx, tiny_path, &mo, &r.model);
  if (status == GA_OK) status = ga_engine_create(r.model, &o, &r.engine);
  for (int i = 0; status == GA_OK && i < 3; i++) status = submit_mocked(&r, 5 * i + ahead, 6, &requests[i]);
  for (int i = 0; i < 3; i++) {
    const ga_status ended = requests[i] ? tokens_of(requests[i], NULL) : status;
    if (status == GA_OK) status = ended;
  }
  mocked_close(&r);
  return status;
}

/* Every third call in turn, on n devices. */
static void each_call_fails(int n_devices) {
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  /* Requests with biases, whose steps wait for one another, and others, whose steps are enqueued ahead. */
  for (int kind = 0; kind < 3; kind++) {
    const bool lost = kind > 0, ahead = kind != 1;
    long failures = 0;
    bool reached = true;
    for (long n = 1; reached; n += 3) {
      mockcu_reset();
      mockcu.args_bytes = 8;
      mockcu.fail_call = n;
      mockcu.fails_on = lost;
      mockcu.fail_rc = 214;
      const ga_status status = faulty_life(ahead, n_devices);
      reached = mockcu.calls >= n;
      failures += status != GA_OK;
      if (!reached) assert_int_equal(status, GA_OK);
      if (mockcu.live || mockcu.misuse[0])
        fail_msg("call %ld, %s: alive %ld, misuse '%s'", n, mockcu.last_call, mockcu.live, mockcu.misuse);
    }
    assert_true(failures > 100);
  }
}

static void test_each_call_of_an_engine_fails(void **state) {
  (void)state;
  each_call_fails(1);
}

static void test_each_call_of_two_devices_fails(void **state) {
  (void)state;
  each_call_fails(2);
}

static void test_step_classes(void **state) {
  (void)state;
  static const int32_t want[][2] = {{1, 1},   {2, 2},   {3, 4},   {5, 8},   {9, 16},    {17, 24},   {24, 24},
                                    {25, 32}, {33, 48}, {49, 64}, {65, 96}, {129, 192}, {200, 200}, {193, 200}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) assert_int_equal(step_class(want[i][0], 200), want[i][1]);
}

/* Without the row for many rows, logits come to the host as before. */
static void test_no_rows_kernel(void **state) {
  (void)state;
  mocked_rig r = {0};
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = "cuda:0";
  co.disable_kernels = "sample_f32_rows*";
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  assert_int_equal(ga_ctx_create(&co, &r.ctx), GA_OK);
  assert_int_equal(ga_model_load(r.ctx, tiny_path, NULL, &r.model), GA_OK);
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.kv_tokens = 8192;
  if (ga_engine_create(r.model, &o, &r.engine) != GA_OK) fail_msg("%s", ga_error_text());
  assert_false(runner_count(r.engine->runner).draws_on_device);
  has_tokens(ask_mocked(&r, 1, 5), 5);
  assert_int_equal(runner_count(r.engine->runner).n_recordable, 0);
  mocked_close(&r);
}

static int recordings_tried;

static ga_status recording_is_refused(ga_stream *stream) {
  (void)stream;
  recordings_tried++;
  return ga_error_set(GA_ERR_UNSUPPORTED, "this device records no graphs");
}

/* A device that records no graphs is asked once, and not at each step. */
static void test_recording_refused(void **state) {
  (void)state;
  mocked_rig r = mocked_open(2);
  ga_graphs graphs = *r.ctx->device->graphs;
  const ga_graphs *const before = r.ctx->device->graphs;
  graphs.begin = recording_is_refused;
  r.ctx->device->graphs = &graphs;
  recordings_tried = 0;
  has_tokens(ask_mocked(&r, 1, 50), 50);
  assert_int_equal(recordings_tried, 1);
  assert_int_equal(runner_count(r.engine->runner).n_replayed, 0);
  r.ctx->device->graphs = before;
  mocked_close(&r);
}

/* An engine that is to be deterministic, without some kernels. */
static ga_status deterministic_without(const char *kernels, mocked_rig *r) {
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  *r = (mocked_rig){0};
  co.device = "cuda:0";
  co.disable_kernels = kernels;
  o.kv_tokens = 8192;
  o.max_sequences = 4;
  o.flags = GA_ENGINE_DETERMINISTIC;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  assert_int_equal(ga_ctx_create(&co, &r->ctx), GA_OK);
  assert_int_equal(ga_model_load(r->ctx, tiny_path, NULL, &r->model), GA_OK);
  return ga_engine_create(r->model, &o, &r->engine);
}

static void test_deterministic_steps(void **state) {
  (void)state;
  mocked_rig r;
  if (deterministic_without(NULL, &r) != GA_OK) fail_msg("%s", ga_error_text());
  has_tokens(ask_mocked(&r, 1, 9), 9);
  assert_true(runner_count(r.engine->runner).n_recordable > 0);
  mocked_close(&r);
}

/* Before any request, with what the others lack. */
static void test_deterministic_lacks_rows(void **state) {
  (void)state;
  mocked_rig r;
  assert_int_equal(deterministic_without("attn_*_decode_*", &r), GA_ERR_UNSUPPORTED);
  assert_text("engine: deterministic: attn on ");
  assert_text("it is not batch-invariant");
  mocked_close(&r);
  assert_int_equal(deterministic_without("gemm_any_native_*", &r), GA_ERR_UNSUPPORTED);
  assert_text("engine: deterministic: gemm on ");
  mocked_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_replays, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_steps_ahead, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_two_devices, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_cpu_helps, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_prompts_ahead, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_scores_beside_steps_ahead, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_ends_in_mid_step, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_each_call_of_an_engine_fails, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_each_call_of_two_devices_fails, with_engine_driver, no_leaks),
      cmocka_unit_test(test_step_classes),
      cmocka_unit_test_setup_teardown(test_recording_refused, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_no_rows_kernel, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_deterministic_steps, with_engine_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_deterministic_lacks_rows, with_engine_driver, no_leaks),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
