/* A caller's stream over the mock driver: what GA does to it, and leaves alone while its owner records it. */
#include "tests/cuda_rig.h"

typedef struct rig {
  ga_ctx *ctx;
  CUstream native;
  ga_stream *s;
  data v;
} rig;

static rig wrap_rig(void) {
  rig r = {.ctx = open_cuda()};
  assert_int_equal(make_data(r.ctx, &r.v), GA_OK);
  r.native = mockcu_caller_stream();
  assert_non_null(r.native);
  assert_int_equal(ga_stream_wrap(r.ctx, r.native, &r.s), GA_OK);
  return r;
}

static void unwrap_rig(rig *r) {
  ga_stream_destroy(r->s);
  mockcu_caller_drops(r->native);
  free_data(r->ctx, &r->v);
  ga_ctx_destroy(r->ctx);
}

static void work_goes_to_it(void **state) {
  (void)state;
  rig r = wrap_rig();
  assert_int_equal(launch_one_add(r.ctx, &r.v, r.s), GA_OK);
  assert_int_equal(mockcu.launches, 1);
  assert_ptr_equal(cuda_handle_of(r.s), r.native);
  assert_int_equal(ga_stream_sync(r.ctx, r.s), GA_OK);
  assert_int_equal(ga_copy_to_host(r.ctx, &(char[8]){0}, r.v.y, 8, r.s), GA_OK);
  unwrap_rig(&r);
}

/* As frameworks have it: their default stream is NULL. */
static void the_default_stream(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_stream *s;
  data v;
  mockcu.has_default_stream = true;
  assert_int_equal(make_data(ctx, &v), GA_OK);
  assert_int_equal(ga_stream_wrap(ctx, NULL, &s), GA_OK);
  assert_int_equal(launch_one_add(ctx, &v, s), GA_OK);
  free_data(ctx, &v); /* behind the stream's work */
  ga_stream_destroy(s);
  ga_ctx_destroy(ctx);
}

static void while_it_is_recorded(void **state) {
  (void)state;
  rig r = wrap_rig();
  assert_int_equal(launch_one_add(r.ctx, &r.v, r.s), GA_OK); /* makes the plan */
  assert_true(mockcu_caller_begins(r.native));
  assert_int_equal(launch_one_add(r.ctx, &r.v, r.s), GA_OK);
  assert_true(mockcu.last.captured);
  assert_int_equal(ga_stream_sync(r.ctx, r.s), GA_ERR_STATE);
  assert_text("sync: the caller records the stream");
  assert_int_equal(ga_copy_to_device(r.ctx, r.v.x, &r, 8, r.s), GA_ERR_STATE);
  assert_int_equal(ga_graph_begin(r.ctx, r.s), GA_ERR_STATE);
  assert_int_equal(ga_workspace_grow(r.s, 256), GA_ERR_STATE);
  assert_text("make a plan before, and run it with a workspace");
  assert_int_equal(ga_workspace_grow(r.s, 0), GA_OK);
  assert_int_equal(ga_ctx_memory_trim(r.ctx), GA_ERR_STATE);
  mockcu_caller_ends(r.native);
  assert_int_equal(ga_workspace_grow(r.s, 256), GA_OK);
  assert_int_equal(ga_graph_begin(r.ctx, r.s), GA_ERR_ARG);
  assert_text("the stream is the caller's");
  unwrap_rig(&r);
}

static void a_plan_that_is_not_there(void **state) {
  (void)state;
  rig r = wrap_rig();
  assert_true(mockcu_caller_begins(r.native));
  assert_int_equal(launch_one_add(r.ctx, &r.v, r.s), GA_ERR_STATE);
  assert_text("add: the caller records the stream: make the plan before");
  mockcu_caller_ends(r.native);
  assert_int_equal(launch_one_add(r.ctx, &r.v, r.s), GA_OK);
  unwrap_rig(&r);
}

/* A replay may run beside other work of the stream, so the two have counters of their own. */
static void counters(void **state) {
  (void)state;
  rig r = wrap_rig();
  const CUdeviceptr run = cuda_counters_of(r.s);
  assert_true(mockcu_caller_begins(r.native));
  const CUdeviceptr recorded = cuda_counters_of(r.s);
  mockcu_caller_ends(r.native);
  assert_true(recorded >= run + CUDA_COUNTER_BYTES || run >= recorded + CUDA_COUNTER_BYTES);
  assert_true(mockcu_extent((void *)(uintptr_t)run) >= CUDA_COUNTER_BYTES);
  assert_true(mockcu_extent((void *)(uintptr_t)recorded) >= CUDA_COUNTER_BYTES);
  assert_int_equal(cuda_counters_of(r.s), run);
  unwrap_rig(&r);
}

/* Frameworks record on a stream that they take out only then. */
static void wrapped_while_it_is_recorded(void **state) {
  (void)state;
  rig r = wrap_rig();
  ga_stream *late[2];
  const CUstream native = mockcu_caller_stream();
  assert_int_equal(launch_one_add(r.ctx, &r.v, r.s), GA_OK);
  assert_true(mockcu_caller_begins(native));
  assert_int_equal(ga_stream_wrap(r.ctx, native, &late[0]), GA_OK);
  assert_int_equal(launch_one_add(r.ctx, &r.v, late[0]), GA_OK);
  assert_true(cuda_counters_of(late[0]) != cuda_counters_of(r.s));
  assert_int_equal(ga_stream_wrap(r.ctx, native, &late[1]), GA_ERR_STATE); /* there was one spare */
  assert_text("wrap a stream before the recording");
  assert_null(late[1]);
  mockcu_caller_ends(native);
  assert_int_equal(ga_stream_wrap(r.ctx, native, &late[1]), GA_OK); /* and there is one again */
  ga_stream_destroy(late[1]);
  ga_stream_destroy(late[0]);
  mockcu_caller_drops(native);
  unwrap_rig(&r);
}

static void buffers_freed_meanwhile(void **state) {
  (void)state;
  rig r = wrap_rig();
  void *extra[100];
  for (int i = 0; i < 100; i++) assert_int_equal(ga_buffer_alloc(r.ctx, 64, &extra[i]), GA_OK);
  const long live = mockcu.live;
  assert_true(mockcu_caller_begins(r.native));
  for (int i = 0; i < 100; i++) ga_buffer_free(r.ctx, extra[i]);
  assert_int_equal(mockcu.live, live); /* not yet */
  mockcu_caller_ends(r.native);
  assert_int_equal(ga_ctx_memory_trim(r.ctx), GA_OK);
  assert_int_equal(mockcu.live, live - 100);
  unwrap_rig(&r);
}

static void what_is_refused(void **state) {
  (void)state;
  ga_ctx *ctx, *other;
  ga_stream *s;
  assert_int_equal(open_as("cpu", &ctx), GA_OK);
  assert_int_equal(ga_stream_wrap(ctx, NULL, &s), GA_ERR_UNSUPPORTED);
  assert_text("stream: cpu has no streams but GA's own");
  assert_int_equal(ga_stream_wrap(NULL, NULL, &s), GA_ERR_ARG);
  ga_ctx_destroy(ctx);
  ctx = open_cuda();
  assert_int_equal(open_as("cuda:1", &other), GA_OK);
  const CUstream native = mockcu_caller_stream(); /* of the one opened last */
  assert_int_equal(ga_stream_wrap(ctx, native, &s), GA_ERR_ARG);
  assert_text("allowed are streams of the primary context of cuda:0");
  assert_int_equal(ga_stream_wrap(other, native, &s), GA_OK);
  ga_stream_destroy(s);
  mockcu_caller_drops(native);
  ga_ctx_destroy(other);
  ga_ctx_destroy(ctx);
}

/* --- everything, failing at every step --- */

static ga_status life_with_the_default_stream(CUstream native) {
  ga_ctx *ctx;
  ga_stream *s = NULL;
  data v = {0};
  ga_status status = open_as("cuda:0", &ctx);
  if (status != GA_OK) return status;
  status = make_data(ctx, &v);
  if (status == GA_OK) status = ga_stream_wrap(ctx, native, &s);
  if (status == GA_OK) status = launch_one_add(ctx, &v, s);
  if (status == GA_OK) status = ga_stream_sync(ctx, s);
  free_data(ctx, &v);
  ga_stream_destroy(s);
  ga_ctx_destroy(ctx);
  return status;
}

static void wrapping_leaks_nothing_when_a_call_fails(void **state) {
  (void)state;
  mockcu.has_default_stream = true;
  assert_int_equal(life_with_the_default_stream(NULL), GA_OK);
  const long calls = mockcu.calls;
  long failures = 0;
  for (long n = 1; n <= calls; n++) {
    mockcu_reset();
    mockcu.has_default_stream = true;
    mockcu.fail_call = n;
    mockcu.fail_rc = 999;
    failures += life_with_the_default_stream(NULL) != GA_OK;
    if (mockcu.live || mockcu.misuse[0])
      fail_msg("call %ld of %ld: %ld alive; %s", n, calls, mockcu.live, mockcu.misuse);
  }
  assert_true(failures > calls / 2);
}

static void wrapping_leaks_nothing_without_host_memory(void **state) {
  (void)state;
  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; n < 100 && status != GA_OK; n++) {
    mockcu_reset();
    mockcu.has_default_stream = true;
    ga_mem_fail_after(n);
    status = life_with_the_default_stream(NULL);
    ga_mem_fail_after(0);
    assert_true(status == GA_OK || status == GA_ERR_NOMEM);
    if (mockcu.live || mockcu.misuse[0]) fail_msg("allocation %ld: %ld alive; %s", n, mockcu.live, mockcu.misuse);
  }
  assert_int_equal(status, GA_OK);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, reset, no_leaks)
  const struct CMUnitTest tests[] = {
      T(work_goes_to_it),
      T(the_default_stream),
      T(while_it_is_recorded),
      T(a_plan_that_is_not_there),
      T(counters),
      T(wrapped_while_it_is_recorded),
      T(buffers_freed_meanwhile),
      T(what_is_refused),
      T(wrapping_leaks_nothing_when_a_call_fails),
      T(wrapping_leaks_nothing_without_host_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
