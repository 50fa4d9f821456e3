/* Kernels of the caller's own and tensor maps over the mock driver. */
#include "ga/launch.h"
#include "tests/cuda_rig.h"

static const char cubin[] = "any image";

static void a_life(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_function *f;
  ga_launch l = GA_LAUNCH_INIT;
  const char args[72] = "arguments";
  assert_int_equal(ga_function_load(ctx, cubin, "my_kernel", &f), GA_OK);
  assert_ptr_equal(mockcu.loaded_image, cubin);
  l.grid[0] = 12;
  l.block[0] = 384;
  l.cluster[0] = 2;
  l.cluster[1] = l.cluster[2] = 1;
  l.shared_bytes = 200000; /* more than a function has by itself: asked for once */
  l.flags = GA_LAUNCH_DEPENDENT;
  assert_int_equal(ga_function_launch(f, &l, args, NULL), GA_OK);
  assert_string_equal(mockcu.last.id, "my_kernel");
  assert_true(mockcu.last.grid[0] == 12 && mockcu.last.block[0] == 384 && mockcu.last.shared_bytes == 200000);
  assert_int_equal(mockcu.last.n_attributes, 2);
  assert_memory_equal(mockcu.last.args, args, sizeof args);
  mockcu.fail_name = "cuStreamSynchronize";
  mockcu.fail_rc = 700;
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_ERR_DEVICE);
  assert_text("the last kernel enqueued was my_kernel");
  ga_function_destroy(f);
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_ERR_DEVICE); /* its name is gone with it */
  assert_null(strstr(ga_error_text(), "my_kernel"));
  mockcu.fail_name = NULL;
  ga_ctx_destroy(ctx);
}

static void loading_fails(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda(), *cpu;
  ga_function *f;
  for (int i = 0; i < 2; i++) {
    mockcu.fail_name = i ? "cuModuleGetFunction" : "cuModuleLoadData";
    mockcu.fail_rc = 500;
    assert_int_equal(ga_function_load(ctx, cubin, "my_kernel", &f), GA_ERR_DEVICE);
    assert_text("my_kernel: ");
    assert_text(mockcu.fail_name);
    assert_null(f);
  }
  mockcu.fail_name = NULL;
  assert_int_equal(ga_function_load(ctx, NULL, "k", &f), GA_ERR_ARG);
  assert_text("image is null");
  assert_int_equal(open_as("cpu", &cpu), GA_OK);
  assert_int_equal(ga_function_load(cpu, cubin, "k", &f), GA_ERR_UNSUPPORTED);
  assert_text("cpu loads none");
  ga_ctx_destroy(cpu);
  ga_ctx_destroy(ctx);
}

static void refuse_launch(ga_function *f, const ga_launch *l, const char *text) {
  assert_int_equal(ga_function_launch(f, l, "", NULL), GA_ERR_ARG);
  assert_text(text);
  assert_int_equal(mockcu.launches, 0);
}

static void bad_launches(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_function *f;
  const ga_launch good = GA_LAUNCH_INIT;
  ga_launch l = good;
  assert_int_equal(ga_function_load(ctx, cubin, "my_kernel", &f), GA_OK);
  l.grid[1] = 65536;
  refuse_launch(f, &l, "grid[1] is 65536; must be 1 to 65535");
  l = good, l.block[0] = 1025;
  refuse_launch(f, &l, "a block of 1025 threads; at most 1024");
  l = good, l.shared_bytes = 232449;
  refuse_launch(f, &l, "shared_bytes is 232449; a block of cuda:0 has at most 232448");
  l = good, l.cluster[0] = 2, l.cluster[1] = l.cluster[2] = 1;
  refuse_launch(f, &l, "grid[0] is 1; must be a multiple of cluster[0], which is 2");
  l = good, l.flags = 2;
  refuse_launch(f, &l, "flags is 2");
  l = good, l.struct_size = 0;
  refuse_launch(f, &l, "launch.struct_size is 0; must be 56 to 56");
  l = good, l.reserved = 1;
  refuse_launch(f, &l, "reserved is 1; must be 0");
  refuse_launch(NULL, &good, "function is null");
  ga_function_destroy(f);
  ga_ctx_destroy(ctx);
}

static void tensor_maps(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  GA_ALIGNED(64) unsigned char map[192];
  const ga_tensor_map_desc good = {.struct_size = sizeof good,
                                   .data = map,
                                   .dtype = GA_BF16,
                                   .n_dims = 2,
                                   .dim = {100, 7},
                                   .stride = {1, 104},
                                   .box = {64, 128},
                                   .swizzle = 128};
  ga_tensor_map_desc d = good;
#define REFUSE(change, text)                                   \
  do {                                                         \
    d = good;                                                  \
    change;                                                    \
    assert_int_equal(ga_tensor_map(ctx, &d, map), GA_ERR_ARG); \
    assert_text(text);                                         \
  } while (0)
  assert_int_equal(ga_tensor_map(ctx, &d, map), GA_OK);
  assert_int_equal(map[0], 0x7a);
  REFUSE(d.stride[1] = 100, "stride[1] is 100 elements; must be a multiple of 16 bytes");
  REFUSE(d.stride[0] = 2, "stride[0] is 2 elements; must be 1");
  REFUSE(d.box[0] = 128, "box[0] is 256 bytes; must be a multiple of 16, at most the swizzle of 128");
  REFUSE(d.box[1] = 257, "box[1] is 257; must be 1 to 256");
  REFUSE(d.dim[1] = 0, "dim[1] is 0");
  REFUSE(d.dtype = GA_Q4_0, "dtype is q4_0; allowed: f32");
  REFUSE(d.swizzle = 96, "swizzle is 96; allowed: 0, 32, 64, 128");
  REFUSE(d.data = map + 8, "must be a multiple of 16 bytes");
  REFUSE(d.n_dims = 6, "n_dims is 6");
  assert_int_equal(ga_tensor_map(ctx, &good, map + 16), GA_ERR_ARG);
  assert_text("must be a multiple of 64 bytes");
  ga_ctx_destroy(ctx);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, reset, no_leaks)
  const struct CMUnitTest tests[] = {T(a_life), T(loading_fails), T(bad_launches), T(tensor_maps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
