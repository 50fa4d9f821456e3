/* Sums over GPUs, host side, over the mock driver: what is launched and recorded, what is left behind. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/all_reduce.h"
#include "tests/mock_device.h"

#define SUM  "all_reduce_bf16_sm80_2x256"
#define NORM "all_reduce_norm_bf16_sm80_2x512"

static const unsigned char image[] = "an image";
static const cuda_image images[] = {{SUM, image, image + 8},
                                    {NORM, image, image + 8},
                                    {"all_reduce_bf16_sm80_8x256", image, image + 8},
                                    {"all_reduce_norm_bf16_sm80_8x512", image, image + 8},
                                    {0}};

static int reset_mock(void **state) {
  (void)state;
  mock_begin(images);
  mockcu.args_bytes = sizeof(ga_kargs_all_reduce);
  mockcu.devices = 2;
  return 0;
}

static int nothing_left(void **state) {
  (void)state;
  ga_mem_fail_after(0);
  return mock_end();
}

typedef struct rig {
  ga_ctx *ctx;
  ga_comm *comm;
  ga_all_reduce *reduce;
  void *x, *residual, *weight;
} rig;

static ga_status open_reduce_rig(rig *r, const char *device, int64_t most) {
  ga_all_reduce_desc d = GA_ALL_REDUCE_DESC_INIT;
  d.max_elements = most, d.timeout = 2;
  ga_status status = open_as(device, &r->ctx);
  if (status == GA_OK) status = ga_all_reduce_create(&d, r->comm, r->ctx, &r->reduce);
  if (status == GA_OK) status = ga_buffer_alloc(r->ctx, 2 * (size_t)most, &r->x);
  if (status == GA_OK) status = ga_buffer_alloc(r->ctx, 2 * (size_t)most, &r->residual);
  return status == GA_OK ? ga_buffer_alloc(r->ctx, 4 * (size_t)most, &r->weight) : status;
}

static void close_rig(rig *r) {
  ga_all_reduce_destroy(r->reduce);
  if (r->ctx) ga_buffer_free(r->ctx, r->x);
  if (r->ctx) ga_buffer_free(r->ctx, r->residual);
  if (r->ctx) ga_buffer_free(r->ctx, r->weight);
  ga_ctx_destroy(r->ctx);
  ga_comm_destroy(r->comm);
}

static ga_comm *one_rank(void) {
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  ga_comm *comm = NULL;
  return ga_comm_threads_create(&o, &comm) == GA_OK ? comm : NULL;
}

static ga_status call_norm(const rig *r, int64_t rows, int64_t width, ga_stream *stream) {
  ga_all_reduce_norm_io io = GA_ALL_REDUCE_NORM_IO_INIT;
  io.x = io.y = r->x, io.residual = r->residual, io.weight = r->weight;
  io.rows = rows, io.width = width;
  return ga_all_reduce_norm(r->reduce, &io, stream);
}

static ga_kargs_all_reduce last_args(void) {
  ga_kargs_all_reduce a;
  memcpy(&a, mockcu.last.args, sizeof a);
  return a;
}

/* blocks: at most the 4 multiprocessors of the mock. */
static ga_kargs_all_reduce launched_args(const char *id, unsigned blocks, unsigned threads) {
  assert_string_equal(mockcu.last.id, id);
  assert_int_equal(mockcu.last.grid[0], blocks);
  assert_int_equal(mockcu.last.block[0], threads);
  assert_int_equal(mockcu.last.n_attributes, 1); /* dependent launch */
  return last_args();
}

/* A replayed graph has the arguments of its recording: those of two equal calls must not differ. */
static void recorded_calls_are_alike(void **state) {
  (void)state;
  rig r = {.comm = one_rank()};
  ga_graph *graph;
  assert_int_equal(open_reduce_rig(&r, "cuda:0", 40000), GA_OK);
  assert_int_equal(mockcu.launches, 2); /* one of each kernel, without work */
  assert_int_equal(ga_graph_begin(r.ctx, NULL), GA_OK);
  assert_int_equal(ga_all_reduce_run(r.reduce, r.x, r.x, 4096, NULL), GA_OK);
  const ga_kargs_all_reduce first = launched_args(SUM, 2, 256);
  assert_int_equal(ga_all_reduce_run(r.reduce, r.x, r.x, 40000, NULL), GA_OK);
  assert_int_equal(launched_args(SUM, 4, 256).two_shot, 0);
  assert_int_equal(call_norm(&r, 9, 4096, NULL), GA_OK);
  assert_true(launched_args(NORM, 4, 512).rows == 9);
  assert_int_equal(ga_all_reduce_run(r.reduce, r.x, r.x, 4096, NULL), GA_OK);
  const ga_kargs_all_reduce again = launched_args(SUM, 2, 256);
  assert_memory_equal(&again, &first, sizeof first);
  assert_int_equal(ga_graph_end(r.ctx, NULL, &graph), GA_OK);
  assert_int_equal(mockcu.nodes, 4);
  assert_int_equal(ga_graph_launch(r.ctx, graph, NULL), GA_OK);
  assert_int_equal(ga_graph_launch(r.ctx, graph, NULL), GA_OK);
  assert_int_equal(ga_all_reduce_check(r.reduce, NULL), GA_OK);
  ga_graph_destroy(graph);
  close_rig(&r);
}

static void missing_ranks_are_named(void **state) {
  (void)state;
  rig r = {.comm = one_rank()};
  assert_int_equal(open_reduce_rig(&r, "cuda:0", 64), GA_OK);
  r.reduce->state->missing[2] = r.reduce->state->missing[5] = 1; /* device memory of the mock */
  assert_int_equal(ga_all_reduce_check(r.reduce, NULL), GA_ERR_TIMEOUT);
  assert_string_equal(ga_error_text(), "all_reduce: rank 0 on cuda:0 waited 2 s; ranks that did not come: 2, 5");
  close_rig(&r);
}

/* --- two ranks, a process each, since the mock is of one thread --- */

/* What rank `me` finds; 0 = all is well, else a line of this file. */
#define MUST(x) \
  if (!(x)) return __LINE__
static int look_at_rank(int32_t me, int32_t ranks, const char *run, int64_t most) {
  char device[16];
  rig r = {0};
  ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
  o.rank = me, o.ranks = ranks, o.run = run;
  (void)reset_mock(NULL);
  MUST(ga_comm_processes_create(&o, &r.comm) == GA_OK);
  (void)snprintf(device, sizeof device, "cuda:%d", me % 2);
  MUST(open_reduce_rig(&r, device, most) == GA_OK);
  MUST(ga_all_reduce_run(r.reduce, r.x, r.x, most, NULL) == GA_OK);
  const ga_kargs_all_reduce a = last_args();
  const int64_t units = 2 * most / 16, part = (units + ranks - 1) / ranks;
  MUST(a.rank == me && a.ranks == ranks && a.n == most && a.patience == 4000000000);
  MUST(a.two_shot == (ranks > 2 && units > (ranks > 4 ? 8192 : 24576)));
  MUST(a.slot_units >= (a.two_shot ? 2 * ranks * part : ranks * units));
  for (int32_t p = 0; p < ranks; p++) { /* each rank's own slots, all of them "not there" */
    const uint32_t *word = a.slots[p];
    const size_t n = (size_t)(GA_REDUCE_SLOTS * a.slot_units * GA_REDUCE_UNIT) / 4;
    MUST(word[0] == 0x80008000u && word[n / 2] == 0x80008000u && word[n - 1] == 0x80008000u);
  }
  MUST(call_norm(&r, 2, most / 16 * 8, NULL) == GA_OK);
  const ga_kargs_all_reduce b = last_args();
  MUST(b.ranks == (a.two_shot ? 1 : ranks) && b.rows == 2);
  MUST(ga_comm_meet(r.comm, "seen", 0) == GA_OK);
  ((uint32_t *)a.slots[(me + 1) % ranks])[me] = 77; /* what one writes there another reads */
  MUST(ga_comm_meet(r.comm, "written", 0) == GA_OK);
  MUST(((const uint32_t *)a.slots[me])[(me + ranks - 1) % ranks] == 77);
  MUST(ga_comm_meet(r.comm, "read", 0) == GA_OK);
  close_rig(&r);
  MUST(!mockcu.live && !*mockcu.misuse);
  return 0;
}

static void windows_of_processes(void **state) {
  (void)state;
  static const struct {
    int32_t ranks;
    int64_t most;
  } all[] = {{2, 4096}, {2, 1 << 20}, {4, 4096}, {4, 1 << 18}, {8, 1 << 16}, {8, 100000}};
  for (int i = 0; i < 6; i++) {
    pid_t pids[8];
    char run[64];
    (void)snprintf(run, sizeof run, "test-cuda-reduce-%d-%d", (int)getpid(), i);
    for (int32_t r = 0; r < all[i].ranks; r++) {
      pids[r] = fork();
      if (pids[r] == 0) {
        const int line = look_at_rank(r, all[i].ranks, run, all[i].most);
        if (line) (void)fprintf(stderr, "rank %d of %d: line %d: %s\n", r, all[i].ranks, line, ga_error_text());
        _exit(line != 0);
      }
    }
    for (int32_t r = 0; r < all[i].ranks; r++) {
      int status;
      assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
      assert_int_equal(status, 0);
    }
  }
}

/* --- failures --- */

static ga_status whole_reduce_life(void) {
  rig r = {.comm = one_rank()};
  if (!r.comm) return GA_ERR_NOMEM;
  ga_status status = open_reduce_rig(&r, "cuda:0", 1000);
  if (status == GA_OK) status = ga_all_reduce_run(r.reduce, r.x, r.x, 1000, NULL);
  if (status == GA_OK) status = call_norm(&r, 1, 512, NULL);
  if (status == GA_OK) status = ga_all_reduce_check(r.reduce, NULL);
  close_rig(&r);
  return status;
}

static void reduce_leaks_nothing_when_a_call_fails(void **state) {
  (void)state;
  assert_int_equal(whole_reduce_life(), GA_OK);
  const long calls = mockcu.calls;
  int failures = 0;
  for (long n = 1; n <= calls; n++) {
    (void)reset_mock(NULL);
    mockcu.fail_call = n;
    mockcu.fail_rc = 999;
    failures += whole_reduce_life() != GA_OK;
    if (mockcu.live || mockcu.misuse[0])
      fail_msg("call %ld of %ld (%s): %ld alive; %s", n, calls, ga_error_text(), mockcu.live, mockcu.misuse);
  }
  assert_true(failures > calls / 2); /* what gives back does not fail */
}

static void reduce_leaks_nothing_without_host_memory(void **state) {
  (void)state;
  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; n < 100 && status != GA_OK; n++) {
    (void)reset_mock(NULL);
    ga_mem_fail_after(n);
    status = whole_reduce_life();
    ga_mem_fail_after(0);
    assert_true(status == GA_OK || status == GA_ERR_NOMEM);
    if (mockcu.live || mockcu.misuse[0]) fail_msg("allocation %ld: %ld alive; %s", n, mockcu.live, mockcu.misuse);
  }
  assert_int_equal(status, GA_OK);
}

static void no_kernel_in_the_build(void **state) {
  (void)state;
  static const cuda_image none[] = {{0}};
  cuda_replace_tables(none, no_sources);
  assert_int_equal(whole_reduce_life(), GA_ERR_UNSUPPORTED);
  assert_string_equal(ga_error_text(), "cuda:0: " SUM " is not in this build");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, reset_mock, nothing_left)
  const struct CMUnitTest tests[] = {
      T(windows_of_processes),
      T(recorded_calls_are_alike),
      T(missing_ranks_are_named),
      T(no_kernel_in_the_build),
      T(reduce_leaks_nothing_when_a_call_fails),
      T(reduce_leaks_nothing_without_host_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
