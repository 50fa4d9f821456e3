/* What only a GPU can show: graphs, events, memory figures, faults, and that a row compiled at run time gives the
 * results of the one in the build. Skipped where no CUDA device opens; values are ga check's business. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/ctx.h"
#include "cuda/rt/cuda.h"
#include "cuda/rt/jit.h"
#include "cuda/rt/nvrtc.h"

#define N 100000

static ga_ctx *ctx;
static ga_stream *stream;
static float *x, *y; /* on the device */
static float host[N];

#define OK(expr)                                                     \
  do {                                                               \
    if ((expr) != GA_OK) fail_msg("%s: %s", #expr, ga_error_text()); \
  } while (0)

static ga_status try_open_cuda(void) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cuda:0";
  return ga_ctx_create(&o, &ctx);
}

static int setup(void **state) {
  (void)state;
  if (try_open_cuda() != GA_OK) {
    print_message("%s\n", ga_error_text());
    ctx = NULL;
    return 0;
  }
  OK(ga_stream_create(ctx, &stream));
  OK(ga_buffer_alloc(ctx, sizeof host, (void **)&x));
  OK(ga_buffer_alloc(ctx, sizeof host, (void **)&y));
  for (int i = 0; i < N; i++) host[i] = (float)(i % 997) - 400;
  OK(ga_copy_to_device(ctx, x, host, sizeof host, NULL));
  OK(ga_copy_to_device(ctx, y, host, sizeof host, NULL));
  return 0;
}

static int teardown(void **state) {
  (void)state;
  if (!ctx) return 0;
  ga_stream_destroy(stream);
  ga_buffer_free(ctx, x);
  ga_buffer_free(ctx, y);
  ga_ctx_destroy(ctx);
  return 0;
}

/* y += x */
static ga_status run_add_row(ga_stream *s) {
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = 1;
  d.width = N;
  ga_add_io io = {.x = x, .b = y, .y = y};
  return ga_add(ctx, &d, &io, s);
}

static void times(int n) {
  static float got[N];
  OK(ga_copy_to_host(ctx, got, y, sizeof got, stream));
  for (int i = 0; i < N; i++)
    if (got[i] != (float)n * host[i]) fail_msg("element %d is %g, not %d x %g", i, (double)got[i], n, (double)host[i]);
}

static void graphs_replay(void **state) {
  (void)state;
  if (!ctx) skip();
  ga_graph *graph;
  OK(ga_graph_begin(ctx, stream)); /* the kernel is loaded while recording */
  OK(run_add_row(stream));
  OK(run_add_row(stream));
  assert_int_equal(ga_stream_sync(ctx, stream), GA_ERR_STATE);
  void *extra;
  OK(ga_buffer_alloc(ctx, 1 << 20, &extra));
  ga_buffer_free(ctx, extra);
  OK(ga_graph_end(ctx, stream, &graph));
  times(1); /* nothing has run */
  for (int i = 0; i < 5; i++) OK(ga_graph_launch(ctx, graph, stream));
  times(11);
  OK(run_add_row(stream));
  times(12);
  ga_graph_destroy(graph);
}

static void events_measure(void **state) {
  (void)state;
  if (!ctx) skip();
  ga_event *a, *b;
  double ms;
  OK(ga_event_create(ctx, &a));
  OK(ga_event_create(ctx, &b));
  OK(ga_event_record(ctx, a, stream));
  for (int i = 0; i < 1000; i++) OK(run_add_row(stream));
  OK(ga_event_record(ctx, b, stream));
  OK(ga_stream_wait_event(ctx, NULL, b));
  OK(ga_event_elapsed(a, b, &ms));
  print_message("%.2f us a launch\n", ms);
  assert_true(ms > 0.1 && ms < 1000);
  ga_event_destroy(a);
  ga_event_destroy(b);
}

static void memory_is_kept_and_given_back(void **state) {
  (void)state;
  if (!ctx) skip();
  ga_memory_info before = GA_MEMORY_INFO_INIT, m = GA_MEMORY_INFO_INIT;
  void *p, *pinned;
  OK(ga_ctx_memory(ctx, &before));
  OK(ga_buffer_alloc(ctx, (size_t)1 << 30, &p));
  ga_buffer_free(ctx, p);
  OK(ga_ctx_memory(ctx, &m));
  assert_int_equal(m.used_bytes, before.used_bytes);
  assert_true(m.pooled_bytes >= (uint64_t)1 << 30 && m.idle > 0.9);
  OK(ga_ctx_memory_trim(ctx));
  OK(ga_ctx_memory(ctx, &m));
  assert_true(m.pooled_bytes < (uint64_t)1 << 29);
  assert_int_equal(ga_buffer_alloc(ctx, (size_t)1 << 42, &p), GA_ERR_NOMEM);
  print_message("%s\n", ga_error_text());
  OK(ga_host_alloc(ctx, sizeof host, &pinned));
  OK(ga_copy_to_host(ctx, pinned, x, sizeof host, stream));
  assert_memory_equal(pinned, host, sizeof host);
  ga_host_free(ctx, pinned);
}

static void host_pointers_are_refused(void **state) {
  (void)state;
  if (!ctx) skip();
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = 1;
  d.width = N;
  ga_add_io io = {.x = host, .y = y};
  ga_status status = ga_add(ctx, &d, &io, stream);
  print_message("%s\n", status == GA_OK ? "this system lets kernels read host memory" : ga_error_text());
  assert_true(status == GA_OK || status == GA_ERR_ARG);
  OK(ga_stream_sync(ctx, stream));
  struct timespec a, b;
  (void)clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < 100000; i++) OK(cuda_check_pointer(stream, &ctx->device->kernels[0], "x", x, 4));
  (void)clock_gettime(CLOCK_MONOTONIC, &b);
  print_message("checking a pointer takes %.0f ns\n",
                (double)(b.tv_sec - a.tv_sec) * 1e4 + (double)(b.tv_nsec - a.tv_nsec) * 1e-5);
}

static void compiled_at_run_time(void **state) {
  (void)state;
  const ga_nvrtc *nvrtc;
  if (!ctx || ga_nvrtc_load(&nvrtc) != GA_OK) skip();
  char folder[] = "/tmp/ga-gpu-XXXXXX";
  assert_non_null(mkdtemp(folder));
  setenv("XDG_CACHE_HOME", folder, 1);
  setenv("GA_JIT", "force", 1);
  OK(run_add_row(stream));
  OK(run_add_row(stream));
  times(3);
  unsetenv("GA_JIT");
}

/* Last: a fault ends the context. */
static void faults_are_named(void **state) {
  (void)state;
  if (!ctx) skip();
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = 1;
  d.width = (int64_t)1 << 36; /* far past the end of the buffers */
  ga_add_io io = {.x = x, .y = y};
  OK(ga_add(ctx, &d, &io, stream));
  assert_int_equal(ga_stream_sync(ctx, stream), GA_ERR_DEVICE);
  print_message("%s\n", ga_error_text());
  assert_non_null(strstr(ga_error_text(), "add_f32_rows_sm80_256x4"));
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(graphs_replay),        T(events_measure),   T(memory_is_kept_and_given_back), T(host_pointers_are_refused),
      T(compiled_at_run_time), T(faults_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
