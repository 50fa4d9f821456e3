/* Ranges of a profiler: one a launch, closed whatever the launch returns; and a tool's library that is loaded. */
#include <dlfcn.h>

#include "cuda/rt/nvtx.h"
#include "tests/cuda_rig.h"

static char seen[512];

static int push(const char *name) {
  (void)snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "[%s", name);
  return 0;
}
static int pop(void) {
  (void)snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "]");
  return 0;
}

static void a_range_a_launch(void **state) {
  (void)state;
  const cuda_nvtx mock = {push, pop};
  data v;
  ga_ctx *ctx = open_cuda();
  assert_int_equal(make_data(ctx, &v), GA_OK);
  cuda_nvtx_replace(&mock);
  seen[0] = 0;
  assert_int_equal(launch_one_add(ctx, &v, NULL), GA_OK);
  assert_string_equal(seen, "[" ADD "]");
  mockcu.fail_name = "cuLaunchKernelEx";
  mockcu.fail_rc = 1;
  assert_int_equal(launch_one_add(ctx, &v, NULL), GA_ERR_DEVICE);
  assert_string_equal(seen, "[" ADD "][" ADD "]");
  mockcu.fail_name = NULL;
  cuda_nvtx_replace(NULL);
  assert_int_equal(launch_one_add(ctx, &v, NULL), GA_OK); /* nobody listens */
  assert_string_equal(seen, "[" ADD "][" ADD "]");
  free_data(ctx, &v);
  ga_ctx_destroy(ctx);
}

static void a_tool(void **state) {
  (void)state;
  cuda_nvtx n = {0};
  assert_false(cuda_nvtx_inject("libga_no_such_tool.so", &n));
  assert_false(cuda_nvtx_inject("libm.so.6", &n));
  assert_true(cuda_nvtx_inject(GA_NVTX_TOOL, &n));
  (void)n.push("a kernel");
  (void)n.pop();
  void *tool = dlopen(GA_NVTX_TOOL, RTLD_NOW);
  assert_string_equal((const char *)dlsym(tool, "nvtx_tool_seen"), "push a kernel;pop;");
  (void)dlclose(tool);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, reset, no_leaks)
  const struct CMUnitTest tests[] = {T(a_range_a_launch), T(a_tool)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
