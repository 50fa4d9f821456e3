/* Options that keep experts in host memory, and plans that do: on a GPU without one (mockcu.h), where kernels do not
 * matter. tests/emu/host_experts.c computes. */
#include "tests/cuda_rig.h"
#include "tests/tiny_model.h"

static int with_driver(void **state) {
  (void)reset(state);
  cuda_replace_tables(NULL, no_sources);
  mockcu.args_bytes = 8;
  return 0;
}

static ga_status plan_on(ga_ctx *ctx, const char *name, int32_t gpu_layers, int32_t n_cpu_moe, ga_model **model) {
  char path[ARCH_PATH_BYTES];
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  mockcu.memory_bytes = (size_t)1 << 30;
  o.plan_only = true;
  o.gpu_layers = gpu_layers;
  o.n_cpu_moe = n_cpu_moe;
  return ga_model_load(ctx, arch_model_path(name, path), &o, model);
}

static void test_cpu_moe_refused(void **state) {
  static const struct {
    const char *model;
    int32_t n;
    const char *says;
  } all[] = {{"qwen3moe", -2, "n_cpu_moe is -2; must be 0 to 2, all, or -1: as few as fit"},
             {"qwen3moe", 3, "n_cpu_moe is 3; must be 0 to 2, all, or -1: as few as fit"},
             {"qwen3", 1, "n_cpu_moe is 1, but the model has no experts"},
             {"qwen3", GA_CPU_MOE_ALL, "n_cpu_moe is all, but the model has no experts"}};
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_model *model;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    assert_int_equal(plan_on(ctx, all[i].model, -1, all[i].n, &model), GA_ERR_ARG);
    assert_text(all[i].says);
    assert_null(model);
  }
  assert_int_equal(plan_on(ctx, "qwen3", -1, 0, &model), GA_OK);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  const ga_ctx_options cpu = {.struct_size = sizeof cpu, .device = "cpu"};
  assert_int_equal(ga_ctx_create(&cpu, &ctx), GA_OK);
  assert_int_equal(plan_on(ctx, "qwen3moe", -1, 1, &model), GA_ERR_ARG);
  assert_text("n_cpu_moe is 1, but cpu is no GPU");
  assert_int_equal(plan_on(ctx, "qwen3moe", -1, 0, &model), GA_OK);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

/* The experts leave the GPU's weights, and are counted; layers of the CPU have theirs anyway. */
static void test_counted(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_model *model;
  uint64_t weights[3], experts[3], total[3];
  for (int32_t n = 0; n <= 2; n++) {
    assert_int_equal(plan_on(ctx, "qwen3moe", -1, n, &model), GA_OK);
    assert_int_equal(ga_model_placement_count(model), 1);
    const ga_model_placement *p = ga_model_placement_at(model, 0);
    assert_int_equal(p->n_layers, 2);
    assert_int_equal(p->n_host_expert_layers, n);
    weights[n] = p->weights;
    experts[n] = p->host_experts;
    total[n] = ga_model_get_info(model)->weight_bytes;
    assert_int_equal(total[n], weights[n] + experts[n]);
    ga_model_destroy(model);
  }
  assert_int_equal(experts[0], 0);
  assert_true(experts[1] > 0);
  assert_int_equal(experts[2], 2 * experts[1]);
  assert_true(weights[0] > weights[1] && weights[1] > weights[2]);
  assert_int_equal(plan_on(ctx, "qwen3moe", 1, GA_CPU_MOE_ALL, &model), GA_OK);
  assert_int_equal(ga_model_placement_count(model), 2);
  assert_int_equal(ga_model_placement_at(model, 0)->host_experts, 0);
  assert_int_equal(ga_model_placement_at(model, 1)->host_experts, experts[1]);
  ga_model_destroy(model);
  assert_int_equal(plan_on(ctx, "qwen3moe", 1, 1, &model), GA_OK); /* layer 0 is the CPU's */
  assert_int_equal(ga_model_placement_at(model, 1)->n_host_expert_layers, 0);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_cpu_moe_refused, with_driver, no_leaks),
      cmocka_unit_test_setup_teardown(test_counted, with_driver, no_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
