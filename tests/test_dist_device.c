/* The executor for devices: ranks are threads with a device each, or processes. GA_TEST_DEVICE "cpu" runs its path in
 * host memory, "emu" the CUDA backend on the emulator. Arguments: full, or nothing for a sample. */
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
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/exchange.h"
#include "tests/dist_rig.h"

#ifndef GA_TEST_DEVICE
#define GA_TEST_DEVICE "cpu"
#endif

static bool run_everything;
static bool on_host;           /* the device is a CPU: f32, and fast */
static int32_t late_rank = -1; /* whose copies are slow */
static bool with_timeline;     /* runs record their spans */
static uint64_t last_bits;     /* of the results of run_on_devices */

enum { DEVICES = 4 };
static char device_names[DEVICES][16];

/* 16 bits leave carried states, which the rows of a CPU do not: there the oracles' device stands for others. */
/* NCCL wants one for each rank. */
static const char *device_of_rank(const ga_dist_desc *d, int32_t rank, int32_t devices) {
  const char *way = getenv("GA_DIST_COPIES");
  const int32_t n = way && !strcmp(way, "nccl") ? DEVICES : devices;
  return on_host && d->dtype != GA_F32 ? "ref" : device_names[rank % n];
}

/* Rounding to 16 bits is most of it; both devices sum in f32. */
static double most_error(const ga_dist_desc *d) {
  return d->dtype == GA_BF16 ? 1.2e-2 : d->dtype == GA_F16 ? 2e-3 : 4e-6;
}

/* Blocks go another way, which takes buffers besides. */
static bool takes_buffers(void) {
  const char *way = getenv("GA_DIST_COPIES"), *peers = getenv("GA_PEER");
  return (way && *way && strcmp(way, "peer") != 0) || (peers && !strcmp(peers, "off"));
}

static void start_jobs(rank_job *jobs, const ga_dist_desc *d, int32_t ranks, int32_t devices) {
  for (int32_t r = 0; r < ranks; r++) {
    jobs[r].device = device_of_rank(d, r, devices);
    jobs[r].on_device = true;
    jobs[r].runs = late_rank >= 0 ? 4 : on_host ? 2 : 1; /* of the emulator's time a rehearsal takes as much */
    jobs[r].copy_ms = on_host && r == late_rank ? 10 : 0;
    jobs[r].zeros_first = late_rank >= 0;
    jobs[r].timeline = with_timeline;
  }
}

static void check_sent(const ga_dist_plan *plan, const rank_job *jobs, int32_t ranks, const char *what) {
  for (int32_t r = 0; r < ranks; r++) {
    ga_dist_cost cost = GA_DIST_COST_INIT;
    assert_int_equal(ga_dist_plan_cost(plan, r, &cost), GA_OK);
    if (jobs[r].sent != (uint64_t)jobs[r].runs * (uint64_t)cost.sent_bytes)
      fail_msg("%s: rank %d sent %llu bytes in %d runs; the plan says %lld in one", what, r,
               (unsigned long long)jobs[r].sent, jobs[r].runs, (long long)cost.sent_bytes);
    if (takes_buffers()) continue;
    if (jobs[r].device_bytes > cost.device_bytes + 64 || jobs[r].device_bytes < cost.device_bytes)
      fail_msg("%s: rank %d took %lld bytes of its device; the plan says %lld", what, r,
               (long long)jobs[r].device_bytes, (long long)cost.device_bytes);
  }
}

static void run_on_devices(const dist_setup *s, const char *what, int32_t devices) {
  ga_dist_plan *plan = NULL, *plans[RANKS_MOST];
  if (ga_dist_plan_create(&s->desc, &plan) != GA_OK) fail_msg("%s: %s", what, ga_error_text());
  if (ga_dist_plan_verify(plan, NULL) != GA_OK) fail_msg("%s: %s", what, ga_error_text());
  const int32_t ranks = ga_dist_plan_ranks(plan);
  for (int32_t r = 0; r < ranks; r++) plans[r] = plan;
  tensors t = make_tensors(&s->desc, 5, NULL);
  oracle_batch(&s->desc, &t);
  rank_job jobs[RANKS_MOST] = {0};
  start_jobs(jobs, &s->desc, ranks, devices);
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  how.ranks = ranks, how.timeout = 100;
  if (!run_ranks(plans, &s->desc, &t, &how, jobs))
    for (int32_t r = 0; r < ranks; r++)
      if (jobs[r].status != GA_OK) fail_msg("%s: rank %d: %s", what, r, jobs[r].text);
  const double e = worst_of_all(&s->desc, &t);
  if (!(e < most_error(&s->desc))) fail_msg("%s: error %g; at most %g", what, e, most_error(&s->desc));
  check_sent(plan, jobs, ranks, what);
  last_bits = bits_of_all(&t, &s->desc);
  free_tensors(&t);
  ga_dist_plan_destroy(plan);
}

static dist_setup start_device_case(const dist_case *c, const char *method, int32_t ranks, uint32_t pass) {
  dist_setup s = start_dist_case(c, method, 0, ranks, on_host ? 8 : 4, 2);
  s.desc.flags |= pass;
  s.desc.dtype = on_host && ranks % 2 ? GA_F32 : GA_BF16;
  if (!on_host) s.desc.head_dim = s.desc.v_dim = 16;
  return s;
}

static void check_method_on(const char *method, const dist_case *c, int32_t ranks, int32_t devices, uint32_t pass) {
  if (!dist_case_fits(c, method)) return;
  char what[160];
  (void)snprintf(what, sizeof what, "%s, %d ranks on %d devices, %s, %s", method, ranks, devices, c->name,
                 pass ? "backward" : "forward");
  if (getenv("GA_TEST_VERBOSE")) (void)fprintf(stderr, "%s\n", what);
  dist_setup s = start_device_case(c, method, ranks, pass);
  run_on_devices(&s, what, devices);
  end_dist_case(&s);
}

/* Every method, forward and backward; a sample leaves most of it out. */
static void test_methods_on_devices(void **state) {
  (void)state;
  static const int32_t host_ranks[] = {1, 2, 3, 4, 6, 8};
  const char *name;
  for (int m = 0; (name = ga_dist_method_name((size_t)m)) != NULL; m++)
    for (int r = 0; r < (on_host ? 6 : 2); r++)
      for (int c = 0; c < (on_host ? DIST_CASES : 1); c++)
        for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
          const bool sample = on_host ? (7 * m + 5 * r + 3 * c + (int)pass) % 11 == 0 : m % 6 == 0 && r == 0 && !pass;
          const int32_t ranks = on_host ? host_ranks[r] : 2 + 2 * r;
          /* The emulator's time: of two ranks one pass of each method; of four both. */
          const bool all = run_everything && (on_host || ranks > 2 || (m + (int)(pass / GA_DIST_BACKWARD)) % 2 == 0);
          with_timeline = (m + r) % 2;
          if (all || sample) check_method_on(name, &dist_cases[c], ranks, on_host ? 1 : ranks, pass);
        }
  with_timeline = false;
}

static void test_bad_peer_word(void **state) {
  (void)state;
  if (takes_buffers()) skip(); /* it is not read then */
  rank_job jobs[RANKS_MOST] = {0};
  ga_dist_plan *plan = NULL, *plans[RANKS_MOST];
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  dist_setup s = start_device_case(&dist_cases[0], "llama3", 2, 0);
  tensors t = make_tensors(&s.desc, 5, NULL);
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  for (int32_t r = 0; r < 2; r++) plans[r] = plan;
  how.ranks = 2, how.timeout = 100;
  start_jobs(jobs, &s.desc, 2, on_host ? 1 : 2);
  setenv("GA_PEER", "no", 1);
  assert_false(run_ranks(plans, &s.desc, &t, &how, jobs));
  unsetenv("GA_PEER");
  for (int r = 0; r < 2; r++) assert_non_null(strstr(jobs[r].text, "GA_PEER is 'no'; allowed: auto, off"));
  free_tensors(&t);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
}

/* Masks and documents, and more ranks than devices. */
static void test_cases(void **state) {
  (void)state;
  if (on_host || !run_everything) return;
  for (int c = 1; c < DIST_CASES; c++) check_method_on("zigzag", &dist_cases[c], 3, 2, 0);
  check_method_on("balanced", &dist_cases[4], 3, 1, GA_DIST_BACKWARD);
  check_method_on("ulysses", &dist_cases[2], 2, 1, GA_DIST_BACKWARD);
}

/* Sinks, slopes and f32 where keys are gathered, over masks and documents. */
static void test_features(void **state) {
  (void)state;
  for (int c = 0; c < DIST_CASES; c++)
    for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
      const uint32_t alibi = dist_cases[c].flags & GA_DIST_CAUSAL ? (uint32_t)GA_DIST_ALIBI : 0u;
      const bool sample = c == 0 ? !pass : c == 4 && pass;
      if (!on_host && !sample && !run_everything) continue;
      dist_setup s = start_device_case(&dist_cases[c], "llama3", 3, pass | GA_DIST_SINKS | alibi);
      s.desc.dtype = GA_F32;
      run_on_devices(&s, dist_cases[c].name, on_host ? 1 : 2);
      end_dist_case(&s);
    }
}

/* Two groups of heads, on two streams. The tensors stay: the second run is recorded, where the device can. */
static void test_groups(void **state) {
  (void)state;
  for (int c = 0; c < DIST_CASES; c++)
    for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
      if (!on_host && !run_everything && (c || pass)) continue;
      if (!on_host && c && (c + (int)(pass / GA_DIST_BACKWARD)) % 2) continue; /* one pass of each further case */
      dist_setup s = start_device_case(&dist_cases[c], "llama3", 3, pass);
      ga_dist_grid grid = GA_DIST_GRID_INIT;
      grid.groups = 2;
      s.desc.grid = &grid;
      late_rank = 1, with_timeline = true;
      run_on_devices(&s, dist_cases[c].name, on_host ? 1 : 3);
      late_rank = -1, with_timeline = false;
      end_dist_case(&s);
    }
}

/* Ranks that have all tokens of some heads: one or two groups of them, each order of tokens, windows that leave rows
 * without keys. */
static void check_split_heads(const dist_case *c, int32_t order, int32_t need, int32_t ranks, uint32_t flags) {
  char what[160];
  const int32_t kv_heads = (on_host ? 2 : 1 + order % 2) * ranks;
  (void)snprintf(what, sizeof what, "%s, split heads, order %d, need %d, %d ranks, flags %u", c->name, order, need,
                 ranks, flags);
  dist_setup s = start_dist_case(c, "ulysses", order, ranks, 2 * kv_heads, kv_heads);
  ga_dist_grid grid = GA_DIST_GRID_INIT;
  grid.need = need, grid.groups = kv_heads / ranks;
  s.desc.grid = &grid, s.desc.flags |= flags;
  s.desc.dtype = on_host && ranks % 2 ? GA_F32 : GA_BF16;
  if (!on_host) s.desc.head_dim = s.desc.v_dim = 16;
  if (getenv("GA_TEST_VERBOSE")) (void)fprintf(stderr, "%s\n", what);
  late_rank = on_host && order == GA_DIST_CONTIGUOUS && ranks == 3 ? 1 : -1, with_timeline = order % 2;
  run_on_devices(&s, what, on_host ? 1 : ranks);
  late_rank = -1, with_timeline = false;
  end_dist_case(&s);
}

static void test_split_heads(void **state) {
  (void)state;
  static const int32_t orders[] = {GA_DIST_CONTIGUOUS, GA_DIST_ZIGZAG, GA_DIST_CHUNKS, GA_DIST_DOC_ZIGZAG,
                                   GA_DIST_DOCUMENTS};
  const char *const now = getenv("GA_DIST_COPIES");
  char *const before = now ? strdup(now) : NULL;
  for (int c = 0; c < DIST_CASES; c++)
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++)
      for (int32_t ranks = 2; ranks <= (on_host ? 5 : 2); ranks++)
        for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
          const size_t number = (size_t)c + 3 * o + (size_t)ranks + (pass ? 1 : 0);
          const uint32_t alibi = dist_cases[c].flags & GA_DIST_CAUSAL && number % 2 ? (uint32_t)GA_DIST_ALIBI : 0u;
          if (on_host ? !run_everything && number % 17 : number % (run_everything ? 7 : 20)) continue;
          if (on_host && number % 4 == 1) (void)setenv("GA_DIST_COPIES", "host", 1);
          check_split_heads(&dist_cases[c], orders[o], GA_DIST_SEND_ALL + (ranks + c) % 3, ranks, pass | alibi);
          if (before)
            (void)setenv("GA_DIST_COPIES", before, 1);
          else
            (void)unsetenv("GA_DIST_COPIES");
        }
  free(before);
}

/* Packed documents whose keys are gathered: calls of many stretches, and documents that are on one rank as a whole. */
static void check_packed_documents(const dist_case *c, int32_t order, int32_t need, int32_t ranks, uint32_t flags) {
  char what[160];
  (void)snprintf(what, sizeof what, "%s, order %d, need %d, %d ranks, flags %u", c->name, order, need, ranks, flags);
  dist_setup s = start_dist_case(c, "llama3", order, ranks, on_host ? 8 : 4, 2);
  ga_dist_grid grid = GA_DIST_GRID_INIT;
  grid.need = need, grid.groups = 1 + (int32_t)(flags & GA_DIST_BACKWARD ? 1 : ranks % 2);
  s.desc.grid = &grid, s.desc.flags |= flags;
  s.desc.dtype = on_host && ranks % 2 ? GA_F32 : GA_BF16;
  if (!on_host) s.desc.head_dim = s.desc.v_dim = 16;
  if (getenv("GA_TEST_VERBOSE")) (void)fprintf(stderr, "%s\n", what);
  with_timeline = ranks % 2;
  run_on_devices(&s, what, on_host ? 1 : ranks);
  with_timeline = false;
  end_dist_case(&s);
}

static void test_packed_documents(void **state) {
  (void)state;
  static const dist_case many = {
      "many documents", GA_DIST_CAUSAL, 0, 8, {40, 3, 0, 130, 17, 70, 1, 9}, {40, 3, 0, 130, 17, 70, 1, 9}, true};
  static const int32_t orders[] = {GA_DIST_CONTIGUOUS, GA_DIST_ZIGZAG, GA_DIST_CHUNKS, GA_DIST_DOC_ZIGZAG,
                                   GA_DIST_DOCUMENTS};
  for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
    check_packed_documents(&many, GA_DIST_DOCUMENTS, 0, 2, pass);
    if (on_host) check_packed_documents(&dist_two_long, GA_DIST_DOCUMENTS, 0, 4, pass);
    if (on_host || run_everything) check_packed_documents(&many, GA_DIST_DOC_ZIGZAG, 0, 2, pass);
    for (int c = 0; c < DIST_CASES; c++)
      for (size_t o = 0; o < sizeof orders / sizeof *orders; o++)
        for (int32_t ranks = 2; ranks <= 5; ranks++) {
          /* Of the emulator 2 and 3 ranks in turn: each case, order and pass, and both ranks with each of them. */
          if (dist_cases[c].documents == 1 || (!on_host && ranks != 2 + (c + (int32_t)o) % 2)) continue;
          if (!run_everything && (!on_host || (c + (int32_t)o + ranks) % 8)) continue;
          check_packed_documents(&dist_cases[c], orders[o], GA_DIST_SEND_ALL + (ranks + c) % 3, ranks, pass);
          if (on_host) check_packed_documents(&dist_cases[c], orders[o], 0, ranks, pass | GA_DIST_SINKS);
        }
  }
}

/* What a rank reads before it has come is of the run before, whose K and V were zeros. */
static void test_late_copies(void **state) {
  (void)state;
  static const char *const methods[] = {"llama3", "ring", "ulysses"};
  for (size_t m = 0; m < sizeof methods / sizeof *methods && on_host; m++)
    for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
      late_rank = 1;
      check_method_on(methods[m], &dist_cases[0], 3, 1, pass);
    }
  late_rank = -1;
}

static void compare_copies(const char *method, const dist_case *c, int32_t ranks, uint32_t pass) {
  static const char *const ways[] = {"peer", "host"};
  uint64_t bits[2];
  dist_exchange_cut(1000 * (size_t)(ranks - 2)); /* messages of many chunks, and of one */
  for (int w = 0; w < 2; w++) {
    (void)setenv("GA_DIST_COPIES", ways[w], 1);
    check_method_on(method, c, ranks, on_host ? 1 : ranks, pass);
    bits[w] = last_bits;
  }
  dist_exchange_cut(0);
  if (bits[0] != bits[1]) fail_msg("%s, %d ranks, %s, %s: other bits", method, ranks, c->name, pass ? "backward" : "");
}

/* Whichever way blocks go, results have the same bits. */
static void test_same_bits_either_way(void **state) {
  (void)state;
  static const char *const methods[] = {"llama3", "zigzag", "ulysses",   "distflash",
                                        "mesh",   "ring",   "wallfacer", "balanced"};
  const char *const now = getenv("GA_DIST_COPIES");
  char *const before = now ? strdup(now) : NULL; /* setenv takes what getenv gave */
  for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
    for (int c = 0; c < (on_host ? DIST_CASES : 1); c++)
      for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD)
        for (int32_t ranks = 2; ranks <= 4; ranks += 2) {
          const bool sample = on_host ? (m + 3 * (size_t)c + pass / GA_DIST_BACKWARD + (size_t)ranks / 2) % 8 == 0
                                      : m <= 1 && (ranks == 4) == (m == 0 && !pass);
          if (run_everything || sample) compare_copies(methods[m], &dist_cases[c], ranks, pass);
        }
  if (before)
    (void)setenv("GA_DIST_COPIES", before, 1);
  else
    (void)unsetenv("GA_DIST_COPIES");
  free(before);
}

/* A timeline changes no bits, and has what was done: dist_rig.c looks at it. */
static void test_timeline(void **state) {
  (void)state;
  static const char *const methods[] = {"llama3", "zigzag", "ulysses", "balanced"};
  for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
    for (int32_t ranks = 2; ranks <= (on_host ? 4 : 2); ranks += 2)
      for (uint32_t pass = 0; pass <= (on_host || m == 0 ? (uint32_t)GA_DIST_BACKWARD : 0u); pass += GA_DIST_BACKWARD) {
        if (!on_host && m > 1 && !run_everything) continue;
        uint64_t bits[2];
        for (int n = 0; n < 2; n++) {
          with_timeline = n;
          check_method_on(methods[m], &dist_cases[0], ranks, on_host ? 1 : ranks, pass);
          bits[n] = last_bits;
        }
        with_timeline = false;
        assert_true(bits[0] == bits[1]);
      }
}

/* --- processes --- */

/* A rank in a process of its own; what it says goes to `job`, which is shared. */
static pid_t start_process(rank_job *job, const char *run, int32_t ranks) {
  const pid_t pid = fork();
  if (pid) return pid;
  ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
  o.rank = job->rank, o.ranks = ranks, o.run = run, o.timeout = 60;
  job->status = ga_comm_processes_create(&o, &job->comm);
  if (job->status == GA_OK)
    (void)run_rank(job);
  else
    (void)snprintf(job->text, sizeof job->text, "%s", ga_error_text());
  _exit(0);
}

static void *memory_of_processes(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  return p;
}

enum { PROCESSES = 2 };

/* Two processes, each with an executor on a device. stop_at: of rank 1. */
typedef struct process_run {
  dist_setup s;
  ga_dist_plan *plan;
  tensors t;
  rank_job *jobs; /* [PROCESSES] */
} process_run;

static process_run run_processes(const char *method, uint32_t pass, int32_t stop_at, int32_t devices) {
  process_run x = {.s = start_device_case(&dist_cases[0], method, PROCESSES, pass)};
  pid_t pids[PROCESSES];
  char run[64];
  assert_int_equal(ga_dist_plan_create(&x.s.desc, &x.plan), GA_OK);
  x.t = make_tensors(&x.s.desc, 9, memory_of_processes((size_t)tensors_floats(&x.s.desc) * sizeof(float)));
  oracle_batch(&x.s.desc, &x.t);
  x.jobs = memory_of_processes(PROCESSES * sizeof *x.jobs);
  start_jobs(x.jobs, &x.s.desc, PROCESSES, devices);
  (void)snprintf(run, sizeof run, "test-device-%d-%s-%u-%d", (int)getpid(), method, pass, stop_at);
  for (int32_t r = 0; r < PROCESSES; r++) {
    x.jobs[r].plan = x.plan, x.jobs[r].t = &x.t, x.jobs[r].d = &x.s.desc, x.jobs[r].rank = r, x.jobs[r].runs = 2;
    x.jobs[r].status = GA_ERR_INTERNAL;
  }
  x.jobs[1].stop_at = stop_at;
  for (int32_t r = 0; r < PROCESSES; r++) pids[r] = start_process(&x.jobs[r], run, PROCESSES);
  for (int32_t r = 0; r < PROCESSES; r++) {
    int status;
    assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
  }
  return x;
}

static void end_processes(process_run *x) {
  (void)munmap(x->t.got_o, (size_t)tensors_floats(&x->s.desc) * sizeof(float));
  (void)munmap(x->jobs, PROCESSES * sizeof *x->jobs);
  free_tensors(&x->t);
  ga_dist_plan_destroy(x->plan);
  end_dist_case(&x->s);
}

/* On a device each, and both on one. */
static void test_processes(void **state) {
  (void)state;
  for (int32_t devices = 1; devices <= 2; devices++)
    for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
      if (pass && !run_everything && !on_host) continue;
      process_run x = run_processes("zigzag", pass, 0, devices);
      for (int32_t r = 0; r < PROCESSES; r++)
        if (x.jobs[r].status != GA_OK) fail_msg("%d devices, rank %d: %s", devices, r, x.jobs[r].text);
      const double e = worst_of_all(&x.s.desc, &x.t);
      if (!(e < most_error(&x.s.desc))) fail_msg("%d devices: error %g", devices, e);
      end_processes(&x);
    }
}

static void check_killed(const char *method) {
  const double begin = ga_seconds();
  process_run x = run_processes(method, 0, 4, 2);
  const rank_job *j = &x.jobs[0];
  assert_int_equal(j->status, GA_ERR_COMM);
  if (!strstr(j->text, "rank 1 has died")) fail_msg("%s: '%s' names no rank that has died", method, j->text);
  assert_true(j->ctx_works);
  for (int64_t i = 0; i < x.t.nq * x.s.desc.q_heads * x.s.desc.v_dim; i++) assert_true(x.t.got_o[i] == 0);
  for (int64_t i = 0; i < x.t.nq * x.s.desc.q_heads; i++) assert_true(x.t.got_lse[i] == 0);
  if (ga_seconds() - begin > 30) fail_msg("%s took %g s", method, ga_seconds() - begin);
  end_processes(&x);
}

/* A process is killed while the streams of the other wait for it. */
static void test_killed_on_device(void **state) {
  (void)state;
  check_killed("ring");
  check_killed("ulysses");
}

static void check_long_run(int32_t ranks, double timeout, int32_t copy_ms, int32_t event_ms) {
  dist_setup s = start_device_case(&dist_cases[0], "ring", ranks, 0);
  ga_dist_plan *plan = NULL, *plans[RANKS_MOST];
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  for (int32_t r = 0; r < ranks; r++) plans[r] = plan;
  tensors t = make_tensors(&s.desc, 5, NULL);
  rank_job jobs[RANKS_MOST] = {0};
  start_jobs(jobs, &s.desc, ranks, 1);
  for (int32_t r = 0; r < ranks; r++) jobs[r].copy_ms = copy_ms, jobs[r].event_ms = event_ms, jobs[r].runs = 1;
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  how.ranks = ranks, how.timeout = timeout;
  if (!run_ranks(plans, &s.desc, &t, &how, jobs))
    for (int32_t r = 0; r < ranks; r++)
      if (jobs[r].status != GA_OK) fail_msg("rank %d: %s", r, jobs[r].text);
  if (jobs[0].seconds < 1.2 * timeout) fail_msg("a run of %g s tells nothing", jobs[0].seconds);
  free_tensors(&t);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
}

/* The timeout is of a wait, not of a run: that may take longer, as long as it comes on. */
static void test_long_run(void **state) {
  (void)state;
  if (on_host) check_long_run(8, 1, 100, 0);
}

/* Through host memory a copy waits for what its own device computes before it, which is no wait for others. */
static void test_long_tiles(void **state) {
  (void)state;
  if (!on_host) return;
  const char *const now = getenv("GA_DIST_COPIES");
  char *const before = now ? strdup(now) : NULL;
  (void)setenv("GA_DIST_COPIES", "host", 1);
  check_long_run(3, 0.4, 0, 600);
  if (before)
    (void)setenv("GA_DIST_COPIES", before, 1);
  else
    (void)unsetenv("GA_DIST_COPIES");
  free(before);
}

/* Memory ends at any point of a rank's life: all ranks end, with an error or with what is right. */
static void test_ranks_out_of_memory(void **state) {
  (void)state;
  static const char *const methods[] = {"zigzag", "llama3"};
  for (size_t m = 0; m < sizeof methods / sizeof *methods && on_host; m++)
    for (long n = 1, good = 0; !good; n += 1 + n / 8) {
      dist_setup s = start_device_case(&dist_cases[0], methods[m], 2, GA_DIST_BACKWARD);
      ga_dist_plan *plan = NULL;
      assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
      tensors t = make_tensors(&s.desc, 5, NULL);
      oracle_batch(&s.desc, &t);
      ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
      how.ranks = 2, how.timeout = 60;
      ga_comm *comms[2];
      pthread_t threads[2];
      rank_job jobs[RANKS_MOST] = {0};
      assert_int_equal(ga_comm_threads_create(&how, comms), GA_OK);
      start_jobs(jobs, &s.desc, 2, 1);
      ga_mem_fail_after(n);
      for (int32_t r = 0; r < 2; r++) {
        jobs[r].plan = plan, jobs[r].comm = comms[r], jobs[r].t = &t, jobs[r].d = &s.desc, jobs[r].rank = r;
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
      }
      for (int32_t r = 0; r < 2; r++) (void)pthread_join(threads[r], NULL);
      ga_mem_fail_after(0);
      good = jobs[0].status == GA_OK && jobs[1].status == GA_OK;
      for (int32_t r = 0; r < 2; r++)
        if (jobs[r].status != GA_OK && jobs[r].status != GA_ERR_NOMEM && jobs[r].status != GA_ERR_COMM)
          fail_msg("%s, allocation %ld, rank %d: %d: %s", methods[m], n, r, jobs[r].status, jobs[r].text);
      if (good && !(worst_of_all(&s.desc, &t) < most_error(&s.desc)))
        fail_msg("%s, allocation %ld: wrong", methods[m], n);
      free_tensors(&t);
      ga_dist_plan_destroy(plan);
      end_dist_case(&s);
    }
}

/* --- what a device does not do --- */

static void test_refused(void **state) {
  (void)state;
  static const struct {
    uint32_t flags;
    int32_t dtype, partial_dtype;
    const char *text;
    const char *method;
    bool full;
  } all[] = {{GA_DIST_SINKS, GA_BF16, GA_F32, "plans with sinks or ALiBi run on a cpu context", "ring", false},
             {GA_DIST_ALIBI, GA_BF16, GA_F32, "plans with sinks or ALiBi run on a cpu context", "ring", false},
             {GA_DIST_ALIBI, GA_BF16, GA_F32, "ALiBi without a causal mask runs on a cpu context", "llama3", true},
             {0, GA_BF16, GA_BF16, "partial_dtype is bf16", "llama3", false},
             {0, GA_F32, GA_F32, "dtype is f32; allowed on emu:", "ring", false}};
  for (size_t i = 0; i < sizeof all / sizeof *all - on_host; i++) {
    dist_setup s = start_device_case(&dist_cases[0], all[i].method, 2, all[i].flags);
    if (all[i].full) s.desc.flags &= ~(uint32_t)GA_DIST_CAUSAL;
    s.desc.dtype = all[i].dtype, s.desc.partial_dtype = all[i].partial_dtype;
    ga_dist_plan *plan = NULL, *plans[2];
    assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
    plans[0] = plans[1] = plan;
    tensors t = make_tensors(&s.desc, 5, NULL);
    rank_job jobs[RANKS_MOST] = {0};
    start_jobs(jobs, &s.desc, 2, 2);
    ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
    how.ranks = 2, how.timeout = 60;
    assert_false(run_ranks(plans, &s.desc, &t, &how, jobs));
    for (int r = 0; r < 2; r++)
      if (!strstr(jobs[r].text, all[i].text) && !strstr(jobs[!r].text, all[i].text))
        fail_msg("'%s' lacks '%s'", jobs[r].text, all[i].text);
    free_tensors(&t);
    ga_dist_plan_destroy(plan);
    end_dist_case(&s);
  }
}

static void test_killed_through_the_host(void **state) {
  setenv("GA_PEER", "off", 1);
  test_killed_on_device(state);
  unsetenv("GA_PEER");
}

int main(int argc, char **argv) {
  run_everything = argc > 1 && !strcmp(argv[1], "full");
  on_host = !strcmp(GA_TEST_DEVICE, "cpu");
  if (!on_host) (void)setenv("GA_EMU", "devices=4,graphs", 0);
  for (int i = 0; i < DEVICES; i++)
    (void)snprintf(device_names[i], sizeof device_names[i], on_host ? "%s" : "%s:%d", GA_TEST_DEVICE, i);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_killed_on_device), /* processes first: a fork takes along what threads have made */
      cmocka_unit_test(test_killed_through_the_host),
      cmocka_unit_test(test_processes),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_methods_on_devices),
      cmocka_unit_test(test_bad_peer_word),
      cmocka_unit_test(test_same_bits_either_way),
      cmocka_unit_test(test_timeline),
      cmocka_unit_test(test_cases),
      cmocka_unit_test(test_late_copies),
      cmocka_unit_test(test_features),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_packed_documents),
      cmocka_unit_test(test_split_heads),
      cmocka_unit_test(test_ranks_out_of_memory),
      cmocka_unit_test(test_long_run),
      cmocka_unit_test(test_long_tiles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
