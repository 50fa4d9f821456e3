/* Sums over ranks (ga/all_reduce.h). GA_TEST_DEVICE "cpu": threads and processes in host memory; "emu": kernels on the
 * emulator, each rank a process of its own, since one emulated machine runs one kernel at a time. Arguments: full, or
 * sample; then a device that takes its place, "cuda" for the GPUs of a machine. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/rng.h"
#include "ga/all_reduce.h"

#ifndef GA_TEST_DEVICE
#define GA_TEST_DEVICE "cpu"
#endif

enum { MOST_RANKS = 9, MOST_CALLS = 32, DEVICES = 4 };
static bool on_host, on_gpus, run_everything;
static const char *test_device = GA_TEST_DEVICE;

/* rows = 0: a sum of `width` elements; else rows x width with residual and norm. */
typedef struct call {
  int64_t rows, width;
  bool in_place;
} call;

typedef struct scenario {
  int32_t ranks, dtype;
  int64_t max_elements;
  int32_t absent; /* a rank that takes no part in the last call; -1 = none */
  double timeout;
  int replays; /* of a graph of all calls; 0 = each is a call, and is looked at */
  int n_calls;
  call calls[MOST_CALLS];
} scenario;

typedef struct rank_job {
  const scenario *s;
  const char *run; /* processes: the name of the run */
  ga_comm *comm;
  int32_t rank;
  unsigned char *out; /* of each call y, then the residual */
  ga_status status;
  double seconds; /* of the last call and its check */
  char text[512];
} rank_job;

static int64_t elements_of_call(const call *c) { return c->rows ? c->rows * c->width : c->width; }
static size_t type_bytes(const scenario *s) { return s->dtype == GA_F32 ? 4 : 2; }

/* --- elements --- */

static float get_element(int32_t dtype, const void *p, int64_t i) {
  if (dtype == GA_F32) return ((const float *)p)[i];
  const uint16_t h = ((const uint16_t *)p)[i];
  return dtype == GA_F16 ? ga_f16_to_f32(h) : ga_bf16_to_f32(h);
}
static void put_element(int32_t dtype, void *p, int64_t i, float x) {
  if (dtype == GA_F32)
    ((float *)p)[i] = x;
  else
    ((uint16_t *)p)[i] = dtype == GA_F16 ? ga_f32_to_f16(x) : ga_f32_to_bf16(x);
}

/* Of x of a rank (-1: the first residual) in a call. Negative zeros, alone and in pairs, are the word that kernels take
 * for "not there yet". */
static void fill_rank_input(const scenario *s, int32_t rank, int c, int64_t n, void *p) {
  ga_rng rng;
  ga_rng_seed(&rng, (uint64_t)(1000 * (rank + 2) + c));
  for (int64_t i = 0; i < n; i++) {
    const uint64_t u = ga_rng_u64(&rng);
    const float x = (float)((double)(u >> 40) * 0x1p-23 - 1);
    put_element(s->dtype, p, i, i % 64 < 8 ? -0.0f : u % 31 == 0 ? 0.0f : x);
  }
}

static float weight_at(int64_t i) { return 0.5f + (float)(i % 13) * 0.125f; }

/* The distance between numbers of the type at x. */
static double ulp_of(int32_t dtype, double x) {
  const int digits = dtype == GA_F32 ? 24 : dtype == GA_F16 ? 11 : 8, least = dtype == GA_F16 ? -14 : -126;
  int e = least;
  if (x != 0) (void)frexp(x, &e), e--;
  return ldexp(1, (e < least ? least : e) - digits + 1);
}

/* --- a rank --- */

typedef struct rank_state {
  rank_job *j;
  ga_ctx *ctx;
  ga_all_reduce *reduce;
  void *x, *y, *residual, *weight, *host;
} rank_state;

static size_t out_bytes(const scenario *s, int c) {
  return (size_t)elements_of_call(&s->calls[c]) * type_bytes(s) * (s->calls[c].rows ? 2 : 1);
}
static size_t out_at(const scenario *s, int c) {
  size_t at = 0;
  for (int i = 0; i < c; i++) at += out_bytes(s, i);
  return at;
}

static ga_status open_rank(rank_state *r) {
  const scenario *s = r->j->s;
  const size_t bytes = (size_t)s->max_elements * type_bytes(s) + 64;
  char device[32];
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  (void)snprintf(device, sizeof device, on_host ? "%s" : "%s:%d", test_device, r->j->rank % DEVICES);
  o.device = device, o.threads = 1;
  ga_status status = ga_ctx_create(&o, &r->ctx);
  ga_all_reduce_desc d = GA_ALL_REDUCE_DESC_INIT;
  d.max_elements = s->max_elements, d.dtype = s->dtype, d.timeout = s->timeout;
  if (status == GA_OK) status = ga_all_reduce_create(&d, r->j->comm, r->ctx, &r->reduce);
  if (status == GA_OK) status = ga_buffer_alloc(r->ctx, bytes, &r->x);
  if (status == GA_OK) status = ga_buffer_alloc(r->ctx, bytes, &r->y);
  if (status == GA_OK) status = ga_buffer_alloc(r->ctx, bytes, &r->residual);
  if (status == GA_OK) status = ga_buffer_alloc(r->ctx, 4 * (size_t)s->max_elements + 64, &r->weight);
  r->host = calloc(1, 4 * (size_t)s->max_elements + 64);
  if (status != GA_OK) return status;
  fill_rank_input(s, -1, 0, s->max_elements, r->host);
  status = ga_copy_to_device(r->ctx, r->residual, r->host, bytes - 64, NULL);
  for (int64_t i = 0; i < s->max_elements; i++) ((float *)r->host)[i] = weight_at(i);
  return status == GA_OK ? ga_copy_to_device(r->ctx, r->weight, r->host, 4 * (size_t)s->max_elements, NULL) : status;
}

static void close_rank(rank_state *r) {
  ga_all_reduce_destroy(r->reduce);
  ga_buffer_free(r->ctx, r->x);
  ga_buffer_free(r->ctx, r->y);
  ga_buffer_free(r->ctx, r->residual);
  ga_buffer_free(r->ctx, r->weight);
  free(r->host);
  ga_ctx_destroy(r->ctx);
}

static ga_status enqueue_call(rank_state *r, const call *c) {
  void *y = c->in_place ? r->x : r->y;
  if (!c->rows) return ga_all_reduce_run(r->reduce, r->x, y, c->width, NULL);
  ga_all_reduce_norm_io io = GA_ALL_REDUCE_NORM_IO_INIT;
  io.x = r->x, io.y = y, io.residual = r->residual, io.weight = r->weight;
  io.rows = c->rows, io.width = c->width;
  return ga_all_reduce_norm(r->reduce, &io, NULL);
}

static ga_status do_call(rank_state *r, int c) {
  const scenario *s = r->j->s;
  const call *k = &s->calls[c];
  const size_t bytes = (size_t)elements_of_call(k) * type_bytes(s);
  unsigned char *out = r->j->out + out_at(s, c);
  fill_rank_input(s, r->j->rank, c, elements_of_call(k), r->host);
  ga_status status = ga_copy_to_device(r->ctx, r->x, r->host, bytes, NULL);
  if (status == GA_OK) status = enqueue_call(r, k);
  if (status == GA_OK && c % 3 == 0) status = ga_all_reduce_check(r->reduce, NULL); /* others follow at once */
  if (status == GA_OK && bytes) status = ga_copy_to_host(r->ctx, out, k->in_place ? r->x : r->y, bytes, NULL);
  if (status == GA_OK && k->rows) status = ga_copy_to_host(r->ctx, out + bytes, r->residual, bytes, NULL);
  return status;
}

static ga_status run_each_call(rank_state *r) {
  const scenario *s = r->j->s;
  for (int c = 0; c < s->n_calls; c++) {
    const bool last = c == s->n_calls - 1;
    const double begin = ga_seconds();
    if (last && s->absent == r->j->rank) break;
    ga_status status = do_call(r, c);
    if (status == GA_OK && last) status = ga_all_reduce_check(r->reduce, NULL);
    r->j->seconds = ga_seconds() - begin;
    if (status != GA_OK) return status;
  }
  return GA_OK;
}

/* The graph, and between its launches a call that takes a slot, too. out: y, then the residual, as of the last call. */
static ga_status run_graph(rank_state *r) {
  const scenario *s = r->j->s;
  const call *last = &s->calls[s->n_calls - 1], first = s->calls[0];
  const size_t bytes = (size_t)elements_of_call(&first) * type_bytes(s);
  ga_graph *graph = NULL;
  fill_rank_input(s, r->j->rank, 0, elements_of_call(&first), r->host);
  ga_status status = ga_copy_to_device(r->ctx, r->x, r->host, bytes, NULL);
  if (status == GA_OK) status = ga_graph_begin(r->ctx, NULL);
  if (status != GA_OK) return status;
  for (int c = 0; c < s->n_calls && status == GA_OK; c++) status = enqueue_call(r, &s->calls[c]);
  const ga_status ended = ga_graph_end(r->ctx, NULL, &graph);
  if (status == GA_OK) status = ended;
  for (int i = 0; i < s->replays && status == GA_OK; i++) {
    status = ga_graph_launch(r->ctx, graph, NULL);
    if (status == GA_OK && i % 2) status = ga_all_reduce_run(r->reduce, r->x, r->weight, 40, NULL);
  }
  if (status == GA_OK) status = ga_all_reduce_check(r->reduce, NULL);
  if (status == GA_OK) status = ga_copy_to_host(r->ctx, r->j->out, r->y, bytes, NULL);
  if (status == GA_OK)
    status =
        ga_copy_to_host(r->ctx, r->j->out + bytes, r->residual, (size_t)elements_of_call(last) * type_bytes(s), NULL);
  ga_graph_destroy(graph);
  return status;
}

/* Behind an error a call does not wait again. */
static void call_again(rank_state *r) {
  const double begin = ga_seconds();
  if (on_host || r->j->status != GA_ERR_TIMEOUT) return;
  const ga_status status = enqueue_call(r, &r->j->s->calls[0]);
  if (status != GA_OK || ga_all_reduce_check(r->reduce, NULL) != GA_ERR_TIMEOUT)
    (void)snprintf(r->j->text, sizeof r->j->text, "a second call: %s", ga_error_text());
  if (ga_seconds() - begin > r->j->seconds / 3)
    (void)snprintf(r->j->text, sizeof r->j->text, "a second call took %g s, the first %g", ga_seconds() - begin,
                   r->j->seconds);
}

static void *live_reduce_rank(void *arg) {
  rank_state r = {.j = arg};
  r.j->status = open_rank(&r);
  if (r.j->status == GA_OK) r.j->status = r.j->s->replays ? run_graph(&r) : run_each_call(&r);
  if (r.j->status != GA_OK) (void)snprintf(r.j->text, sizeof r.j->text, "%s", ga_error_text());
  call_again(&r);
  /* A rank that ends early would end the communicator for those that still work. */
  if (r.j->s->absent < 0 && r.j->status == GA_OK) (void)!ga_comm_meet(r.j->comm, "end", 0);
  if (r.j->s->absent == r.j->rank) (void)usleep(400000); /* present, but late: later than anyone waits */
  close_rank(&r);
  ga_comm_destroy(r.j->comm);
  return NULL;
}

/* --- all ranks --- */

static void *memory_for_all(size_t bytes) {
  void *p = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  return p;
}

static pid_t start_reduce_process(rank_job *j) {
  const pid_t pid = fork();
  if (pid) return pid;
  ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
  o.rank = j->rank, o.ranks = j->s->ranks, o.run = j->run,
  o.timeout = on_host && j->s->timeout > 0 ? j->s->timeout : 60;
  j->status = ga_comm_processes_create(&o, &j->comm);
  if (j->status == GA_OK)
    (void)live_reduce_rank(j);
  else
    (void)snprintf(j->text, sizeof j->text, "%s", ga_error_text());
  _exit(0);
}

/* rank_job[ranks] in shared memory. */
static rank_job *run_scenario(const scenario *s, bool processes) {
  static int number;
  char run[64];
  pid_t pids[MOST_RANKS];
  pthread_t threads[MOST_RANKS];
  ga_comm *comms[MOST_RANKS];
  rank_job *jobs = memory_for_all(MOST_RANKS * sizeof *jobs);
  (void)snprintf(run, sizeof run, "test-reduce-%d-%d", (int)getpid(), number++);
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  o.ranks = s->ranks, o.timeout = s->timeout > 0 ? s->timeout : 60;
  if (!processes) assert_int_equal(ga_comm_threads_create(&o, comms), GA_OK);
  for (int32_t r = 0; r < s->ranks; r++) {
    jobs[r] = (rank_job){.s = s, .run = run, .rank = r, .status = GA_ERR_INTERNAL};
    jobs[r].out = memory_for_all(out_at(s, s->n_calls));
    if (!processes) jobs[r].comm = comms[r];
  }
  for (int32_t r = 0; r < s->ranks; r++)
    if (processes)
      pids[r] = start_reduce_process(&jobs[r]);
    else
      assert_int_equal(pthread_create(&threads[r], NULL, live_reduce_rank, &jobs[r]), 0);
  for (int32_t r = 0; r < s->ranks; r++)
    if (processes)
      assert_int_equal(waitpid(pids[r], NULL, 0), pids[r]);
    else
      assert_int_equal(pthread_join(threads[r], NULL), 0);
  return jobs;
}

static void end_scenario(const scenario *s, rank_job *jobs) {
  for (int32_t r = 0; r < s->ranks; r++) (void)munmap(jobs[r].out, out_at(s, s->n_calls) + 1);
  (void)munmap(jobs, MOST_RANKS * sizeof *jobs);
}

/* --- what must come out --- */

typedef struct sums {
  double sum, size; /* of the inputs, of their absolute values */
} sums;

static void *new_zero_bytes(size_t n) {
  void *p = calloc(1, n + 64);
  assert_non_null(p);
  return p;
}

static sums *sums_of_call(const scenario *s, int c) {
  const int64_t n = elements_of_call(&s->calls[c]);
  sums *all = new_zero_bytes((size_t)n * sizeof *all);
  void *x = new_zero_bytes((size_t)n * type_bytes(s));
  for (int32_t r = 0; r < s->ranks; r++) {
    fill_rank_input(s, r, c, n, x);
    for (int64_t i = 0; i < n; i++) {
      const double one = (double)get_element(s->dtype, x, i);
      all[i].sum += one, all[i].size += fabs(one);
    }
  }
  free(x);
  return all;
}

/* One of the type, and what f32 loses where numbers cancel. */
static double slack(const scenario *s, const sums *x) {
  return ulp_of(s->dtype, x->sum) + s->ranks * 0x1p-24 * x->size;
}

static void check_sum_of(const scenario *s, int c, const unsigned char *out) {
  const int64_t n = elements_of_call(&s->calls[c]);
  sums *want = sums_of_call(s, c);
  for (int64_t i = 0; i < n; i++) {
    const double got = (double)get_element(s->dtype, out, i);
    if (!(fabs(got - want[i].sum) <= slack(s, &want[i])))
      fail_msg("%d ranks, type %d, call %d of %lld: element %lld is %g, must be %g", s->ranks, s->dtype, c,
               (long long)n, (long long)i, got, want[i].sum);
  }
  free(want);
}

/* residual: before the call, of this function's caller; becomes the one behind it. */
static void check_norm_of(const scenario *s, int c, const unsigned char *out, void *residual) {
  const call *k = &s->calls[c];
  const int64_t n = elements_of_call(k);
  const unsigned char *now = out + (size_t)n * type_bytes(s);
  sums *want = sums_of_call(s, c);
  for (int64_t row = 0; row < k->rows; row++) {
    double squares = 0;
    for (int64_t i = row * k->width; i < (row + 1) * k->width; i++) {
      const double sum = want[i].sum + (double)get_element(s->dtype, residual, i),
                   got = (double)get_element(s->dtype, now, i);
      if (!(fabs(got - sum) <= ulp_of(s->dtype, sum) + slack(s, &want[i])))
        fail_msg("%d ranks, type %d, call %d: residual %lld is %g, must be %g", s->ranks, s->dtype, c, (long long)i,
                 got, sum);
      squares += got * got;
    }
    const double factor = 1 / sqrt(squares / (double)k->width + 1e-6);
    for (int64_t i = 0; i < k->width; i++) {
      const int64_t at = row * k->width + i;
      const double y = (double)get_element(s->dtype, now, at) * factor * (double)weight_at(i),
                   got = (double)get_element(s->dtype, out, at);
      if (!(fabs(got - y) <= 1.01 * ulp_of(s->dtype, y) + 1e-6 * fabs(y)))
        fail_msg("%d ranks, type %d, call %d: y %lld is %g, must be %g", s->ranks, s->dtype, c, (long long)at, got, y);
    }
  }
  memcpy(residual, now, (size_t)n * type_bytes(s));
  free(want);
}

static void check_results(const scenario *s, const rank_job *jobs) {
  void *residual = new_zero_bytes((size_t)s->max_elements * type_bytes(s));
  for (int32_t r = 0; r < s->ranks; r++)
    if (jobs[r].status != GA_OK) fail_msg("%d ranks, type %d, rank %d: %s", s->ranks, s->dtype, r, jobs[r].text);
  fill_rank_input(s, -1, 0, s->max_elements, residual);
  for (int c = 0; c < s->n_calls; c++) {
    const unsigned char *first = jobs[0].out + out_at(s, c);
    for (int32_t r = 1; r < s->ranks; r++)
      if (memcmp(first, jobs[r].out + out_at(s, c), out_bytes(s, c)) != 0)
        fail_msg("%d ranks, type %d, call %d: ranks 0 and %d have other bits", s->ranks, s->dtype, c, r);
    if (s->calls[c].rows)
      check_norm_of(s, c, first, residual);
    else
      check_sum_of(s, c, first);
  }
  free(residual);
}

static void run_and_check(const scenario *s, bool processes) {
  rank_job *jobs = run_scenario(s, processes);
  check_results(s, jobs);
  end_scenario(s, jobs);
}

/* --- the tests --- */

/* Slots come round several times, with calls of other sizes and kinds between; a short one behind a long one would find
 * what that has left. */
static scenario mixed_calls(int32_t ranks, int32_t dtype) {
  static const call calls[] = {{0, 1, false},    {0, 5000, false}, {0, 7, true},   {3, 64, false},  {0, 0, false},
                               {0, 2049, false}, {1, 512, true},   {0, 16, false}, {0, 4096, true}, {0, 9, false},
                               {70, 32, false},  {1, 4608, false}, {0, 3, false},  {0, 5000, true}, {2, 64, false}};
  scenario s = {.ranks = ranks, .dtype = dtype, .max_elements = 5000, .absent = -1, .n_calls = 15};
  memcpy(s.calls, calls, sizeof calls);
  return s;
}

static void test_mixed(void **state) {
  (void)state;
  static const int32_t dtypes[] = {GA_F32, GA_F16, GA_BF16};
  for (int d = 0; d < 3; d++)
    for (int32_t ranks = 1; ranks <= 4; ranks++) {
      const bool sample = (ranks == 2 && dtypes[d] != GA_F16) || (ranks == 4 && dtypes[d] == GA_BF16);
      if (!on_host && !run_everything && !sample) continue;
      const scenario s = mixed_calls(ranks, dtypes[d]);
      run_and_check(&s, true);
      if (on_host) run_and_check(&s, false);
    }
}

static void test_eight(void **state) {
  (void)state;
  const scenario s = mixed_calls(8, GA_BF16);
  if ((on_host || run_everything) && !on_gpus) run_and_check(&s, true);
}

/* More than goes in one shot: of 4 ranks 384 KiB, of 8 ranks 128 KiB. */
static void test_two_shots(void **state) {
  (void)state;
  static const struct {
    int32_t ranks, dtype;
    int64_t n;
  } all[] = {{4, GA_F32, 98305}, {8, GA_BF16, 66000}, {3, GA_F16, 196613}};
  for (int i = 0; i < 3; i++) {
    const int64_t n = all[i].n, width = n / 5 / 8 * 8;
    scenario s = {.ranks = all[i].ranks, .dtype = all[i].dtype, .max_elements = n, .absent = -1, .n_calls = 6};
    const call calls[] = {{0, n, false},     {0, 33, false}, {0, n - 1, true},
                          {5, width, false}, {0, n, true},   {1, 64, false}};
    memcpy(s.calls, calls, sizeof calls);
    if (on_gpus && all[i].ranks > DEVICES) continue;
    if (on_host || run_everything) run_and_check(&s, true);
  }
}

/* A graph launched again and again, without changed arguments: y of the long sum behind the rows that the norm has
 * written over, and a residual to which the sum was added as often. */
static void test_graph(void **state) {
  (void)state;
  if (on_host) return;
  for (int32_t ranks = 2; ranks <= (run_everything ? 4 : 2); ranks += 2) {
    scenario s = {.ranks = ranks, .dtype = GA_F32, .max_elements = 4000, .absent = -1, .replays = 7, .n_calls = 4};
    const call calls[] = {{0, 4000, false}, {0, 9, false}, {0, 1001, false}, {2, 64, false}};
    memcpy(s.calls, calls, sizeof calls);
    rank_job *jobs = run_scenario(&s, true);
    for (int32_t r = 0; r < ranks; r++) {
      if (jobs[r].status != GA_OK) fail_msg("%d ranks, rank %d: %s", ranks, r, jobs[r].text);
      assert_memory_equal(jobs[r].out, jobs[0].out, (4000 + 128) * sizeof(float));
    }
    const float *y = (const float *)(const void *)jobs[0].out, *residual = y + 4000;
    float first[128];
    sums *want = sums_of_call(&s, 0);
    fill_rank_input(&s, -1, 0, 128, first);
    for (int64_t i = 128; i < 4000; i++) assert_true(fabs((double)y[i] - want[i].sum) <= slack(&s, &want[i]));
    for (int64_t i = 0; i < 128; i++)
      assert_true(fabs((double)residual[i] - (double)first[i] - s.replays * want[i].sum) <= 1e-5);
    free(want);
    end_scenario(&s, jobs);
  }
}

/* A rank that does not come: bounded, named, and later calls do not wait. */
static void test_absent(void **state) {
  (void)state;
  scenario s = {.ranks = 3, .dtype = GA_BF16, .max_elements = 4000, .absent = 1, .timeout = 0.2, .n_calls = 3};
  if (on_host) s.timeout = 1;
  const call calls[] = {{0, 4000, false}, {2, 64, false}, {0, 4000, false}};
  memcpy(s.calls, calls, sizeof calls);
  for (int kind = 0; kind < 2; kind++) {
    if (kind) s.calls[2] = (call){3, 64, false};
    rank_job *jobs = run_scenario(&s, true);
    assert_int_equal(jobs[1].status, GA_OK);
    for (int r = 0; r < 3; r += 2) {
      if (!on_host) assert_int_equal(jobs[r].status, GA_ERR_TIMEOUT);
      if (on_host) assert_true(jobs[r].status == GA_ERR_TIMEOUT || jobs[r].status == GA_ERR_COMM);
      if (!strstr(jobs[r].text, on_host ? "rank 1" : "waited 0.2 s; ranks that did not come: 1"))
        fail_msg("rank %d: '%s' does not name rank 1", r, jobs[r].text);
      if (jobs[r].seconds > 20) fail_msg("rank %d took %g s", r, jobs[r].seconds);
    }
    end_scenario(&s, jobs);
  }
}

/* --- what is refused --- */

static void refuses_with(ga_status got, ga_status want, const char *text) {
  if (got != want || !strstr(ga_error_text(), text))
    fail_msg("%s: '%s' lacks '%s'", ga_status_name(got), ga_error_text(), text);
}

static ga_ctx *open_ctx(void) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_ctx *ctx = NULL;
  o.device = on_gpus ? "cuda:0" : test_device, o.threads = 1;
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

static ga_comm *comm_of_one(void) {
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  ga_comm *comm = NULL;
  assert_int_equal(ga_comm_threads_create(&o, &comm), GA_OK);
  return comm;
}

static void refuses_desc(ga_ctx *ctx, const ga_all_reduce_desc *d, ga_status status, const char *text) {
  ga_comm *comm = comm_of_one();
  ga_all_reduce *reduce = NULL;
  refuses_with(ga_all_reduce_create(d, comm, ctx, &reduce), status, text);
  assert_null(reduce);
  ga_comm_destroy(comm);
}

static void test_refused_descs(void **state) {
  (void)state;
  ga_ctx *ctx = open_ctx();
  ga_all_reduce_desc d = GA_ALL_REDUCE_DESC_INIT;
  refuses_desc(ctx, &d, GA_ERR_ARG, "max_elements is 0; must be 1 to 16777216");
  d.max_elements = 16777217;
  refuses_desc(ctx, &d, GA_ERR_ARG, "max_elements is 16777217; must be 1 to 16777216");
  d.max_elements = 64, d.dtype = GA_I32;
  refuses_desc(ctx, &d, GA_ERR_DTYPE, "dtype is i32; allowed: f32, f16, bf16");
  d.dtype = GA_F16, d.flags = 1;
  refuses_desc(ctx, &d, GA_ERR_ARG, "flags is 0x1; must be 0");
  d.flags = 0, d.timeout = 1e-4;
  refuses_desc(ctx, &d, GA_ERR_ARG, "timeout is 0.0001 s; must be 0.001 to 3600");
  refuses_with(ga_all_reduce_create(&d, NULL, ctx, &(ga_all_reduce *){NULL}), GA_ERR_ARG, "comm is null");
  ga_comm *comms[MOST_RANKS];
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  o.ranks = MOST_RANKS, d.timeout = 0;
  assert_int_equal(ga_comm_threads_create(&o, comms), GA_OK);
  if (!on_host)
    refuses_with(ga_all_reduce_create(&d, comms[0], ctx, &(ga_all_reduce *){NULL}), GA_ERR_ARG,
                 "the communicator has 9 ranks; on");
  for (int r = 0; r < MOST_RANKS; r++) ga_comm_destroy(comms[r]);
  ga_ctx_destroy(ctx);
}

static void refuses_norms(ga_all_reduce *reduce, const ga_all_reduce_norm_io *good) {
  ga_all_reduce_norm_io io = *good;
  io.rows = 3, io.width = 64;
  refuses_with(ga_all_reduce_norm(reduce, &io, NULL), GA_ERR_ARG,
               "rows x width is 192; must be 0 to max_elements, 128");
  io = *good, io.width = 60;
  if (!on_host)
    refuses_with(ga_all_reduce_norm(reduce, &io, NULL), GA_ERR_ARG, "width is 60; must be 0 to 128, a multiple of 8");
  io = *good, io.rows = -1;
  refuses_with(ga_all_reduce_norm(reduce, &io, NULL), GA_ERR_ARG, "rows is -1; must be 0 to 128");
  io = *good, io.eps = -1;
  refuses_with(ga_all_reduce_norm(reduce, &io, NULL), GA_ERR_ARG, "eps is -1; must be 0 or more");
  io = *good, io.weight = NULL;
  refuses_with(ga_all_reduce_norm(reduce, &io, NULL), GA_ERR_ARG, "weight is null");
  io = *good, io.residual = (char *)good->residual + 1;
  refuses_with(ga_all_reduce_norm(reduce, &io, NULL), GA_ERR_ARG, "residual is at");
  io = *good, io.reserved = 4;
  refuses_with(ga_all_reduce_norm(reduce, &io, NULL), GA_ERR_ARG, "reserved is 4; must be 0");
}

static void test_refused_calls(void **state) {
  (void)state;
  ga_ctx *ctx = open_ctx();
  ga_comm *comm = comm_of_one();
  ga_all_reduce *reduce = NULL;
  void *x, *w;
  ga_all_reduce_desc d = GA_ALL_REDUCE_DESC_INIT;
  d.max_elements = 128;
  assert_int_equal(ga_all_reduce_create(&d, comm, ctx, &reduce), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, 512, &x), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, 512, &w), GA_OK);
  refuses_with(ga_all_reduce_run(reduce, x, x, 129, NULL), GA_ERR_ARG, "n is 129; must be 0 to max_elements, 128");
  refuses_with(ga_all_reduce_run(reduce, x, x, -1, NULL), GA_ERR_ARG, "n is -1; must be 0 to max_elements, 128");
  refuses_with(ga_all_reduce_run(reduce, NULL, x, 1, NULL), GA_ERR_ARG, "x is null");
  refuses_with(ga_all_reduce_run(reduce, x, (char *)x + 1, 1, NULL), GA_ERR_ARG,
               on_host ? "must be a multiple of 2 bytes" : "must be a multiple of 16 bytes");
  refuses_with(ga_all_reduce_run(NULL, x, x, 1, NULL), GA_ERR_ARG, "reduce is null");
  refuses_with(ga_all_reduce_check(NULL, NULL), GA_ERR_ARG, "reduce is null");
  assert_int_equal(ga_all_reduce_run(reduce, NULL, NULL, 0, NULL), GA_OK);
  ga_all_reduce_norm_io io = GA_ALL_REDUCE_NORM_IO_INIT;
  io.x = io.y = io.residual = x, io.weight = w, io.rows = 1, io.width = 128;
  refuses_norms(reduce, &io);
  assert_int_equal(ga_all_reduce_check(reduce, NULL), GA_OK);
  ga_all_reduce_destroy(reduce);
  ga_all_reduce_destroy(NULL);
  ga_buffer_free(ctx, x);
  ga_buffer_free(ctx, w);
  ga_comm_destroy(comm);
  ga_ctx_destroy(ctx);
}

int main(int argc, char **argv) {
  run_everything = argc > 1 && !strcmp(argv[1], "full");
  if (argc > 2) test_device = argv[2];
  on_host = !strcmp(test_device, "cpu");
  on_gpus = !strcmp(test_device, "cuda");
  if (!on_host) (void)setenv("GA_EMU", "devices=4,inorder,graphs,sms=16", 0);
  const struct CMUnitTest tests[] = {
      /* processes first: a fork takes along what threads have made */
      cmocka_unit_test(test_graph),         cmocka_unit_test(test_absent), cmocka_unit_test(test_two_shots),
      cmocka_unit_test(test_eight),         cmocka_unit_test(test_mixed),  cmocka_unit_test(test_refused_descs),
      cmocka_unit_test(test_refused_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
