/* The host side of the CUDA backend over a driver that needs no GPU (mockcu.h): texts, order, leaks, graphs, loading. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/ctx.h"
#include "core/kargs_layer.h"
#include "cuda/cuda.h"
#include "cuda/nvrtc.h"
#include "tests/mockcu.h"

#define ADD "add_f32_rows_sm80_256x4"
#define SOFTMAX "softmax_f32_rows_sm80_256"

static const unsigned char image[] = "an image";
static const cuda_image images[] = {{ADD, image, image + 8}, {SOFTMAX, image, image + 8}, {0}};
static const cuda_source no_sources[] = {{0}};

static int reset(void **state) {
  (void)state;
  mockcu_reset();
  ga_cu_replace(&mockcu_table);
  cuda_replace_tables(images, no_sources);
  unsetenv("GA_JIT");
  return 0;
}

/* Every test ends with nothing alive and no rule of the driver broken. */
static int no_leaks(void **state) {
  (void)state;
  ga_mem_fail_after(0);
  ga_cu_replace(NULL);
  cuda_replace_tables(NULL, NULL);
  if (mockcu.live || mockcu.misuse[0]) print_error("alive: %ld; misuse: %s\n", mockcu.live, mockcu.misuse);
  return mockcu.live || mockcu.misuse[0];
}

static ga_status open_as(const char *name, ga_ctx **ctx) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = name;
  return ga_ctx_create(&o, ctx);
}

static ga_ctx *open_cuda(void) {
  ga_ctx *ctx;
  assert_int_equal(open_as("cuda:0", &ctx), GA_OK);
  return ctx;
}

#define assert_text(part)                                                               \
  do {                                                                                  \
    if (!strstr(ga_error_text(), (part))) fail_msg("'%s' lacks '%s'", ga_error_text(), (part)); \
  } while (0)

/* --- opening --- */

static void driver_missing_or_foreign(void **state) {
  (void)state;
  ga_cu cu;
  assert_int_equal(ga_cu_open("libga_no_such_driver.so.1", &cu), GA_ERR_UNSUPPORTED);
  assert_text("no CUDA driver on this machine: libga_no_such_driver.so.1");
  assert_int_equal(ga_cu_open("libm.so.6", &cu), GA_ERR_UNSUPPORTED);
  assert_text("lacks cuInit; 12.0 or newer");
}

static void refuse(const char *device, ga_status status, const char *text) {
  ga_ctx *ctx;
  assert_int_equal(open_as(device, &ctx), status);
  assert_null(ctx);
  assert_text(text);
  assert_int_equal(mockcu.live, 0);
}

static void opening_texts(void **state) {
  (void)state;
  mockcu.init_rc = CUDA_ERROR_NO_DEVICE;
  refuse("cuda:0", GA_ERR_UNSUPPORTED, "finds no device");
  mockcu.init_rc = 803;
  refuse("cuda:0", GA_ERR_UNSUPPORTED, "does not start: cuInit: CUDA_ERROR_MOCK (803): told to fail");
  mockcu.init_rc = 0;
  mockcu.version = 11080;
  refuse("cuda:0", GA_ERR_UNSUPPORTED, "is for CUDA 11.8; 12.0 or newer is needed");
  mockcu.version = 12040;
  mockcu.major = 7;
  mockcu.minor = 5;
  refuse("cuda:0", GA_ERR_UNSUPPORTED, "Mock 0 has compute capability 7.5; 8.0 or newer");
  mockcu.major = 9;
  refuse("cuda:2", GA_ERR_ARG, "device cuda:2: this machine has cuda:0 to cuda:1");
  refuse("cuda:one", GA_ERR_ARG, "cuda:one");
  refuse("cuda:-1", GA_ERR_ARG, "cuda:-1");
  mockcu.devices = 0;
  refuse("cuda", GA_ERR_UNSUPPORTED, "finds no device");
  mockcu.devices = 1;
  setenv("GA_JIT", "perhaps", 1);
  refuse("cuda", GA_ERR_ARG, "GA_JIT is 'perhaps'; allowed: off, auto, force");
}

static uint32_t archs_of(int major, int minor) {
  mockcu.major = major;
  mockcu.minor = minor;
  ga_ctx *ctx = open_cuda();
  uint32_t archs = ctx->device->caps.archs;
  assert_int_equal(ctx->device->n_kernels, 2); /* those with an image */
  ga_ctx_destroy(ctx);
  return archs;
}

static void capabilities(void **state) {
  (void)state;
  const uint32_t sm80 = 1u << GA_ARCH_sm80, sm90a = 1u << GA_ARCH_sm90a;
  assert_int_equal(archs_of(8, 6), sm80);
  assert_int_equal(archs_of(9, 0), sm80 | sm90a);
  assert_int_equal(archs_of(10, 0), sm80);
}

/* --- ops on the device --- */

typedef struct data {
  void *x, *b, *y;
} data;

static ga_status run_add(ga_ctx *ctx, const data *v, ga_stream *stream) {
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = 3;
  d.width = 100;
  ga_add_io io = {.x = v->x, .b = v->b, .y = v->y};
  return ga_add(ctx, &d, &io, stream);
}

static ga_status make_data(ga_ctx *ctx, data *v) {
  *v = (data){0};
  ga_status status = ga_buffer_alloc(ctx, 1200, &v->x);
  if (status == GA_OK) status = ga_buffer_alloc_for(ctx, 1200, "weights", &v->b);
  return status == GA_OK ? ga_buffer_alloc(ctx, 1200, &v->y) : status;
}

static void free_data(ga_ctx *ctx, const data *v) {
  ga_buffer_free(ctx, v->x);
  ga_buffer_free(ctx, v->b);
  ga_buffer_free(ctx, v->y);
}

static void copies(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  char in[1000], out[1000];
  void *buffer;
  for (size_t i = 0; i < sizeof in; i++) in[i] = (char)(i * 7);
  assert_int_equal(ga_buffer_alloc(ctx, sizeof in, &buffer), GA_OK);
  assert_int_equal((uintptr_t)buffer % 256, 0);
  assert_int_equal(ga_copy_to_device(ctx, buffer, in, sizeof in, NULL), GA_OK);
  assert_int_equal(ga_copy_to_host(ctx, out, buffer, sizeof out, NULL), GA_OK);
  assert_memory_equal(in, out, sizeof in);
  assert_int_equal(ga_copy_to_host(ctx, out, NULL, 4, NULL), GA_ERR_ARG);
  assert_text("copy to host: device is null");
  ga_buffer_free(ctx, buffer);
  ga_ctx_destroy(ctx);
}

static void launches_and_loads_once(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  data v;
  assert_int_equal(mockcu.loads, 0);
  assert_int_equal(make_data(ctx, &v), GA_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(run_add(ctx, &v, NULL), GA_OK);
  assert_int_equal(mockcu.loads, 1);
  assert_int_equal(mockcu.launches, 3);
  assert_ptr_equal(mockcu.loaded_image, image);
  assert_string_equal(mockcu.last.id, ADD);
  assert_int_equal(mockcu.last.grid[0], 3); /* a unit a row */
  assert_int_equal(mockcu.last.block[0], 256);
  ga_kargs_add a;
  memcpy(&a, mockcu.last.args, sizeof a);
  assert_true(a.x == v.x && a.b == v.b && a.y == v.y && a.rows == 3 && a.width == 100);
  assert_int_equal(a.wide, 1);
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_OK);
  free_data(ctx, &v);
  ga_ctx_destroy(ctx);
}

static void faults_name_the_kernel(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  data v;
  assert_int_equal(make_data(ctx, &v), GA_OK);
  mockcu.fail_name = "cuModuleLoadData";
  mockcu.fail_rc = 209;
  assert_int_equal(run_add(ctx, &v, NULL), GA_ERR_DEVICE);
  assert_text(ADD ": cuModuleLoadData: CUDA_ERROR_MOCK (209)");
  mockcu.fail_name = "cuLaunchKernelEx";
  mockcu.fail_rc = 701;
  assert_int_equal(run_add(ctx, &v, NULL), GA_ERR_DEVICE);
  assert_text(ADD ": cuLaunchKernelEx: CUDA_ERROR_MOCK (701): told to fail");
  mockcu.fail_name = NULL;
  assert_int_equal(run_add(ctx, &v, NULL), GA_OK);
  mockcu.fail_name = "cuStreamSynchronize";
  mockcu.fail_rc = 700;
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_ERR_DEVICE);
  assert_text("cuda:0: the last kernel enqueued was " ADD);
  assert_text("illegal memory access");
  mockcu.fail_name = NULL;
  free_data(ctx, &v);
  ga_ctx_destroy(ctx);
}

static void bad_arguments(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda(), *other;
  assert_int_equal(open_as("cuda:1", &other), GA_OK);
  data v, w;
  float host[300];
  assert_int_equal(make_data(ctx, &v), GA_OK);
  w = v;
  w.y = (char *)v.y + 2;
  assert_int_equal(run_add(ctx, &w, NULL), GA_ERR_ARG);
  assert_text(ADD ": y is at ");
  assert_text("must be a multiple of 4 bytes");
  w = v;
  w.b = host;
  assert_int_equal(run_add(ctx, &w, NULL), GA_ERR_ARG);
  assert_text(ADD ": b is at ");
  assert_text("which is no memory of cuda:0");
  assert_int_equal(run_add(other, &v, NULL), GA_ERR_ARG); /* the mock's memory is all of device 0 */
  assert_text(ADD ": x is memory of cuda:0; the stream is on cuda:1");
  ga_stream *theirs;
  assert_int_equal(ga_stream_create(other, &theirs), GA_OK);
  assert_int_equal(run_add(ctx, &v, theirs), GA_ERR_ARG);
  assert_text("add: the stream is of another context, on cuda:1; this one is on cuda:0");
  w.x = NULL;
  assert_int_equal(run_add(ctx, &w, NULL), GA_ERR_ARG);
  assert_text("add: x is null");
  assert_int_equal(mockcu.launches, 0);
  assert_int_equal(ga_buffer_alloc(NULL, 1, &w.x), GA_ERR_ARG);
  ga_stream_destroy(theirs);
  free_data(ctx, &v);
  ga_ctx_destroy(other);
  ga_ctx_destroy(ctx);
}

/* --- memory --- */

static void out_of_memory_says_who(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  void *a, *b, *c;
  assert_int_equal(ga_buffer_alloc_for(ctx, 1000, "weights", &a), GA_OK);
  assert_int_equal(ga_buffer_alloc_for(ctx, 3000, "kv cache", &b), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, (size_t)2 << 30, &c), GA_ERR_NOMEM);
  assert_null(c);
  assert_text("cuda:0: out of device memory: 2147483648 bytes asked for, ");
  assert_text("of 1073741824 free; pool: 4256 in use, 4096 idle; held here: kv cache 3000 (1), weights 1000 (1)");
  ga_buffer_free(ctx, a);
  ga_buffer_free(ctx, b);
  ga_ctx_destroy(ctx);
}

static void memory_figures(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_memory_info m = GA_MEMORY_INFO_INIT;
  void *a, *b;
  char text[64];
  assert_int_equal(ga_buffer_alloc(ctx, 5000, &a), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, 1000, &b), GA_OK);
  ga_buffer_free(ctx, a);
  assert_int_equal(ga_ctx_memory(ctx, &m), GA_OK);
  assert_int_equal(m.used_bytes, 1000);
  assert_int_equal(m.used_peak_bytes, 6000);
  assert_int_equal(m.buffers, 1);
  assert_int_equal(m.total_bytes, 1 << 30);
  assert_true(m.pooled_bytes >= 1000 + 4096 && m.idle > 0.5 && m.idle < 1);
  ga_ctx_memory_text(ctx, text, sizeof text);
  assert_string_equal(text, "buffers 1000 (1)");
  assert_int_equal(ga_ctx_memory_trim(ctx), GA_OK);
  ga_buffer_free(ctx, b);
  ga_ctx_memory_text(ctx, text, sizeof text);
  assert_string_equal(text, "nothing");
  m.struct_size = 8;
  assert_int_equal(ga_ctx_memory(ctx, &m), GA_ERR_ARG);
  ga_ctx_destroy(ctx);
}

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
  assert_int_equal(run_add(ctx, &v, s), GA_OK); /* loads meanwhile */
  assert_int_equal(run_add(ctx, &v, s), GA_OK);
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
  ga_status added = run_add(ctx, v, s);
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
  if (status == GA_OK) status = run_add(ctx, v, s);
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
      T(driver_missing_or_foreign), T(opening_texts), T(capabilities), T(copies), T(launches_and_loads_once),
      T(faults_name_the_kernel), T(bad_arguments), T(out_of_memory_says_who), T(memory_figures), T(graphs),
      T(no_graphs_on_the_cpu), T(nothing_leaks_when_a_call_fails), T(nothing_leaks_without_host_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
