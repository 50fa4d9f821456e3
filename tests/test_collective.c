/* Collectives (ga/collective.h) in host memory: threads and processes, equal calls and unequal ones, ranks that leave,
 * come late or die. ga check compares values with the oracles; here ranks have a context each, as a model's have.
 * GA_TEST_DEVICE "emu", or an argument, "cuda": copies and sums over links, between devices. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
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
#include "ga/collective.h"

#ifndef GA_TEST_DEVICE
#define GA_TEST_DEVICE "cpu"
#endif

enum { MOST = 4, N = 1000 };
static const char *test_device = GA_TEST_DEVICE;
static int devices = 2;

/* A rank's thread. */
typedef struct rank_of_test {
  int32_t rank;
  ga_comm *comm;
  ga_ctx *ctx;
  bool by_messages; /* although the ranks are threads */
  ga_status (*work)(struct rank_of_test *);
  ga_status status;
  float x[MOST * N], y[MOST * N];
  char text[400];
} rank_of_test;

static ga_collective_desc desc_for(const rank_of_test *r, ga_collective_kind kind, int64_t n) {
  ga_collective_desc d = GA_COLLECTIVE_DESC_INIT;
  d.kind = (int32_t)kind, d.n = n, d.ranks = ga_comm_size(r->comm);
  d.reach = r->by_messages ? 0 : ga_comm_reach(r->comm);
  return d;
}

static ga_status call_collective(rank_of_test *r, ga_collective_kind kind, int64_t n, float *x, float *y) {
  const ga_collective_desc d = desc_for(r, kind, n);
  const ga_collective_io io = {.comm = r->comm, .x = x, .y = y, .to = -1, .from = -1};
  return ga_collective(r->ctx, &d, &io, NULL);
}

static float input_of(int32_t rank, int64_t i) { return (float)(i % 97) * 0.37f + (float)rank * 1e-3f; }

static ga_status open_test_rank(rank_of_test *r) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  char device[32];
  (void)snprintf(device, sizeof device, strcmp(test_device, "cpu") ? "%s:%d" : "%s", test_device, r->rank % devices);
  o.device = device, o.threads = 1;
  for (int64_t i = 0; i < MOST * N; i++) r->x[i] = input_of(r->rank, i), r->y[i] = -1;
  return ga_ctx_create(&o, &r->ctx);
}

static void *live_test_rank(void *arg) {
  rank_of_test *r = arg;
  r->status = open_test_rank(r);
  if (r->status == GA_OK) r->status = r->work(r);
  if (r->status != GA_OK) (void)snprintf(r->text, sizeof r->text, "%s", ga_error_text());
  ga_ctx_destroy(r->ctx);
  ga_comm_destroy(r->comm);
  return NULL;
}

static rank_of_test ranks[MOST];

static void run_thread_ranks(int32_t n, bool by_messages, double timeout, ga_status (*work)(rank_of_test *)) {
  pthread_t threads[MOST];
  ga_comm *comms[MOST];
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  o.ranks = n, o.timeout = timeout;
  assert_int_equal(ga_comm_threads_create(&o, comms), GA_OK);
  for (int32_t r = 0; r < n; r++) {
    ranks[r] = (rank_of_test){.rank = r, .comm = comms[r], .by_messages = by_messages, .work = work};
    assert_int_equal(pthread_create(&threads[r], NULL, live_test_rank, &ranks[r]), 0);
  }
  for (int32_t r = 0; r < n; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
}

static void all_are(int32_t n, ga_status status, const char *text) {
  for (int32_t r = 0; r < n; r++) {
    if (ranks[r].status != status || (text && !strstr(ranks[r].text, text)))
      fail_msg("rank %d: %s: %s", r, ga_status_name(ranks[r].status), ranks[r].text);
  }
}

/* --- equal calls --- */

static float sum_of_inputs(int32_t n, int64_t i) {
  double sum = 0;
  for (int32_t r = 0; r < n; r++) sum += (double)input_of(r, i);
  return (float)sum;
}

/* A layer of a model that is split over ranks: a sum in place, and parts that each rank has made where they belong. */
static ga_status sum_and_gather(rank_of_test *r) {
  const int32_t n = ga_comm_size(r->comm);
  for (int i = 0; i < 20; i++) {
    memcpy(r->y, r->x, N * sizeof *r->y);
    ga_status status = call_collective(r, GA_ALL_REDUCE, N, r->y, r->y);
    if (status != GA_OK) return status;
    for (int64_t e = 0; e < N; e++)
      if (r->y[e] != sum_of_inputs(n, e))
        return ga_error_set(GA_ERR_INTERNAL, "sum %d has %g", (int)e, (double)r->y[e]);
    float *own = r->y + r->rank * (N / n);
    for (int64_t e = 0; e < N / n; e++) own[e] = (float)(r->rank * 10000 + e);
    status = call_collective(r, GA_ALL_GATHER, N / n, own, r->y);
    if (status != GA_OK) return status;
    for (int64_t e = 0; e < N / n * n; e++)
      if (r->y[e] != (float)(e / (N / n) * 10000 + e % (N / n)))
        return ga_error_set(GA_ERR_INTERNAL, "element %d has %g", (int)e, (double)r->y[e]);
  }
  return GA_OK;
}

static void ranks_share_the_work_of_a_layer(void **state) {
  (void)state;
  for (int32_t n = 1; n <= MOST; n++)
    for (int by_messages = 0; by_messages < 2; by_messages++) {
      run_thread_ranks(n, by_messages, 60, sum_and_gather);
      all_are(n, GA_OK, NULL);
    }
}

/* Rank 0 hands on to rank 1, and so on: the stages of a pipeline. */
static ga_status hand_to_next(rank_of_test *r) {
  const ga_collective_desc d = desc_for(r, GA_SEND_RECV, N);
  const int32_t n = ga_comm_size(r->comm);
  const ga_collective_io in = {.comm = r->comm, .y = r->x, .to = -1, .from = r->rank - 1},
                         on = {.comm = r->comm, .x = r->x, .to = r->rank + 1 < n ? r->rank + 1 : -1, .from = -1};
  ga_status status = ga_collective(r->ctx, &d, &in, NULL);
  r->x[7] += 1;
  return status == GA_OK ? ga_collective(r->ctx, &d, &on, NULL) : status;
}

static void stages_hand_on(void **state) {
  (void)state;
  run_thread_ranks(3, false, 60, hand_to_next);
  all_are(3, GA_OK, NULL);
  assert_true(ranks[2].x[7] == input_of(0, 7) + 3 && ranks[2].x[8] == input_of(0, 8));
}

/* --- unequal calls --- */

static ga_status unequal_sizes(rank_of_test *r) {
  const ga_status status = call_collective(r, GA_ALL_REDUCE, r->rank == 1 ? 5 : 4, r->x, r->y);
  (void)snprintf(r->text, sizeof r->text, "%s", ga_error_text());
  if (status != GA_ERR_COMM || r->y[0] != -1) return GA_ERR_INTERNAL;
  return call_collective(r, GA_ALL_REDUCE, 6, r->x, r->y); /* no rank has read or waited in vain */
}

static ga_status unequal_types(rank_of_test *r) {
  ga_collective_desc d = desc_for(r, GA_ALL_GATHER, 8);
  if (r->rank == 2) d.dtype = GA_BF16;
  return ga_collective(r->ctx, &d, &(ga_collective_io){.comm = r->comm, .x = r->x, .y = r->y}, NULL);
}

static ga_status unequal_kinds(rank_of_test *r) {
  return call_collective(r, r->rank == 2 ? GA_ALL_TO_ALL : GA_ALL_GATHER, 8, r->x, r->y);
}

static void unequal_calls_are_named_on_all_ranks(void **state) {
  (void)state;
  for (int by_messages = 0; by_messages < 2; by_messages++) {
    run_thread_ranks(3, by_messages, 60, unequal_sizes);
    all_are(3, GA_OK, "all_reduce: n is 5 on rank 1 and 4 on rank 0");
    run_thread_ranks(3, by_messages, 60, unequal_types);
    all_are(3, GA_ERR_COMM, "all_gather: dtype is bf16 on rank 2 and f32 on rank 0");
    run_thread_ranks(3, by_messages, 60, unequal_kinds);
    all_are(3, GA_ERR_COMM, "the call is all_to_all on rank 2 and all_gather on rank 0");
  }
}

/* --- ranks that go --- */

/* Two equal sums, and then rank 1 meets for something else, with the value that sums meet with. */
static ga_status one_meets_instead(rank_of_test *r) {
  for (int i = 0; i < 2; i++)
    if (call_collective(r, GA_ALL_REDUCE, N, r->x, r->y) != GA_OK) return GA_ERR_INTERNAL;
  if (!r->rank) return call_collective(r, GA_ALL_REDUCE, N, r->x, r->y);
  const ga_status status = ga_comm_meet(r->comm, "something else", 1);
  return status == GA_OK ? ga_comm_meet(r->comm, "the next thing", 0) : status;
}

static void a_meeting_is_no_collective(void **state) {
  (void)state;
  run_thread_ranks(2, false, 5, one_meets_instead);
  assert_int_equal(ranks[0].status, GA_ERR_COMM);
  assert_true(ranks[1].status != GA_OK);
  assert_non_null(strstr(ranks[0].text, "made another call instead"));
}

static ga_status last_rank_leaves(rank_of_test *r) {
  ga_status status = call_collective(r, GA_ALL_REDUCE, N, r->x, r->y);
  if (status != GA_OK || r->rank == ga_comm_size(r->comm) - 1) return status;
  const double begin = ga_seconds();
  status = call_collective(r, GA_ALL_REDUCE, N, r->x, r->y);
  if (ga_seconds() - begin > 5) return ga_error_set(GA_ERR_INTERNAL, "it took %g s", ga_seconds() - begin);
  return status;
}

static void a_rank_that_leaves_is_named(void **state) {
  (void)state;
  for (int by_messages = 0; by_messages < 2; by_messages++) {
    run_thread_ranks(3, by_messages, 60, last_rank_leaves);
    assert_int_equal(ranks[2].status, GA_OK);
    all_are(2, GA_ERR_COMM, "rank 2 is gone");
  }
}

static ga_status last_rank_is_late(rank_of_test *r) {
  if (r->rank == ga_comm_size(r->comm) - 1) (void)usleep(600000);
  return call_collective(r, GA_ALL_GATHER, N, r->x, r->y);
}

static void a_rank_that_is_late_is_named(void **state) {
  (void)state;
  for (int by_messages = 0; by_messages < 2; by_messages++) {
    run_thread_ranks(2, by_messages, 0.1, last_rank_is_late);
    all_are(2, GA_ERR_TIMEOUT, "rank 0 waited 0.1 s for rank 1");
  }
}

/* Ranks free what they lent as soon as a call has failed, whoever still reads it: for AddressSanitizer. */
static ga_status abort_under_way(rank_of_test *r) {
  ga_status status = GA_OK;
  for (int i = 0; status == GA_OK && i < 2000; i++) {
    float *x = malloc(MOST * N * sizeof *x), *y = malloc(MOST * N * sizeof *y);
    for (int e = 0; e < MOST * N; e++) x[e] = 1;
    if (r->rank == 3 && i == 20) ga_comm_abort(r->comm, "it was asked to");
    status = call_collective(r, i % 2 ? GA_ALL_TO_ALL : GA_REDUCE_SCATTER, N, x, y);
    free(x);
    free(y);
  }
  return status;
}

static void memory_is_free_after_an_abort(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) {
    run_thread_ranks(4, i % 2, 60, abort_under_way);
    all_are(4, GA_ERR_COMM, "it was asked to");
  }
}

/* --- processes --- */

static ga_status die_under_way(rank_of_test *r) {
  for (int i = 0; i < 100000; i++) {
    if (r->rank == 1 && i == 50) (void)raise(SIGKILL);
    const ga_status status = call_collective(r, GA_ALL_REDUCE, N, r->x, r->y);
    if (status != GA_OK) return status;
  }
  return GA_OK;
}

/* In memory of all processes. */
static rank_of_test *run_process_ranks(int32_t n, ga_status (*work)(rank_of_test *)) {
  static int number;
  char run[64];
  pid_t pids[MOST];
  rank_of_test *all = mmap(NULL, MOST * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(all != MAP_FAILED);
  (void)snprintf(run, sizeof run, "test-collective-%d-%d", (int)getpid(), number++);
  for (int32_t r = 0; r < n; r++) {
    all[r] = (rank_of_test){.rank = r, .work = work, .status = GA_ERR_INTERNAL};
    pids[r] = fork();
    if (pids[r]) continue;
    ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
    o.rank = r, o.ranks = n, o.run = run, o.timeout = 60;
    if (ga_comm_processes_create(&o, &all[r].comm) == GA_OK) (void)live_test_rank(&all[r]);
    _exit(0);
  }
  for (int32_t r = 0; r < n; r++) assert_int_equal(waitpid(pids[r], NULL, 0), pids[r]);
  return all;
}

static void processes_do_the_same(void **state) {
  (void)state;
  rank_of_test *all = run_process_ranks(3, sum_and_gather);
  for (int32_t r = 0; r < 3; r++)
    if (all[r].status != GA_OK) fail_msg("rank %d: %s", r, all[r].text);
  (void)munmap(all, MOST * sizeof *all);
  all = run_process_ranks(2, unequal_sizes);
  for (int32_t r = 0; r < 2; r++) assert_non_null(strstr(all[r].text, "n is 5 on rank 1 and 4 on rank 0"));
  (void)munmap(all, MOST * sizeof *all);
}

static void a_process_that_dies_is_named(void **state) {
  (void)state;
  rank_of_test *all = run_process_ranks(3, die_under_way);
  for (int32_t r = 0; r < 3; r += 2) {
    assert_int_equal(all[r].status, GA_ERR_COMM);
    assert_non_null(strstr(all[r].text, "rank 1 has died"));
    const bool is_zeroed = all[r].y[1] == 0; /* else the call before wrote all of it */
    for (int i = 0; i < N; i++) assert_true(all[r].y[i] == (is_zeroed ? 0 : sum_of_inputs(3, i)));
  }
  (void)munmap(all, MOST * sizeof *all);
}

/* --- links between devices --- */

typedef struct device_arrays {
  ga_links *links;
  void *x, *y;
} device_arrays;

static ga_status open_arrays(const rank_of_test *r, const char *copies, device_arrays *a) {
  ga_status status = ga_links_create(r->comm, r->ctx, copies, &a->links);
  if (status == GA_OK) status = ga_buffer_alloc(r->ctx, sizeof r->x, &a->x);
  if (status == GA_OK) status = ga_buffer_alloc(r->ctx, sizeof r->y, &a->y);
  return status == GA_OK ? ga_copy_to_device(r->ctx, a->x, r->x, sizeof r->x, NULL) : status;
}

/* A rank that leaves would end the work of the others. */
static ga_status close_arrays(const rank_of_test *r, const device_arrays *a, ga_status status) {
  ga_links_destroy(a->links);
  if (r->ctx) ga_buffer_free(r->ctx, a->x);
  if (r->ctx) ga_buffer_free(r->ctx, a->y);
  return status == GA_OK ? ga_comm_meet(r->comm, "end", 0) : status;
}

static ga_status copy_by_links(rank_of_test *r, const device_arrays *a, ga_collective_kind kind, int64_t n) {
  ga_collective_desc d = desc_for(r, kind, n);
  d.reach = 0, d.flags = GA_COLLECTIVE_LINKS;
  ga_collective_io io = {.comm = r->comm, .links = a->links, .x = a->x, .y = a->y};
  io.to = (r->rank + 1) % d.ranks, io.from = (r->rank + d.ranks - 1) % d.ranks;
  const ga_status status = ga_collective(r->ctx, &d, &io, NULL);
  return status == GA_OK ? ga_copy_to_host(r->ctx, r->y, a->y, sizeof r->y, NULL) : status;
}

static float copied_to(const rank_of_test *r, ga_collective_kind kind, int64_t n, int64_t i) {
  const int32_t row = (int32_t)(i / n), size = ga_comm_size(r->comm);
  if (kind == GA_ALL_GATHER) return input_of(row, i % n);
  if (kind == GA_ALL_TO_ALL) return input_of(row, r->rank * n + i % n);
  return input_of((r->rank + size - 1) % size, i);
}

static ga_status copy_and_compare(rank_of_test *r, const device_arrays *a, ga_collective_kind kind, int64_t n) {
  const int64_t all = kind == GA_SEND_RECV ? n : n * ga_comm_size(r->comm);
  const ga_status status = copy_by_links(r, a, kind, n);
  for (int64_t i = 0; i < all && status == GA_OK; i++)
    if (r->y[i] != copied_to(r, kind, n, i))
      return ga_error_set(GA_ERR_INTERNAL, "kind %d: element %d is %g", (int)kind, (int)i, (double)r->y[i]);
  return status;
}

static const char *links_by = "host";

static ga_status copy_over_links(rank_of_test *r) {
  static const ga_collective_kind kinds[] = {GA_ALL_GATHER, GA_ALL_TO_ALL, GA_SEND_RECV};
  device_arrays a = {0};
  ga_status status = open_arrays(r, links_by, &a);
  for (int k = 0; k < 6 && status == GA_OK; k++) status = copy_and_compare(r, &a, kinds[k % 3], N - k);
  const ga_status unequal = status == GA_OK ? copy_by_links(r, &a, GA_ALL_GATHER, r->rank == 1 ? 7 : 8) : GA_ERR_COMM;
  if (status == GA_OK && (unequal != GA_ERR_COMM || !strstr(ga_error_text(), "n is 7 on rank 1 and 8 on rank 0")))
    status = ga_error_set(GA_ERR_INTERNAL, "unequal calls: %s", ga_status_name(unequal));
  for (int k = 0; k < 6 && status == GA_OK; k++) status = copy_and_compare(r, &a, kinds[k % 3], 1 + k);
  return close_arrays(r, &a, status);
}

static void links_copy_between_devices(void **state) {
  (void)state;
  for (int32_t n = 2; n <= devices; n++) {
    run_thread_ranks(n, true, 60, copy_over_links);
    all_are(n, GA_OK, NULL);
  }
}

/* --- sums over links --- */

static size_t term_bytes(ga_dtype t) { return t == GA_F32 ? 4 : 2; }

static float load_term(ga_dtype t, const void *p, int64_t i) {
  uint16_t h;
  float f;
  if (t == GA_F32) return memcpy(&f, (const float *)p + i, sizeof f), f;
  memcpy(&h, (const char *)p + i * 2, sizeof h);
  return t == GA_BF16 ? ga_bf16_to_f32(h) : ga_f16_to_f32(h);
}

static void store_term(ga_dtype t, void *p, int64_t i, float x) {
  const uint16_t h = t == GA_BF16 ? ga_f32_to_bf16(x) : ga_f32_to_f16(x);
  memcpy((char *)p + i * (int64_t)term_bytes(t), t == GA_F32 ? (const void *)&x : &h, term_bytes(t));
}

/* Numbers whose sums show the order and the type they are made in, and numbers that are none. */
static float term_of(int32_t rank, int64_t i) {
  static const float hostile[4] = {3e38f, 65000, 1e-40f, -0.0f};
  const float plain = input_of(rank, i) + 0.1f;
  switch (i % 11) {
  case 0: return hostile[i / 11 % 4];
  case 1: return rank == 1 ? -hostile[i / 11 % 4] : plain * 1e-3f;
  case 2: return rank == 1 ? (i / 11 % 2 ? -INFINITY : NAN) : plain;
  case 3: return rank % 2 ? -plain * 1000 : plain * 1000;
  default: return rank % 2 ? plain : -plain / 3;
  }
}

static bool is_same_element(ga_dtype t, const void *a, const void *b, int64_t i) {
  const size_t bytes = term_bytes(t);
  if (isnan(load_term(t, a, i))) return isnan(load_term(t, b, i));
  return !memcmp((const char *)a + (size_t)i * bytes, (const char *)b + (size_t)i * bytes, bytes);
}

/* y[n] = the sum in f32 of this rank's row of every rank's x, in the order of ranks. */
static void sum_of_terms(const rank_of_test *r, ga_dtype t, int64_t n, void *y) {
  float x;
  for (int64_t i = 0; i < n; i++) {
    float sum = 0;
    for (int32_t p = 0; p < ga_comm_size(r->comm); p++) {
      store_term(t, &x, 0, term_of(p, r->rank * n + i));
      sum += load_term(t, &x, 0);
    }
    store_term(t, y, i, sum);
  }
}

/* Two terms have the same bits however wide their sum was: those of the rows in host memory. */
static ga_status sum_on_host(const rank_of_test *r, ga_dtype t, int64_t n, void *y) {
  ga_collective_desc d = desc_for(r, GA_REDUCE_SCATTER, n);
  ga_ctx *cpu;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu", o.threads = 1;
  d.dtype = t;
  ga_status status = ga_ctx_create(&o, &cpu);
  if (status != GA_OK) return status;
  status = ga_collective(cpu, &d, &(ga_collective_io){.comm = r->comm, .x = r->x, .y = y}, NULL);
  ga_ctx_destroy(cpu);
  return status;
}

static ga_status sum_by_links(rank_of_test *r, const device_arrays *a, ga_dtype t, int64_t n) {
  ga_collective_desc d = desc_for(r, GA_REDUCE_SCATTER, n);
  d.reach = 0, d.flags = GA_COLLECTIVE_LINKS, d.dtype = t;
  for (int64_t i = 0; i < n * d.ranks; i++) store_term(t, r->x, i, term_of(r->rank, i));
  memset(r->y, 0x5a, sizeof r->y);
  ga_status status = ga_copy_to_device(r->ctx, a->x, r->x, sizeof r->x, NULL);
  if (status == GA_OK) status = ga_copy_to_device(r->ctx, a->y, r->y, sizeof r->y, NULL);
  const ga_collective_io io = {.comm = r->comm, .links = a->links, .x = a->x, .y = a->y};
  if (status == GA_OK) status = ga_collective(r->ctx, &d, &io, NULL);
  return status == GA_OK ? ga_copy_to_host(r->ctx, r->y, a->y, sizeof r->y, NULL) : status;
}

static ga_status sum_and_compare(rank_of_test *r, const device_arrays *a, ga_dtype t, int64_t n) {
  float want[N + 1], host[N];
  const unsigned char *behind = (const unsigned char *)r->y + (size_t)n * term_bytes(t);
  ga_status status = sum_by_links(r, a, t, n);
  if (status != GA_OK) return status;
  sum_of_terms(r, t, n, want);
  if (ga_comm_size(r->comm) == 2) status = sum_on_host(r, t, n, host);
  for (int64_t i = 0; i < n && status == GA_OK; i++) {
    const bool is_host = ga_comm_size(r->comm) != 2 || is_same_element(t, host, r->y, i);
    if (!is_host || !is_same_element(t, want, r->y, i))
      return ga_error_set(GA_ERR_INTERNAL, "%s: element %d of %d is %g, not %g%s", ga_dtype_name(t), (int)i, (int)n,
                          (double)load_term(t, r->y, i), (double)load_term(t, want, i),
                          is_host ? "" : ", nor as on the host");
  }
  for (int i = 0; i < 64; i++)
    if (behind[i] != 0x5a)
      return ga_error_set(GA_ERR_INTERNAL, "%s: more than %d were written", ga_dtype_name(t), (int)n);
  return status;
}

static ga_status sum_unequal(rank_of_test *r, const device_arrays *a) {
  const ga_status status = sum_by_links(r, a, GA_BF16, r->rank == 1 ? 7 : 8);
  if (status == GA_ERR_COMM && strstr(ga_error_text(), "reduce_scatter: n is 7 on rank 1 and 8 on rank 0"))
    return GA_OK;
  return ga_error_set(GA_ERR_INTERNAL, "unequal calls: %s", ga_status_name(status));
}

static ga_status sum_over_links(rank_of_test *r) {
  static const ga_dtype types[] = {GA_F32, GA_F16, GA_BF16};
  static const int64_t sizes[] = {N - 8, 1, N - 15, 0, 64, 7}; /* 992 and 64: rows of whole units of 16 bytes */
  device_arrays a = {0};
  ga_status status = open_arrays(r, links_by, &a);
  for (size_t k = 0; k < 18 && status == GA_OK; k++) status = sum_and_compare(r, &a, types[k / 6], sizes[k % 6]);
  if (status == GA_OK && ga_comm_size(r->comm) > 1) status = sum_unequal(r, &a);
  if (status == GA_OK) status = sum_and_compare(r, &a, GA_F32, N - 1);
  return close_arrays(r, &a, status);
}

static void links_sum_between_devices(void **state) {
  (void)state;
  for (int32_t n = 1; n <= devices; n++) {
    run_thread_ranks(n, true, 60, sum_over_links);
    all_are(n, GA_OK, NULL);
  }
}

/* --- what is refused, and what is chosen --- */

typedef struct lone_rank {
  ga_ctx *ctx;
  ga_comm *comm;
} lone_rank;

static ga_status call_alone(const lone_rank *a, const ga_collective_desc *d, const ga_collective_io *io) {
  return ga_collective(a->ctx, d, io, NULL);
}

static void refused_with(ga_status status, ga_status want, const char *text) {
  assert_int_equal(status, want);
  assert_string_equal(ga_error_text(), text);
}

static void wrong_calls_are_refused(void **state) {
  (void)state;
  static float x[8], y[8];
  lone_rank a = {0};
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_comm_threads_options t = GA_COMM_THREADS_OPTIONS_INIT;
  o.device = "cpu";
  assert_int_equal(ga_ctx_create(&o, &a.ctx), GA_OK);
  assert_int_equal(ga_comm_threads_create(&t, &a.comm), GA_OK);
  const ga_collective_desc good = GA_COLLECTIVE_DESC_INIT;
  const ga_collective_io io = {.comm = a.comm, .x = x, .y = y, .to = -1, .from = -1};
  ga_collective_desc d = good;
  d.kind = 5;
  refused_with(call_alone(&a, &d, &io), GA_ERR_ARG, "collective: kind is 5; must be 0 to 4");
  d = good, d.dtype = GA_I32;
  refused_with(call_alone(&a, &d, &io), GA_ERR_DTYPE, "all_reduce: dtype is i32; allowed: f32, f16, bf16");
  d = good, d.ranks = 2;
  refused_with(call_alone(&a, &d, &io), GA_ERR_ARG, "all_reduce: the plan is for 2 ranks; comm has 1");
  d = good, d.flags = GA_COLLECTIVE_WINDOWS;
  assert_int_equal(call_alone(&a, &d, &io), GA_ERR_UNSUPPORTED); /* no row of a CPU */
  d = good, d.n = 4;
  ga_collective_io bad = io;
  bad.x = NULL;
  refused_with(call_alone(&a, &d, &bad), GA_ERR_ARG, "all_reduce: x is null");
  d.kind = GA_ALL_TO_ALL;
  bad = io, bad.y = x;
  assert_int_equal(call_alone(&a, &d, &bad), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "overlap"));
  d.kind = GA_SEND_RECV;
  bad = io, bad.to = 0;
  refused_with(call_alone(&a, &d, &bad), GA_ERR_ARG,
               "send_recv: to is 0 on rank 0; must be another rank, 0 to 0, or -1 = none");
  ga_comm_destroy(a.comm);
  ga_ctx_destroy(a.ctx);
}

static void the_communicator_decides_the_row(void **state) {
  (void)state;
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  ga_collective_desc d = GA_COLLECTIVE_DESC_INIT;
  d.n = 4096, d.ranks = 2;
  static const char *const rows[] = {"all_reduce_any_messages_generic_1", "all_reduce_any_shared_generic_1"};
  for (uint32_t reach = 0; reach < 2; reach++) {
    ga_plan *plan;
    d.reach = reach ? GA_COMM_SAME_MEMORY : 0;
    assert_int_equal(ga_collective_plan(ctx, &d, &plan), GA_OK);
    assert_string_equal(ga_plan_kernel_id(plan), rows[reach]);
    ga_plan_destroy(plan);
  }
  ga_ctx_destroy(ctx);
}

/* test_collective [DEVICE [COPIES [DEVICES]]] */
int main(int argc, char **argv) {
  if (argc > 1) test_device = argv[1];
  if (argc > 2) links_by = argv[2];
  if (argc > 3) devices = atoi(argv[3]);
  if (devices < 1 || devices > MOST) return 2;
  if (strcmp(test_device, "cpu") != 0) {
    const struct CMUnitTest links[] = {cmocka_unit_test(links_copy_between_devices),
                                       cmocka_unit_test(links_sum_between_devices)};
    return cmocka_run_group_tests(links, NULL, NULL);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_do_the_same), /* first: a process with threads is not forked */
      cmocka_unit_test(a_process_that_dies_is_named),
      cmocka_unit_test(ranks_share_the_work_of_a_layer),
      cmocka_unit_test(stages_hand_on),
      cmocka_unit_test(unequal_calls_are_named_on_all_ranks),
      cmocka_unit_test(a_meeting_is_no_collective),
      cmocka_unit_test(a_rank_that_leaves_is_named),
      cmocka_unit_test(a_rank_that_is_late_is_named),
      cmocka_unit_test(memory_is_free_after_an_abort),
      cmocka_unit_test(wrong_calls_are_refused),
      cmocka_unit_test(the_communicator_decides_the_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
