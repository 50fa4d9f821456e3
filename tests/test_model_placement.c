/* Models over several devices: the same numbers bit by bit wherever the layers are; what does not fit is refused with
 * the plan. On several CPU contexts, and on a GPU without one (mockcu.h) where kernels do not matter. */
#include "tests/cuda_rig.h"
#include "tests/tiny_model.h"

enum { TOKENS = 40 };

static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3", "gpt2"};

static int32_t ids[TOKENS];

static ga_ctx *open_ctx(void) {
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  o.threads = 1;
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

/* Logits of the last of TOKENS tokens (a prompt in pieces, then one by one), from a model over 1 + n_more contexts. */
static void logits_over(int32_t n_more, float *last) {
  ga_ctx *ctx = open_ctx(), *more[3];
  ga_model *model;
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  so.batch = 16;
  for (int i = 0; i < n_more; i++) more[i] = open_ctx();
  o.more = more;
  o.n_more = n_more;
  if (ga_model_load(ctx, tiny_path, &o, &model) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_model_placement_count(model), 1 + n_more);
  int32_t layers = 0;
  uint64_t weights = 0;
  for (int i = 0; i <= n_more; i++) {
    const ga_model_placement *p = ga_model_placement_at(model, i);
    assert_int_equal(p->first_layer, layers);
    layers += p->n_layers;
    weights += p->weights;
  }
  assert_int_equal(layers, ga_model_get_info(model)->n_layers);
  assert_int_equal(weights, ga_model_get_info(model)->weight_bytes);
  assert_int_equal(ga_session_create(model, &so, &s), GA_OK);
  if (ga_session_eval(s, ids, 35, last, 35, NULL, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  for (int i = 35; i < TOKENS; i++) assert_int_equal(ga_session_eval(s, ids + i, 1, last, 1, NULL, NULL), GA_OK);
  ga_session_destroy(s);
  ga_model_destroy(model);
  for (int i = 0; i < n_more; i++) ga_ctx_destroy(more[i]);
  ga_ctx_destroy(ctx);
}

static void test_same_bits(void **state) {
  (void)state;
  static float one[35 * TINY_VOCAB], several[35 * TINY_VOCAB];
  for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % (TINY_VOCAB - 4) + 4;
  for (size_t a = 0; a < sizeof archs / sizeof archs[0]; a++) {
    if (tiny_make(archs[a], TINY_VOCAB) != GA_OK) fail_msg("%s: %s", archs[a], ga_error_text());
    logits_over(0, one);
    for (int32_t n = 1; n <= 3; n++) {
      logits_over(n, several);
      assert_memory_equal(one, several, sizeof one);
    }
  }
}

static ga_status open_placed(ga_ctx *ctx, const ga_model_options *o) {
  ga_model *model;
  const ga_status status = ga_model_load(ctx, tiny_path, o, &model);
  ga_model_destroy(model);
  return status;
}

static void test_placement_refused(void **state) {
  (void)state;
  ga_ctx *ctx = open_ctx();
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  o.gpu_layers = -2;
  assert_int_equal(open_placed(ctx, &o), GA_ERR_ARG);
  assert_text("gpu_layers is -2; must be 0 to");
  o.gpu_layers = INT32_MAX;
  assert_int_equal(open_placed(ctx, &o), GA_ERR_ARG);
  o.gpu_layers = 0;
  assert_int_equal(open_placed(ctx, &o), GA_ERR_ARG);
  assert_text("cpu is no GPU");
  o.gpu_layers = -1;
  o.n_more = 8;
  o.more = (ga_ctx *[8]){0};
  assert_int_equal(open_placed(ctx, &o), GA_ERR_ARG);
  assert_text("n_more is 8, more is set; must be 0 to 7");
  o.n_more = 1;
  assert_int_equal(open_placed(ctx, &o), GA_ERR_ARG);
  assert_text("more[0] is null");
  o.more = NULL;
  assert_int_equal(open_placed(ctx, &o), GA_ERR_ARG);
  o.n_more = 0;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.batch = 4097;
  o.session = &so;
  assert_int_equal(open_placed(ctx, &o), GA_ERR_ARG);
  assert_text("session: batch 4097; must be 1 to 4096");
  ga_ctx_destroy(ctx);
}

static void test_plan_only(void **state) {
  (void)state;
  ga_ctx *ctx = open_ctx();
  ga_model *model;
  ga_session *s;
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  o.plan_only = true;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  assert_int_equal(ga_model_load(ctx, tiny_path, &o, &model), GA_OK);
  assert_true(ga_model_get_info(model)->weight_bytes > 0);
  ga_memory_info m = GA_MEMORY_INFO_INIT;
  assert_int_equal(ga_ctx_memory(ctx, &m), GA_OK);
  assert_int_equal(m.buffers, 0);
  assert_int_equal(ga_session_create(model, NULL, &s), GA_ERR_STATE);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

/* --- a GPU's memory --- */

static int with_driver(void **state) {
  (void)reset(state);
  cuda_replace_tables(NULL, no_sources);
  mockcu.args_bytes = 8;
  return 0;
}

static ga_status plan_with(size_t memory, int32_t gpu_layers, ga_ctx *ctx, ga_model **model) {
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  mockcu.memory_bytes = memory;
  o.plan_only = true;
  o.gpu_layers = gpu_layers;
  return ga_model_load(ctx, tiny_path, &o, model);
}

/* From too little for one layer to enough for all. */
static void test_fits_by_memory(void **state) {
  (void)state;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  ga_ctx *ctx = open_cuda();
  ga_model *model;
  int32_t before = 0;
  bool none = false, some = false;
  for (size_t kib = 16 << 10; kib <= 40 << 10; kib += 64) {
    const ga_status status = plan_with(kib << 10, -1, ctx, &model);
    none |= status == GA_ERR_NOMEM;
    if (status == GA_ERR_NOMEM) assert_text("do not fit");
    if (status != GA_OK) continue;
    const ga_model_placement *gpu = ga_model_placement_at(model, ga_model_placement_count(model) - 1);
    assert_true(gpu->n_layers >= before);
    assert_int_equal(gpu->first_layer + gpu->n_layers, ga_model_get_info(model)->n_layers);
    some |= gpu->first_layer > 0;
    before = gpu->n_layers;
    ga_model_destroy(model);
  }
  assert_true(none);
  (void)some; /* the tiny model's layers share one buffer: tests/emu/places.py has larger ones */
  assert_int_equal(plan_with((size_t)16 << 20, 2, ctx, &model), GA_ERR_NOMEM);
  assert_text("2 of 2 layers with a context of ");
  assert_text("weights ");
  assert_text("KV cache ");
  assert_int_equal(plan_with((size_t)1 << 30, 0, ctx, &model), GA_OK);
  assert_int_equal(ga_model_placement_count(model), 1);
  assert_string_equal(ga_model_placement_at(model, 0)->device, "cpu");
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

/* A model that is shared has the layers where they were: the CPU's part gets a context of its own. */
static void test_share_places(void **state) {
  (void)state;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  ga_ctx *first = open_cuda(), *second = open_cuda();
  ga_model *model, *shared;
  for (int32_t gpu_layers = 0; gpu_layers <= 2; gpu_layers++) {
    assert_int_equal(plan_with((size_t)1 << 30, gpu_layers, first, &model), GA_OK);
    assert_int_equal(ga_model_share(model, second, &shared), GA_OK);
    const int32_t n = ga_model_placement_count(model);
    assert_int_equal(n, gpu_layers == 1 ? 2 : 1);
    assert_int_equal(ga_model_placement_count(shared), n);
    for (int32_t i = 0; i < n; i++) {
      const ga_model_placement *a = ga_model_placement_at(model, i), *b = ga_model_placement_at(shared, i);
      assert_string_equal(a->device, b->device);
      assert_ptr_not_equal(a->device, b->device); /* each of its own context */
      assert_int_equal(a->n_layers, b->n_layers);
    }
    ga_model_destroy(shared);
    ga_model_destroy(model);
  }
  ga_ctx_destroy(second);
  const ga_ctx_options cpu = {.struct_size = sizeof cpu, .device = "cpu"};
  assert_int_equal(ga_ctx_create(&cpu, &second), GA_OK);
  assert_int_equal(plan_with((size_t)1 << 30, 1, first, &model), GA_OK);
  assert_int_equal(ga_model_share(model, second, &shared), GA_ERR_ARG);
  assert_text("model_share: the context is on cpu; the model is on cuda:0");
  assert_null(shared);
  ga_model_destroy(model);
  ga_ctx_destroy(second);
  ga_ctx_destroy(first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_placement_refused),
      cmocka_unit_test(test_plan_only),
      cmocka_unit_test_setup_teardown(test_fits_by_memory, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_share_places, with_driver, no_leaks),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
