/* Distributed attention over processes: the oracle's results, the threads' bits, the plan's bytes; what all ranks say
 * when one is killed, stopped, missing, or has another plan. Usage: test_dist_processes [full] */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "comm/comm_processes.h"
#include "tests/dist_rig.h"

static bool run_everything;

/* What a rank tells the test, in memory that both have. */
typedef struct told {
  _Atomic int32_t has_met;
  ga_status status;
  uint64_t sent;
  double seconds;
  bool ctx_works;
  char text[512];
} told;

typedef struct group {
  const ga_dist_desc *d; /* [ranks], or one for all */
  bool one_desc;
  int32_t ranks, runs;
  uint32_t flags;
  double start_timeout;
  tensors *t;
  told *told;
  void (*before)(int32_t rank); /* in the rank's process, before it meets the others */
  pid_t pids[RANKS_MOST];
  char run[64];
} group;

static void *memory_of_all(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  return p;
}

static ga_status live_as_rank(group *g, int32_t rank, told *out) {
  ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
  o.rank = rank, o.ranks = g->ranks, o.run = g->run, o.flags = g->flags, o.start_timeout = g->start_timeout;
  o.timeout = 60; /* what the watchdog finds does not wait for this */
  if (g->before) g->before(rank);
  ga_comm *comm = NULL;
  ga_status status = ga_comm_processes_create(&o, &comm);
  if (status != GA_OK) {
    (void)snprintf(out->text, sizeof out->text, "%s", ga_error_text());
    return status;
  }
  out->has_met = 1;
  const ga_dist_desc *d = g->one_desc ? g->d : &g->d[rank];
  ga_dist_plan *plan = NULL;
  status = ga_dist_plan_create(d, &plan);
  rank_job job = {.plan = plan, .comm = comm, .t = g->t, .d = d, .rank = rank, .runs = g->runs};
  if (status == GA_OK) (void)run_rank(&job);
  ga_dist_plan_destroy(plan);
  (void)snprintf(out->text, sizeof out->text, "%s", job.text);
  out->sent = job.sent, out->ctx_works = job.ctx_works;
  return job.status;
}

static void start_group(group *g) {
  static int number;
  (void)snprintf(g->run, sizeof g->run, "test-%d-%d", (int)getpid(), number++);
  g->told = memory_of_all((size_t)g->ranks * sizeof *g->told);
  if (g->start_timeout == 0) g->start_timeout = 60;
  for (int32_t r = 0; r < g->ranks; r++) {
    g->pids[r] = fork();
    assert_true(g->pids[r] >= 0);
    if (g->pids[r]) continue;
    (void)alarm(120); /* whatever happens, no process stays */
    const double begin = ga_seconds();
    g->told[r].status = live_as_rank(g, r, &g->told[r]);
    g->told[r].seconds = ga_seconds() - begin;
    _exit(g->told[r].status == GA_OK ? 0 : 1);
  }
}

static void end_group(group *g) {
  for (int32_t r = 0; r < g->ranks; r++) (void)waitpid(g->pids[r], NULL, 0);
}

static void let_go(group *g) { (void)munmap(g->told, (size_t)g->ranks * sizeof *g->told); }

static tensors shared_tensors(const ga_dist_desc *d, uint64_t seed) {
  return make_tensors(d, seed, memory_of_all((size_t)(tensors_floats(d) + 1) * sizeof(float)));
}

static void free_shared(const ga_dist_desc *d, tensors *t) {
  (void)munmap(t->got_o, (size_t)(tensors_floats(d) + 1) * sizeof(float));
  free_tensors(t);
}

/* --- right results --- */

static uint64_t bits_of_threads(const ga_dist_desc *d, uint64_t seed) {
  ga_dist_plan *plan = NULL, *plans[RANKS_MOST];
  assert_int_equal(ga_dist_plan_create(d, &plan), GA_OK);
  const int32_t ranks = ga_dist_plan_ranks(plan);
  for (int32_t r = 0; r < ranks; r++) plans[r] = plan;
  tensors t = make_tensors(d, seed, NULL);
  oracle_batch(d, &t);
  rank_job jobs[RANKS_MOST] = {0};
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  how.ranks = ranks, how.timeout = 60;
  assert_true(run_ranks(plans, d, &t, &how, jobs));
  const uint64_t bits = bits_of_all(&t, d);
  free_tensors(&t);
  ga_dist_plan_destroy(plan);
  return bits;
}

static void check_processes(const dist_case *c, const char *method, int32_t ranks, uint32_t pass, int32_t dtype,
                            uint32_t flags) {
  if (!dist_case_fits(c, method)) return;
  char what[128];
  (void)snprintf(what, sizeof what, "%s, %d ranks, %s, pass %u, type %d", method, ranks, c->name, pass, dtype);
  dist_setup s = start_dist_case(c, method, 0, ranks, 8, 2);
  s.desc.flags |= pass, s.desc.dtype = dtype;
  tensors t = shared_tensors(&s.desc, 5);
  oracle_batch(&s.desc, &t);
  group g = {.d = &s.desc, .one_desc = true, .ranks = ranks, .t = &t, .flags = flags};
  start_group(&g);
  end_group(&g);
  ga_dist_plan *plan = NULL;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  for (int32_t r = 0; r < ranks; r++) {
    ga_dist_cost cost = GA_DIST_COST_INIT;
    assert_int_equal(ga_dist_plan_cost(plan, r, &cost), GA_OK);
    if (g.told[r].status != GA_OK) fail_msg("%s: rank %d: %s", what, r, g.told[r].text);
    assert_int_equal(g.told[r].sent, 2 * cost.sent_bytes);
  }
  const double e = worst_of_all(&s.desc, &t);
  if (!(e < (dtype == GA_BF16 ? 6e-3 : 4e-6))) fail_msg("%s: error %g", what, e);
  if (bits_of_all(&t, &s.desc) != bits_of_threads(&s.desc, 5)) fail_msg("%s: other bits than threads", what);
  ga_dist_plan_destroy(plan);
  let_go(&g);
  free_shared(&s.desc, &t);
  end_dist_case(&s);
}

static void test_right(void **state) {
  (void)state;
  static const int32_t counts[] = {2, 4, 8};
  check_processes(&dist_cases[0], "zigzag", 2, GA_DIST_BACKWARD, GA_BF16, 0);
  check_processes(&dist_cases[4], "ulysses", 4, 0, 0, GA_COMM_BUFFERED);
  check_processes(&dist_cases[0], "ring", 1, 0, 0, 0);
  const char *name;
  for (int m = 0; run_everything && (name = ga_dist_method_name((size_t)m)) != NULL; m++)
    for (int r = 0; r < 3; r++)
      for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD)
        check_processes(&dist_cases[(m + 3 * r + (int)pass) % DIST_CASES], name, counts[r], pass,
                        (m + r) % 2 ? GA_BF16 : 0, r % 2 ? GA_COMM_BUFFERED : 0);
}

/* --- collectives --- */

/* Values whose sum in f32 depends on the order, and one result for all ranks. */
static ga_status check_collectives(ga_comm *comm, float *sums, int64_t n) {
  const int32_t rank = ga_comm_rank(comm), ranks = ga_comm_size(comm);
  float x[40], part[40];
  int32_t all[RANKS_MOST], mine = 100 + rank;
  for (int64_t i = 0; i < n; i++) sums[i] = x[i] = (rank % 2 ? -1.0F : 1.0F) * (1e8F + (float)(rank * i));
  ga_status status = ga_comm_all_gather(comm, &mine, sizeof mine, all);
  for (int32_t r = 0; r < ranks && status == GA_OK; r++)
    if (all[r] != 100 + r) return ga_error_set(GA_ERR_INTERNAL, "all_gather: %d of rank %d", all[r], r);
  if (status == GA_OK) status = ga_comm_reduce_scatter(comm, x, n, part);
  if (status == GA_OK) status = ga_comm_all_reduce(comm, sums, n);
  for (int64_t i = n * rank / ranks, begin = i; i < n * (rank + 1) / ranks && status == GA_OK; i++) {
    double want = 0;
    for (int32_t r = 0; r < ranks; r++) want += (double)((r % 2 ? -1.0F : 1.0F) * (1e8F + (float)(r * i)));
    if (part[i - begin] != (float)want || sums[i] != part[i - begin])
      return ga_error_set(GA_ERR_INTERNAL, "sum %d: %g, %g; should be %g", (int)i, (double)part[i - begin],
                          (double)sums[i], want);
  }
  return status;
}

static void test_collectives(void **state) {
  (void)state;
  static const int32_t counts[] = {1, 2, 3, 5};
  static const int64_t lengths[] = {0, 1, 40};
  for (int i = 0; i < 12; i++) {
    const int32_t ranks = counts[i % 4];
    const int64_t n = lengths[i / 4];
    float *sums = memory_of_all(sizeof(float[5][40]));
    told *told_of = memory_of_all(5 * sizeof(told));
    char run[64];
    pid_t pids[5];
    (void)snprintf(run, sizeof run, "sum-%d-%d", (int)getpid(), i);
    for (int32_t r = 0; r < ranks; r++) {
      pids[r] = fork();
      if (pids[r]) continue;
      (void)alarm(120);
      ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
      o.rank = r, o.ranks = ranks, o.run = run, o.timeout = o.start_timeout = 60;
      ga_comm *comm = NULL;
      told_of[r].status = ga_comm_processes_create(&o, &comm);
      if (told_of[r].status == GA_OK) told_of[r].status = check_collectives(comm, sums + 40 * r, n);
      (void)snprintf(told_of[r].text, sizeof told_of[r].text, "%s", ga_error_text());
      ga_comm_destroy(comm);
      _exit(0);
    }
    for (int32_t r = 0; r < ranks; r++) (void)waitpid(pids[r], NULL, 0);
    for (int32_t r = 0; r < ranks; r++) {
      if (told_of[r].status != GA_OK) fail_msg("%d ranks, %d numbers, rank %d: %s", ranks, (int)n, r, told_of[r].text);
      assert_memory_equal(sums + 40 * r, sums, (size_t)n * sizeof *sums);
    }
    (void)munmap(sums, sizeof(float[5][40])), (void)munmap(told_of, 5 * sizeof(told));
  }
}

/* --- what goes wrong --- */

typedef enum harm { HARM_KILL, HARM_STOP } harm;

/* Rank `victim` is killed or stopped while all run again and again; each other one ends in time, and says why. */
static void check_harm(harm how, int32_t victim, double moment) {
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 4, 8, 2);
  tensors t = shared_tensors(&s.desc, 5);
  oracle_batch(&s.desc, &t);
  group g = {.d = &s.desc, .one_desc = true, .ranks = 4, .t = &t, .runs = 1 << 30};
  start_group(&g);
  for (int32_t r = 0; r < 4; r++)
    while (!g.told[r].has_met && waitpid(g.pids[r], NULL, WNOHANG) == 0)
      (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  (void)nanosleep(&(struct timespec){.tv_nsec = (long)(moment * 1e9)}, NULL);
  assert_int_equal(kill(g.pids[victim], how == HARM_KILL ? SIGKILL : SIGSTOP), 0);
  const double begin = ga_seconds();
  for (int32_t r = 0; r < 4; r++)
    if (r != victim) (void)waitpid(g.pids[r], NULL, 0);
  const double seconds = ga_seconds() - begin;
  char said[64];
  (void)snprintf(said, sizeof said, how == HARM_KILL ? "rank %d has died" : "rank %d stands still", victim);
  for (int32_t r = 0; r < 4; r++) {
    if (r == victim) continue;
    if (!strstr(g.told[r].text, said)) fail_msg("rank %d says '%s', not '%s'", r, g.told[r].text, said);
    assert_true(g.told[r].ctx_works);
  }
  if (seconds >= 5) fail_msg("the ranks took %g s to end", seconds);
  if (how == HARM_STOP) { /* when it goes on it ends, too */
    assert_int_equal(kill(g.pids[victim], SIGCONT), 0);
    int status = 0;
    assert_int_equal(waitpid(g.pids[victim], &status, 0), g.pids[victim]);
    assert_true(WIFEXITED(status) && strstr(g.told[victim].text, said));
  } else {
    (void)waitpid(g.pids[victim], NULL, 0);
  }
  for (int64_t i = 0; i < t.nq * s.desc.q_heads * s.desc.v_dim; i++) assert_true(t.got_o[i] == 0); /* no half result */
  let_go(&g);
  free_shared(&s.desc, &t);
  end_dist_case(&s);
}

static void test_killed(void **state) {
  (void)state;
  check_harm(HARM_KILL, 2, 0.05);
  for (int32_t victim = 0; run_everything && victim < 4; victim++) check_harm(HARM_KILL, victim, 0.013 * victim);
}

static void test_stopped(void **state) {
  (void)state;
  for (int32_t victim = 0; run_everything && victim < 3; victim++) check_harm(HARM_STOP, victim, 0.017 * victim);
}

static void check_told(const group *g, int32_t not_rank, const char *said) {
  for (int32_t r = 0; r < g->ranks; r++) {
    if (r == not_rank) continue;
    assert_true(g->told[r].status != GA_OK);
    if (!strstr(g->told[r].text, said)) fail_msg("rank %d says '%s', not '%s'", r, g->told[r].text, said);
  }
}

static void test_other_plan_of_a_process(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 3, 8, 2);
  ga_dist_desc d[3] = {s.desc, s.desc, s.desc};
  d[1].method = "zigzag-direct";
  tensors t = shared_tensors(&s.desc, 5);
  group g = {.d = d, .ranks = 3, .t = &t};
  start_group(&g);
  end_group(&g);
  check_told(&g, -1, "plan hash is");
  let_go(&g);
  free_shared(&s.desc, &t);
  end_dist_case(&s);
}

/* --- ranks that do not meet --- */

static void rank_1_dies(int32_t rank) {
  if (rank == 1) _exit(3);
}
static void rank_0_dies(int32_t rank) {
  if (rank == 0) _exit(3);
}
/* Leaves room for n file descriptors more. */
static void allow_descriptors(int n) {
  const int next = dup(0);
  struct rlimit limit;
  assert_true(next >= 0);
  (void)close(next);
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = (rlim_t)(next + n);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}
/* The socket is all that rank 1 may open: the descriptor of the memory is lost on its way. */
static void no_descriptors(int32_t rank) {
  if (rank == 1) allow_descriptors(1);
}
static void no_large_files(int32_t rank) {
  if (rank == 0) (void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, 1 << 20});
}

static void check_start(void (*before)(int32_t), int32_t not_rank, const char *said) {
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 3, 8, 2);
  tensors t = shared_tensors(&s.desc, 5);
  group g = {.d = &s.desc, .one_desc = true, .ranks = 3, .t = &t, .before = before, .start_timeout = 0.4};
  if (before == no_large_files || before == no_descriptors) g.start_timeout = 60;
  start_group(&g);
  end_group(&g);
  check_told(&g, not_rank, said);
  for (int32_t r = 0; r < g.ranks; r++) assert_true(g.told[r].seconds < 10);
  let_go(&g);
  free_shared(&s.desc, &t);
  end_dist_case(&s);
}

static void test_missing(void **state) {
  (void)state;
  check_start(rank_1_dies, 1, "rank 0 waited 0.4 s; 1 of 3 ranks did not come: 1");
  check_start(rank_0_dies, 0, "waited 0.4 s for rank 0, which did not come");
  check_start(no_large_files, -1, "no shared memory: the limit of a file's size (ulimit -f) is 1048576 bytes");
}

/* All ranks end at once, not after the minute that they may wait. */
static void test_lost_memory(void **state) {
  (void)state;
  check_start(no_descriptors, -1, "rank 1 lost the descriptor of the shared memory; may it open more files");
}

/* Two processes that say they are rank 1, and two rank counts. */
static void test_two_of_a_rank(void **state) {
  (void)state;
  for (int second = 0; second < 2; second++) {
    told *told_of = memory_of_all(3 * sizeof(told));
    char run[64];
    (void)snprintf(run, sizeof run, "twice-%d-%d", (int)getpid(), second);
    pid_t pids[3];
    for (int32_t r = 0; r < 3; r++) {
      pids[r] = fork();
      if (pids[r]) continue;
      ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
      o.rank = r == 2 && !second ? 1 : r, o.ranks = r == 2 && second ? 4 : 3, o.run = run, o.start_timeout = 60;
      ga_comm *comm = NULL;
      told_of[r].status = ga_comm_processes_create(&o, &comm);
      (void)snprintf(told_of[r].text, sizeof told_of[r].text, "%s", ga_error_text());
      ga_comm_destroy(comm);
      _exit(0);
    }
    for (int r = 0; r < 3; r++) (void)waitpid(pids[r], NULL, 0);
    const char *said = second ? "rank 2 was started with 4 ranks and rank 0 with 3" : "a second process is rank 1";
    for (int r = 0; r < 3; r++) {
      assert_int_equal(told_of[r].status, GA_ERR_COMM);
      if (!strstr(told_of[r].text, said)) fail_msg("process %d says '%s', not '%s'", r, told_of[r].text, said);
    }
    (void)munmap(told_of, 3 * sizeof(told));
  }
}

static void test_process_arguments(void **state) {
  (void)state;
  enum { N = 8 };
  static const char *const said[N] = {"ranks is 0; must be 1 to 256",
                                      "rank is 2; must be 0 to 1",
                                      "run is null",
                                      "run is empty",
                                      "flags 0x8 are unknown",
                                      "timeout is -1 s",
                                      "start_timeout is 1e+06 s",
                                      "message_bytes is 1; must be 4096 to 2^40"};
  ga_comm_process_options o[N];
  for (int i = 0; i < N; i++) {
    o[i] = (ga_comm_process_options)GA_COMM_PROCESS_OPTIONS_INIT;
    o[i].ranks = 2, o[i].run = "x";
  }
  o[0].ranks = 0, o[1].rank = 2, o[2].run = NULL, o[3].run = "", o[4].flags = 8, o[5].timeout = -1;
  o[6].start_timeout = 1e6, o[7].message_bytes = 1;
  for (int i = 0; i < N; i++) {
    ga_comm *comm = NULL;
    assert_int_equal(ga_comm_processes_create(&o[i], &comm), GA_ERR_ARG);
    if (!strstr(ga_error_text(), said[i])) fail_msg("'%s' does not say '%s'", ga_error_text(), said[i]);
    assert_null(comm);
  }
}

/* --- launchers --- */

static const char *const variables[] = {"GA_RANK",      "GA_RANKS",       "GA_RUN",
                                        "RANK",         "WORLD_SIZE",     "LOCAL_WORLD_SIZE",
                                        "SLURM_PROCID", "SLURM_NTASKS",   "OMPI_COMM_WORLD_RANK",
                                        "SLURM_JOB_ID", "SLURM_STEP_ID",  "OMPI_COMM_WORLD_SIZE",
                                        "MASTER_ADDR",  "MASTER_PORT",    "TORCHELASTIC_RUN_ID",
                                        "GA_LAUNCHER",  "PMIX_NAMESPACE", "TORCHELASTIC_RESTART_COUNT"};

static void set_only(const char *const (*pairs)[2]) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) (void)unsetenv(variables[i]);
  for (; (*pairs)[0]; pairs++) (void)setenv((*pairs)[0], (*pairs)[1], 1);
}

static void test_places(void **state) {
  (void)state;
  const struct {
    const char *set[8][2];
    int32_t rank, ranks;
    const char *launcher, *run, *said; /* said: NULL = it is found */
  } cases[] = {
      {{{NULL}}, 0, 1, "", "", NULL},
      {{{"GA_RANK", "1"}, {"GA_RANKS", "3"}, {"GA_RUN", "r"}}, 1, 3, "ga", "r", NULL},
      {{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}},
       5,
       8,
       "torchrun",
       "h.29500",
       NULL},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "1"}},
       0,
       2,
       "srun",
       "7.1",
       NULL},
      {{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "n"}},
       1,
       2,
       "mpirun",
       "n",
       NULL},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}},
       0,
       0,
       "",
       "",
       "RANK and WORLD_SIZE are set by torchrun, SLURM_PROCID and SLURM_NTASKS by srun"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"GA_LAUNCHER", "torchrun"}},
       1,
       2,
       "torchrun",
       "",
       NULL},
      {{{"RANK", "1"}}, 0, 0, "", "", "WORLD_SIZE is not set"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, 0, 0, "", "", "RANK is '2'; must be a whole number from 0 to 1"},
      {{{"RANK", "x"}, {"WORLD_SIZE", "2"}}, 0, 0, "", "", "RANK is 'x'"},
      {{{"GA_LAUNCHER", "pdsh"}}, 0, 0, "", "", "GA_LAUNCHER is 'pdsh'; must be ga, torchrun, mpirun or srun"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    set_only(cases[i].set);
    ga_comm_place p = GA_COMM_PLACE_INIT;
    const ga_status status = ga_comm_place_find(&p);
    if (cases[i].said) {
      assert_int_equal(status, GA_ERR_ARG);
      if (!strstr(ga_error_text(), cases[i].said)) fail_msg("'%s' does not say '%s'", ga_error_text(), cases[i].said);
      continue;
    }
    if (status != GA_OK) fail_msg("case %zu: %s", i, ga_error_text());
    assert_int_equal(p.rank, cases[i].rank);
    assert_int_equal(p.ranks, cases[i].ranks);
    assert_string_equal(p.launcher, cases[i].launcher);
    assert_string_equal(p.run, cases[i].run);
  }
}

/* Names that are longer than their room, and differ at their ends only. */
static void test_long_names(void **state) {
  (void)state;
  char long_run[201] = "";
  memset(long_run, 'r', sizeof long_run - 1);
  static const char *const counts[] = {"0", "1"};
  ga_comm_place p[2] = {GA_COMM_PLACE_INIT, GA_COMM_PLACE_INIT};
  for (int i = 0; i < 2; i++) {
    const char *const set[][2] = {{"RANK", "0"},
                                  {"WORLD_SIZE", "2"},
                                  {"TORCHELASTIC_RUN_ID", long_run},
                                  {"TORCHELASTIC_RESTART_COUNT", counts[i]},
                                  {NULL}};
    set_only(set);
    assert_int_equal(ga_comm_place_find(&p[i]), GA_OK);
    assert_int_equal(strlen(p[i].run), 16);
  }
  assert_string_not_equal(p[0].run, p[1].run);
  long_run[125] = 0; /* with ".1" the longest that fits */
  (void)setenv("TORCHELASTIC_RUN_ID", long_run, 1);
  assert_int_equal(ga_comm_place_find(&p[0]), GA_OK);
  assert_int_equal(strlen(p[0].run), 127);
  assert_int_equal(strncmp(p[0].run, long_run, 125), 0);
}

/* --- descriptors that ranks give each other --- */

static int open_descriptors(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  assert_non_null(d);
  while (readdir(d)) n++;
  (void)closedir(d);
  return n;
}

/* A message to rank 0 that no rank sends, with n descriptors; false: rank 0 has no socket yet. */
static bool send_as_stranger(const ga_comm *comm, int n) {
  const process_comm *c = (const process_comm *)(const void *)comm;
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(4 * sizeof(int))];
  } control = {.bytes = {0}};
  int fds[4] = {0, 0, 0, 0};
  char note[24] = "what no rank sends";
  struct iovec part = {note, sizeof note};
  const int bytes =
      snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "ga-fds-%u-%016llx-0", geteuid(), (unsigned long long)c->run_id);
  struct msghdr m = {.msg_name = &a,
                     .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes),
                     .msg_iov = &part,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int))};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET, h->cmsg_type = SCM_RIGHTS, h->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
  memcpy(CMSG_DATA(h), fds, (size_t)n * sizeof(int));
  const int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool sent = sendmsg(from, &m, MSG_DONTWAIT) == (ssize_t)sizeof note;
  (void)close(from);
  return sent;
}

/* The other rank writes into what it gets, among messages of strangers. */
static int trade_as_rank_1(const ga_comm_process_options *o) {
  ga_comm *comm = NULL;
  int fds[2];
  if (ga_comm_processes_create(o, &comm) != GA_OK) return 2;
  const double end = ga_seconds() + 20;
  while (!send_as_stranger(comm, 1) && ga_seconds() < end) (void)usleep(1000);
  if (!send_as_stranger(comm, 2) || !send_as_stranger(comm, 4)) return 3;
  if (comm->calls->trade_fds(comm, 0, fds) != GA_OK) return 4;
  if (write(fds[0], "here", 4) != 4) return 5;
  ga_comm_destroy(comm);
  return 0;
}

/* What strangers send is closed, however many descriptors come at once. */
static void test_descriptors(void **state) {
  (void)state;
  ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
  char run[64], seen[4] = "";
  int fds[2], status = 0;
  (void)snprintf(run, sizeof run, "test-fds-%d", (int)getpid());
  o.ranks = 2, o.run = run, o.timeout = 30;
  const pid_t pid = fork();
  if (!pid) {
    (void)alarm(60);
    o.rank = 1;
    _exit(trade_as_rank_1(&o));
  }
  ga_comm *comm = NULL;
  assert_int_equal(ga_comm_processes_create(&o, &comm), GA_OK);
  const int mine = memfd_create("mine", MFD_CLOEXEC), before = open_descriptors();
  if (comm->calls->trade_fds(comm, mine, fds) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(fds[0], -1);
  assert_int_equal(close(fds[1]), 0);
  const int after = open_descriptors();
  if (after != before) fail_msg("%d descriptors more are open", after - before);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_int_equal(pread(mine, seen, sizeof seen, 0), 4);
  assert_memory_equal(seen, "here", 4);
  (void)close(mine);
  ga_comm_destroy(comm);
}

/* Trades descriptors as one of two ranks, where rank 1 may open only its socket. Returns the status. */
static ga_status trade_in_full_table(const ga_comm_process_options *o, char *text, size_t capacity) {
  ga_comm *comm = NULL;
  int fds[2] = {7, 7};
  if (ga_comm_processes_create(o, &comm) != GA_OK) return GA_ERR_INTERNAL;
  if (o->rank == 1) allow_descriptors(1);
  const ga_status status = comm->calls->trade_fds(comm, 0, fds);
  (void)snprintf(text, capacity, "%s", ga_error_text());
  ga_comm_destroy(comm);
  return fds[0] == -1 && fds[1] == -1 ? status : GA_ERR_INTERNAL;
}

/* A rank's descriptor is lost on its way to another one: both end at once. */
static void test_lost_descriptor(void **state) {
  (void)state;
  told *both = memory_of_all(2 * sizeof(told));
  char run[64];
  ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
  (void)snprintf(run, sizeof run, "test-lost-%d", (int)getpid());
  o.ranks = 2, o.run = run, o.timeout = 60;
  pid_t pids[2];
  for (o.rank = 0; o.rank < 2; o.rank++) {
    pids[o.rank] = fork();
    if (pids[o.rank]) continue;
    (void)alarm(120);
    const double begin = ga_seconds();
    told *mine = &both[o.rank];
    mine->status = trade_in_full_table(&o, mine->text, sizeof mine->text);
    mine->seconds = ga_seconds() - begin;
    _exit(0);
  }
  for (int r = 0; r < 2; r++) (void)waitpid(pids[r], NULL, 0);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(both[r].status, GA_ERR_COMM);
    assert_true(both[r].seconds < 10);
    if (!strstr(both[r].text, "rank 1 lost the file descriptor that rank 0 sent")) fail_msg("%s", both[r].text);
  }
  (void)munmap(both, 2 * sizeof(told));
}

int main(int argc, char **argv) {
  run_everything = argc > 1 && !strcmp(argv[1], "full");
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_right),
                                     cmocka_unit_test(test_collectives),
                                     cmocka_unit_test(test_killed),
                                     cmocka_unit_test(test_stopped),
                                     cmocka_unit_test(test_other_plan_of_a_process),
                                     cmocka_unit_test(test_missing),
                                     cmocka_unit_test(test_lost_memory),
                                     cmocka_unit_test(test_lost_descriptor),
                                     cmocka_unit_test(test_two_of_a_rank),
                                     cmocka_unit_test(test_process_arguments),
                                     cmocka_unit_test(test_places),
                                     cmocka_unit_test(test_long_names),
                                     cmocka_unit_test(test_descriptors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
