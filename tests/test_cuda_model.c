/* Loading and running a model on a GPU that fails, over the mock driver: at every call, once or from then on (a GPU
 * that is lost), a clear error of one line, no hang, nothing left behind; and files that change while they are read. */
#include <sys/stat.h>

#include "base/status.h"
#include "engine/session.h"
#include "model/promote.h"
#include "model/weight_spec.h"
#include "tests/cuda_rig.h"
#include "tests/tiny_model.h"

static int with_driver(void **state) {
  (void)reset(state);
  cuda_replace_tables(image_of_every_row(), no_sources);
  mockcu.args_bytes = 8;
  return 0;
}

typedef struct made {
  ga_ctx *ctx[2];
  ga_model *model;
  ga_session *session;
} made;

/* As `ga run` does it: a prompt, then tokens, the later ones as a graph. n: devices. */
static ga_status run_made(made *m, int n) {
  static const int32_t ids[] = {1, 5, 9, 20, 7, 11, 12, 13};
  static float logits[TINY_VOCAB];
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  so.context = 64;
  mo.session = &so;
  mo.more = m->ctx;
  mo.n_more = n - 1;
  *m = (made){0};
  for (int i = 0; i < n; i++) GA_TRY(open_as(i ? "cuda:1" : "cuda:0", &m->ctx[i]));
  GA_TRY(ga_model_load(m->ctx[n - 1], tiny_path, &mo, &m->model));
  GA_TRY(ga_session_create(m->model, &so, &m->session));
  GA_TRY(ga_session_eval(m->session, ids, 5, logits, 1, NULL, NULL));
  for (int i = 5; i < 8; i++) GA_TRY(ga_session_eval(m->session, ids + i, 1, logits, 1, NULL, NULL));
  return GA_OK;
}

static void close_made(made *m) {
  ga_session_destroy(m->session);
  ga_model_destroy(m->model);
  for (int i = 0; i < 2; i++) ga_ctx_destroy(m->ctx[i]);
}

/* stride: between the calls that fail. */
static void sweep_failures(int devices, bool lost, long stride) {
  long n = 1, failures = 0;
  for (bool reached = true; reached; n += stride) {
    made m;
    mockcu_reset();
    mockcu.args_bytes = 8;
    mockcu.fail_call = n;
    mockcu.fails_on = lost;
    mockcu.fail_rc = 214;
    const ga_status status = run_made(&m, devices);
    char text[1024];
    (void)snprintf(text, sizeof text, "%s", ga_error_text());
    reached = mockcu.calls >= n;
    close_made(&m);
    if (mockcu.live || mockcu.misuse[0])
      fail_msg("call %ld, %s: alive %ld, misuse '%s'", n, mockcu.last_call, mockcu.live, mockcu.misuse);
    if (!reached) assert_int_equal(status, GA_OK);
    if (lost && reached && status == GA_OK) fail_msg("call %ld: all went well on a lost device", n);
    failures += status != GA_OK;
    if (status != GA_OK && (!text[0] || strchr(text, '\n'))) fail_msg("call %ld: '%s'", n, text);
    if (status != GA_OK && !strstr(text, "CUDA_ERROR_MOCK"))
      fail_msg("call %ld: '%s' does not say what the driver said", n, text);
  }
  assert_true(failures > 300 / stride); /* it did fail often */
}

static void test_each_call_fails(void **state) {
  (void)state;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  sweep_failures(1, false, 1);
}

static void test_lost(void **state) {
  (void)state;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  sweep_failures(1, true, 1);
}

static void test_lost_of_two(void **state) {
  (void)state;
  assert_int_equal(tiny_make("gemma3", TINY_VOCAB), GA_OK);
  sweep_failures(2, true, 7);
}

/* Ids of a step lie in page-locked memory until the device has read them, also when nothing is waited for between
 * calls; the driver watches. */
static void test_inputs_stay(void **state) {
  (void)state;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  for (int n = 1; n <= 2; n++) {
    made m;
    if (run_made(&m, n) != GA_OK) fail_msg("%s", ga_error_text());
    for (int32_t id = 3; id < 7; id++) assert_int_equal(ga_session_eval(m.session, &id, 1, NULL, 0, NULL, NULL), GA_OK);
    assert_int_equal(ga_session_rewind(m.session, 2), GA_OK);
    assert_int_equal(ga_session_eval(m.session, (int32_t[]){8, 9, 10}, 3, NULL, 0, NULL, NULL), GA_OK);
    close_made(&m);
    assert_string_equal(mockcu.misuse, "");
  }
}

/* Rows of a call whose first chunk has none, and of one after a call that wanted none: those chunks are under way. */
static void test_rows_of_later_chunks(void **state) {
  (void)state;
  static const int32_t ids[] = {1, 5, 9, 20, 7, 11, 12, 13, 2, 3};
  static float logits[10 * TINY_VOCAB];
  made m;
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.context = 64;
  so.batch = 4;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  for (int n = 1; n <= 2; n++) {
    if (run_made(&m, n) != GA_OK || ga_session_create(m.model, &so, &s) != GA_OK) fail_msg("%s", ga_error_text());
    for (int32_t rows = 0; rows <= 10; rows++) {
      assert_int_equal(ga_session_rewind(s, 0), GA_OK);
      if (ga_session_eval(s, ids, 10, logits, rows, NULL, NULL) != GA_OK) fail_msg("%d: %s", rows, ga_error_text());
      assert_int_equal(ga_session_eval(s, ids, 5, NULL, 0, NULL, NULL), GA_OK);
      assert_int_equal(ga_session_eval(s, ids, 1, logits, 1, NULL, NULL), GA_OK);
      assert_int_equal(ga_session_length(s), 16);
    }
    ga_session_destroy(s);
    close_made(&m);
    assert_string_equal(mockcu.misuse, "");
  }
}

static void test_old_driver(void **state) {
  (void)state;
  made m = {0};
  mockcu.version = 11080;
  assert_int_equal(run_made(&m, 1), GA_ERR_UNSUPPORTED);
  assert_text("the CUDA driver is for CUDA 11.8; 12.0 or newer is needed");
  close_made(&m);
}

/* --- drawing inside of the step --- */

typedef struct cost {
  long calls;
  int launches, graphs;
} cost;

/* Calls for a token: its inputs are sent, the step is replayed, the draw comes back, an event is recorded, and waited
 * for. */
enum { STEP_CALLS = 5 };

/* Counts what the driver is asked for n steps that draw, each enqueued before the token of the one before it is known.
 * Kernels do not run here: each draws what it was given. */
static cost cost_of_steps(ga_session *s, const row_draw *draw, int n) {
  const cost before = {mockcu.calls, mockcu.launches, mockcu.graph_launches};
  part_result result;
  if (session_step(s, 5, draw) != GA_OK) fail_msg("%s", ga_error_text());
  for (int i = 0; i < n; i++) {
    if (i + 1 < n && session_step(s, SESSION_DRAWN, draw) != GA_OK) fail_msg("%s", ga_error_text());
    if (session_take(s, &result) != GA_OK) fail_msg("%s", ga_error_text());
    assert_int_equal(result.next, 5);
  }
  return (cost){mockcu.calls - before.calls, mockcu.launches - before.launches, mockcu.graph_launches - before.graphs};
}

/* Without a row for draws the CPU makes them. The inputs of a step that draws follow the parameters of the draw; those
 * of a step whose row is shown follow nothing. A recording of one must not be replayed for the other. */
static void test_graphs_of_host_draws(void **state) {
  (void)state;
  static float logits[TINY_VOCAB];
  const int32_t id = 5;
  made m = {0};
  part_result result;
  uint64_t rng[4] = {1};
  draw_history history = DRAW_HISTORY_INIT;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_sample_desc d = GA_SAMPLE_DESC_INIT;
  so.context = 64;
  co.device = "cuda:0";
  co.disable_kernels = "sample_f32_rows_sm80_512";
  d.vocab = TINY_VOCAB;
  const row_draw draw = {.sample = &d, .rng = rng, .history = &history};
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  assert_int_equal(ga_ctx_create(&co, &m.ctx[0]), GA_OK);
  assert_int_equal(ga_model_load(m.ctx[0], tiny_path, NULL, &m.model), GA_OK);
  assert_int_equal(ga_session_create(m.model, &so, &m.session), GA_OK);
  assert_false(runner_count(m.session->runner).draws_on_device);
  for (int i = 0; i < 3; i++) { /* planned, recorded, replayed */
    if (session_step(m.session, id, &draw) != GA_OK) fail_msg("%s", ga_error_text());
    if (session_take(m.session, &result) != GA_OK) fail_msg("%s", ga_error_text());
  }
  const int before = mockcu.graph_launches;
  assert_true(before > 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(ga_session_eval(m.session, &id, 1, logits, 1, NULL, NULL), GA_OK);
    assert_int_equal(mockcu.graph_launches, before + i);
  }
  close_made(&m);
}

/* A token more is one graph, and the same few calls whatever the chain: no history is sent. */
static void test_samples_cost_the_same(void **state) {
  (void)state;
  made m;
  long calls = 0;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  if (run_made(&m, 1) != GA_OK) fail_msg("%s", ga_error_text());
  for (int i = 0; i < 3; i++) {
    ga_sample_desc d = GA_SAMPLE_DESC_INIT;
    draw_history history = DRAW_HISTORY_INIT;
    uint64_t rng[4];
    ga_sample_seed(rng, 1);
    d.vocab = TINY_VOCAB;
    if (i) d.temperature = 0.8f, d.top_k = 40, d.top_p = 0.9f, d.min_p = 0.05f;
    if (i > 1) d.repetition_penalty = 1.1f;
    const row_draw draw = {.sample = &d, .window = i > 1 ? 4 : 0, .rng = rng, .history = &history};
    (void)cost_of_steps(m.session, &draw, 3); /* planned, recorded, replayed */
    const cost few = cost_of_steps(m.session, &draw, 2), more = cost_of_steps(m.session, &draw, 3);
    assert_int_equal(more.graphs - few.graphs, 1);
    assert_int_equal(more.launches, few.launches);
    assert_true(more.calls - few.calls <= 2 * STEP_CALLS); /* each sets the context first */
    assert_true(i == 0 || more.calls - few.calls == calls);
    calls = more.calls - few.calls;
    runner_forget(m.session->runner, &history);
  }
  close_made(&m);
}

/* --- launches --- */

/* One token of a model of quantised weights: so many launches a layer, besides the embedding and the head. */
static void count_launches(const char *arch, ga_dtype v, int a_layer) {
  made m;
  mockcu_reset();
  mockcu.args_bytes = 8;
  if (tiny_make_of(arch, TINY_VOCAB, GA_Q8_0, v) != GA_OK || run_made(&m, 1) != GA_OK)
    fail_msg("%s: %s", arch, ga_error_text());
  const int layers = ga_model_get_info(m.model)->n_layers;
  assert_true(mockcu.graph_launches > 0);
  if (mockcu.nodes != 2 + layers * a_layer)
    fail_msg("%s, v of %s: %d launches in %d layers, not %d each", arch, ga_dtype_name(v), mockcu.nodes - 2, layers,
             a_layer);
  close_made(&m);
}

/* The type that k gets, of files of `most` and, for v, of `v`. */
static ga_dtype k_type(ga_dtype most, ga_dtype v) {
  made m;
  mockcu.args_bytes = 8;
  if (tiny_make_of("llama", TINY_VOCAB, most, v) != GA_OK || run_made(&m, 1) != GA_OK) fail_msg("%s", ga_error_text());
  const ga_dtype type = ga_weight_at(m.model, (weight_ref){.id = W_K})->dtype;
  assert_int_equal(ga_weight_at(m.model, (weight_ref){.id = W_TOKEN_EMBD})->dtype, most);
  assert_int_equal(ga_weight_at(m.model, (weight_ref){.id = W_OUTPUT})->dtype, most);
  close_made(&m);
  return type;
}

/* What becomes q8_0 on a GPU, and what stays. */
static void test_promoted(void **state) {
  (void)state;
  made m;
  assert_int_equal(k_type(GA_Q5_0, GA_Q8_0), GA_Q8_0);
  assert_int_equal(k_type(GA_Q4_0, GA_Q8_0), GA_Q8_0);
  assert_int_equal(k_type(GA_Q5_0, GA_Q5_0), GA_Q5_0); /* no q8_0 in this file */
  assert_int_equal(k_type(GA_Q5_0, GA_Q4_1), GA_Q5_0);
  assert_int_equal(k_type(GA_Q5_1, GA_Q8_0), GA_Q5_1);
  mockcu.major = 8;
  assert_int_equal(k_type(GA_Q5_0, GA_Q8_0), GA_Q5_0); /* not a Hopper */
  mockcu_reset();
  mockcu.args_bytes = 8;
  assert_int_equal(tiny_make_of("llama", TINY_VOCAB, GA_Q5_0, GA_Q8_0), GA_OK);
  assert_int_equal(run_made(&m, 1), GA_OK);
  ga_model_tensor up = {.name = "blk.0.ffn_up.weight", .view = {.dtype = GA_Q5_0, .n_dims = 2}};
  assert_int_equal(ga_stored_dtype(m.model, m.ctx[0], &up), GA_Q8_0); /* of no rows, which loading refuses */
  up.view.dim[0] = up.view.dim[1] = 2048;
  up.bytes = 2048 * 2048 / 32 * 22;
  assert_int_equal(ga_stored_dtype(m.model, m.ctx[0], &up), GA_Q8_0);
  up.view.dim[0] = 4096; /* above 6 MiB */
  up.bytes *= 2;
  assert_int_equal(ga_stored_dtype(m.model, m.ctx[0], &up), GA_Q5_0);
  ga_model_tensor codes = {.name = "blk.0.ffn_up.weight", .view = {.dtype = GA_E4M3, .n_dims = 2, .dim = {200, 256}}};
  assert_int_equal(ga_stored_dtype(m.model, m.ctx[0], &codes), GA_E4M3_128);
  codes.view.dim[1] = 200; /* no whole blocks */
  assert_int_equal(ga_stored_dtype(m.model, m.ctx[0], &codes), GA_BF16);
  ga_weight_need vec16, native;
  assert_int_equal(ga_weights_need(m.model, m.ctx[0], 0, GROUP_OTHERS, &vec16), GA_OK);
  close_made(&m);
  assert_int_equal(tiny_make_of("llama", TINY_VOCAB, GA_Q8_0, GA_Q8_0), GA_OK);
  assert_int_equal(run_made(&m, 1), GA_OK);
  assert_int_equal(ga_weights_need(m.model, m.ctx[0], 0, GROUP_OTHERS, &native), GA_OK);
  assert_memory_equal(&vec16, &native, sizeof vec16); /* the plan counts what is held */
  close_made(&m);
}

/* Norms that products add are of one row. */
static void test_sum_of_rows(void **state) {
  (void)state;
  mockcu_reset();
  ga_ctx *ctx = open_cuda();
  ga_gemm_fused_desc d = GA_GEMM_FUSED_DESC_INIT;
  ga_plan *plan;
  d.plain.n = 64;
  d.plain.k = 256;
  d.plain.w_dtype = GA_Q8_0;
  d.plain.w_layout = GA_LAYOUT_MMA_PACKED;
  d.fused = GA_GEMM_FUSED_NORM | GA_GEMM_FUSED_ADD_NORM;
  d.norm_eps = 1e-5f;
  for (d.plain.m = 1; d.plain.m < 3; d.plain.m++) {
    assert_int_equal(ga_gemm_fused_plan(ctx, &d, &plan), d.plain.m == 1 ? GA_OK : GA_ERR_UNSUPPORTED);
    ga_plan_destroy(plan);
  }
  ga_ctx_destroy(ctx);
}

static void test_launches_a_layer(void **state) {
  (void)state;
  count_launches("llama", GA_Q8_0, 6); /* q, k and v; turn and store; attention; o; gate and up; down */
  count_launches("llama", GA_Q5_1, 7);
  count_launches("llama", GA_Q4_0, 6); /* small, and promoted to q8_0 */
  count_launches("qwen2", GA_Q8_0, 6);
  count_launches("qwen3", GA_Q8_0, 6); /* heads are normed where they turn */
  count_launches("qwen3", GA_Q5_1, 7);
  count_launches("gemma3", GA_Q8_0, 6); /* products add norms to the residual stream */
  count_launches("gemma3", GA_Q5_0, 6);
  count_launches("gemma3", GA_Q5_1, 7);
}

/* --- the file --- */

typedef struct watcher {
  int calls, act_at; /* what happens at the n-th call of progress */
  bool cancel;
} watcher;

static int on_progress(void *user, uint64_t done, uint64_t total) {
  watcher *w = user;
  assert_true(done <= total);
  if (++w->calls != w->act_at) return 0;
  if (w->cancel) return 1;
  assert_int_equal(truncate(tiny_path, 8192), 0);
  return 0;
}

static ga_status load_watched(watcher *w) {
  ga_ctx *ctx = open_cuda();
  ga_model *model;
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  o.progress = on_progress;
  o.user = w;
  const ga_status status = ga_model_load(ctx, tiny_path, &o, &model);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  return status;
}

static void test_file_shrinks(void **state) {
  (void)state;
  watcher w = {.act_at = 1};
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  assert_int_equal(load_watched(&w), GA_ERR_IO);
  assert_text("reading tensor '");
  assert_text("the file has 8192 bytes; when it was opened it had ");
}

static void test_cancel(void **state) {
  (void)state;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  for (int n = 1; n < 100; n++) {
    watcher w = {.act_at = n, .cancel = true};
    const ga_status status = load_watched(&w);
    assert_int_equal(mockcu.live, 0);
    if (w.calls < n) {
      assert_int_equal(status, GA_OK);
      assert_true(n > 10);
      return;
    }
    assert_int_equal(status, GA_ERR_CANCELLED);
  }
  fail_msg("progress was told too often");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_each_call_fails, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_lost, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_lost_of_two, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_inputs_stay, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_rows_of_later_chunks, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_old_driver, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_samples_cost_the_same, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_graphs_of_host_draws, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_launches_a_layer, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_promoted, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_sum_of_rows, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_file_shrinks, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_cancel, with_driver, no_leaks),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
