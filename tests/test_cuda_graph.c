/* Graphs and events over the mock driver; and a whole life of a context with every call failing once: nothing leaks. */
#include "tests/cuda_rig.h"

/* --- graphs --- */

static void graphs(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_graph *graph;
  ga_stream *s;
  data v;
  assert_int_equal(make_data(ctx, &v), GA_OK);
  assert_int_equal(ga_stream_create(ctx, &s), GA_OK);
  assert_int_equal(ga_graph_end(ctx, s, &graph), GA_ERR_STATE);
  assert_text("the stream records none");
  assert_int_equal(ga_graph_begin(ctx, s), GA_OK);
  assert_int_equal(ga_graph_begin(ctx, s), GA_ERR_STATE);
  assert_int_equal(launch_one_add(ctx, &v, s), GA_OK); /* loads meanwhile */
  assert_int_equal(launch_one_add(ctx, &v, s), GA_OK);
  assert_int_equal(ga_copy_to_device(ctx, v.x, &v, 8, s), GA_ERR_STATE);
  assert_text("copy to device: the stream records a graph");
  assert_int_equal(ga_stream_sync(ctx, s), GA_ERR_STATE);
  void *extra; /* memory may come and go */
  assert_int_equal(ga_buffer_alloc(ctx, 64, &extra), GA_OK);
  ga_buffer_free(ctx, extra);
  assert_int_equal(ga_graph_end(ctx, s, &graph), GA_OK);
  assert_int_equal(mockcu.nodes, 2);
  assert_true(mockcu.last.captured);
  for (int i = 0; i < 3; i++) assert_int_equal(ga_graph_launch(ctx, graph, NULL), GA_OK);
  assert_int_equal(mockcu.graph_launches, 3);
  ga_graph_destroy(graph);
  assert_int_equal(ga_graph_begin(ctx, s), GA_OK); /* abandoned */
  ga_stream_destroy(s);
  free_data(ctx, &v);
  ga_ctx_destroy(ctx);
}

static void no_graphs_on_the_cpu(void **state) {
  (void)state;
  ga_ctx *ctx;
  ga_graph *graph;
  ga_event *a, *b;
  double ms;
  assert_int_equal(open_as("cpu", &ctx), GA_OK);
  assert_int_equal(ga_graph_begin(ctx, NULL), GA_ERR_UNSUPPORTED);
  assert_text("graph: cpu runs work when it is called and has no graphs");
  assert_int_equal(ga_graph_end(ctx, NULL, &graph), GA_ERR_STATE);
  assert_int_equal(ga_event_create(ctx, &a), GA_OK);
  assert_int_equal(ga_event_create(ctx, &b), GA_OK);
  assert_int_equal(ga_event_record(ctx, a, NULL), GA_OK);
  assert_int_equal(ga_event_record(ctx, b, NULL), GA_OK);
  assert_int_equal(ga_event_elapsed(a, b, &ms), GA_OK);
  assert_true(ms >= 0);
  ga_event_destroy(a);
  ga_event_destroy(b);
  ga_ctx_destroy(ctx);
}

/* --- everything, failing at every step --- */

static ga_status record_and_replay(ga_ctx *ctx, ga_stream *s, const data *v) {
  ga_graph *graph = NULL;
  ga_status status = ga_graph_begin(ctx, s);
  if (status != GA_OK) return status;
  ga_status added = launch_one_add(ctx, v, s);
  status = ga_graph_end(ctx, s, &graph);
  if (status == GA_OK) status = ga_graph_launch(ctx, graph, s);
  ga_graph_destroy(graph);
  return status == GA_OK ? added : status;
}

static ga_status time_one(ga_ctx *ctx, ga_stream *s, ga_event *mark[2], const data *v) {
  double ms;
  ga_status status = ga_event_create(ctx, &mark[0]);
  if (status == GA_OK) status = ga_event_create(ctx, &mark[1]);
  if (status == GA_OK) status = ga_event_record(ctx, mark[0], s);
  if (status == GA_OK) status = launch_one_add(ctx, v, s);
  if (status == GA_OK) status = ga_event_record(ctx, mark[1], s);
  if (status == GA_OK) status = ga_stream_wait_event(ctx, s, mark[1]);
  return status == GA_OK ? ga_event_elapsed(mark[0], mark[1], &ms) : status;
}

static ga_status use(ga_ctx *ctx, ga_stream *s, const data *v, void *host) {
  ga_memory_info m = GA_MEMORY_INFO_INIT;
  ga_event *mark[2] = {0};
  ga_status status = ga_copy_to_device(ctx, v->x, host, 1200, NULL);
  if (status == GA_OK) status = time_one(ctx, s, mark, v);
  ga_event_destroy(mark[0]);
  ga_event_destroy(mark[1]);
  if (status == GA_OK) status = record_and_replay(ctx, s, v);
  if (status == GA_OK) status = ga_ctx_memory(ctx, &m);
  if (status == GA_OK) status = ga_ctx_memory_trim(ctx);
  if (status == GA_OK) status = ga_stream_sync(ctx, s);
  return status == GA_OK ? ga_copy_to_host(ctx, host, v->y, 1200, NULL) : status;
}

static ga_status whole_life(void) {
  ga_ctx *ctx;
  ga_stream *s = NULL;
  data v = {0};
  void *host = NULL;
  ga_status status = open_as("cuda:0", &ctx);
  if (status != GA_OK) return status;
  status = make_data(ctx, &v);
  if (status == GA_OK) status = ga_stream_create(ctx, &s);
  if (status == GA_OK) status = ga_host_alloc(ctx, 1200, &host);
  if (status == GA_OK) status = use(ctx, s, &v, host);
  ga_host_free(ctx, host);
  ga_stream_destroy(s);
  free_data(ctx, &v);
  ga_ctx_destroy(ctx);
  return status;
}

static void nothing_leaks_when_a_call_fails(void **state) {
  (void)state;
  assert_int_equal(whole_life(), GA_OK);
  long calls = mockcu.calls;
  int failures = 0;
  assert_true(calls > 60);
  for (long n = 1; n <= calls; n++) {
    for (int k = 0; k < 2; k++) {
      mockcu_reset();
      mockcu.fail_call = n;
      mockcu.fail_rc = k ? CUDA_ERROR_OUT_OF_MEMORY : 999;
      ga_status status = whole_life();
      failures += status != GA_OK;
      if (mockcu.live || mockcu.misuse[0])
        fail_msg("call %ld of %ld (%s): %ld alive; %s", n, calls, ga_error_text(), mockcu.live, mockcu.misuse);
      if (status != GA_OK) assert_true(ga_error_text()[0]);
    }
  }
  assert_true(failures > calls); /* of 2 calls: what gives back does not fail */
}

static void nothing_leaks_without_host_memory(void **state) {
  (void)state;
  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; n < 100 && status != GA_OK; n++) {
    mockcu_reset();
    ga_mem_fail_after(n);
    status = whole_life();
    ga_mem_fail_after(0);
    assert_true(status == GA_OK || status == GA_ERR_NOMEM);
    if (mockcu.live || mockcu.misuse[0]) fail_msg("allocation %ld: %ld alive; %s", n, mockcu.live, mockcu.misuse);
  }
  assert_int_equal(status, GA_OK);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, reset, no_leaks)
  const struct CMUnitTest tests[] = {
      T(graphs),
      T(no_graphs_on_the_cpu),
      T(nothing_leaks_when_a_call_fails),
      T(nothing_leaks_without_host_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
