/* Runs of distributed attention over threads, against the oracle in double precision. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/comm.h"
#include "tests/dist_rig.h"

static bool run_everything; /* test_dist_run full: every method x ranks x case; else a sample */

/* One problem by one method: against the oracle, bytes against the plan, a second run in another order of arrival. */
static void check_run_of(const dist_setup *s, const char *what, uint64_t seed, tensors *t) {
  ga_dist_plan *plan = NULL, *plans[RANKS_MOST];
  if (ga_dist_plan_create(&s->desc, &plan) != GA_OK) fail_msg("%s: %s", what, ga_error_text());
  if (ga_dist_plan_verify(plan, NULL) != GA_OK) fail_msg("%s: %s", what, ga_error_text());
  const int32_t ranks = ga_dist_plan_ranks(plan);
  for (int32_t r = 0; r < ranks; r++) plans[r] = plan;
  uint64_t bits[2];
  for (int n = 0; n < 2; n++) {
    rank_job jobs[RANKS_MOST] = {0};
    ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
    how.ranks = ranks, how.seed = n ? seed + 77 : 0, how.flags = n ? 0 : GA_COMM_BUFFERED, how.timeout = 60;
    memset(t->got_o, 0xff, (size_t)tensors_floats(&s->desc) * sizeof *t->got_o); /* NaN: all is to be written */
    for (int32_t r = 0; r < ranks; r++) jobs[r].timeline = n;                    /* with the same bits */
    if (!run_ranks(plans, &s->desc, t, &how, jobs)) fail_msg("%s: %s", what, jobs[0].text);
    const double e = worst_of_all(&s->desc, t);
    const double most = s->desc.dtype == GA_BF16 ? 6e-3 : s->desc.dtype == GA_F16 ? 8e-4 : 4e-6;
    if (!(e < most)) fail_msg("%s: error %g; at most %g", what, e, most);
    bits[n] = bits_of_all(t, &s->desc);
    for (int32_t r = 0; r < ranks; r++) {
      ga_dist_cost cost = GA_DIST_COST_INIT;
      assert_int_equal(ga_dist_plan_cost(plan, r, &cost), GA_OK);
      assert_int_equal(jobs[r].sent, 2 * cost.sent_bytes);
    }
  }
  if (bits[0] != bits[1]) fail_msg("%s: two runs differ", what);
  ga_dist_plan_destroy(plan);
}

static void check_run(const dist_setup *s, const char *what, uint64_t seed) {
  tensors t = make_tensors(&s->desc, seed, NULL);
  oracle_batch(&s->desc, &t);
  check_run_of(s, what, seed, &t);
  free_tensors(&t);
}

/* Tensors and the oracle's results of one problem: the same for all methods and ranks. */
typedef struct kept_problem {
  const dist_case *c; /* NULL: none */
  uint32_t pass;
  int32_t q_heads;
  tensors t;
} kept_problem;

static void keep_problem(kept_problem *k, const dist_setup *s, const dist_case *c, uint32_t pass) {
  if (k->c == c && k->pass == pass && k->q_heads == s->desc.q_heads) return;
  if (k->c) free_tensors(&k->t);
  *k = (kept_problem){c, pass, s->desc.q_heads, make_tensors(&s->desc, 1, NULL)};
  oracle_batch(&s->desc, &k->t);
}

static void check_method(kept_problem *k, const char *method, const dist_case *c, int32_t ranks, uint32_t pass,
                         int32_t q_heads, int32_t kv_heads) {
  if (!dist_case_fits(c, method)) return;
  char what[160];
  (void)snprintf(what, sizeof what, "%s, %d ranks, %s, %d/%d heads, %s", method, ranks, c->name, q_heads, kv_heads,
                 pass ? "backward" : "forward");
  dist_setup s = start_dist_case(c, method, 0, ranks, q_heads, kv_heads);
  s.desc.flags |= pass;
  keep_problem(k, &s, c, pass);
  check_run_of(&s, what, 1 + (uint64_t)ranks, &k->t);
  end_dist_case(&s);
}

static void test_runs(void **state) {
  (void)state;
  static const int32_t all_ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16};
  const char *name;
  kept_problem kept = {.c = NULL};
  for (int c = 0; c < DIST_CASES; c++)
    for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD)
      for (int r = 0; r < 10; r++)
        for (int m = 0; (name = ga_dist_method_name((size_t)m)) != NULL; m++) {
          const bool sample = r < 8 && (7 * m + 5 * r + 3 * c + (int)pass) % 23 == 0;
          if (run_everything || sample)
            check_method(&kept, name, &dist_cases[c], all_ranks[r], pass, r > 7 ? 18 : 8, r > 7 ? 6 : 2);
        }
  if (kept.c) free_tensors(&kept.t);
}

/* Grids, moves, needs, orders and heads at random; groups of heads that begin within a head of keys, too. */
static void test_random_runs(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 21);
  static const char *const names[] = {"ring", "mesh", "usp", "balanced"};
  static const int32_t heads[][2] = {{8, 2}, {6, 6}, {7, 1}, {12, 4}};
  for (int n = 0; n < (run_everything ? 2000 : 60); n++) {
    const int32_t h = 1 + (int32_t)ga_rng_below(&rng, 3), q = 1 + (int32_t)ga_rng_below(&rng, 2),
                  inner = 1 + (int32_t)ga_rng_below(&rng, 2);
    const char *name = names[ga_rng_below(&rng, 4)];
    const bool table = name[0] == 'b';
    const int head = (int)ga_rng_below(&rng, 4);
    dist_setup s = start_dist_case(&dist_cases[ga_rng_below(&rng, DIST_CASES)], name,
                                   1 + (int32_t)ga_rng_below(&rng, 6), h * q * inner, heads[head][0], heads[head][1]);
    ga_dist_grid g = GA_DIST_GRID_INIT;
    if (!table) g.heads = h, g.q = q, g.kv = inner, g.kv_inner = 1 + (inner > 1 && ga_rng_below(&rng, 2));
    const uint64_t moves = table ? 2 : 3;
    g.move_q = 4 - (int32_t)moves + (int32_t)ga_rng_below(&rng, moves);
    g.move_kv = 4 - (int32_t)moves + (int32_t)ga_rng_below(&rng, moves);
    g.move_out = 4 - (int32_t)moves + (int32_t)ga_rng_below(&rng, moves);
    g.move_dkv = 4 - (int32_t)moves + (int32_t)ga_rng_below(&rng, moves);
    g.need = 1 + (int32_t)ga_rng_below(&rng, 3), g.prefetch = 1 + (int32_t)ga_rng_below(&rng, 3);
    s.desc.grid = &g;
    if (ga_rng_below(&rng, 2)) s.desc.flags |= GA_DIST_BACKWARD;
    static const int32_t types[] = {0, GA_F32, GA_BF16, GA_F16};
    s.desc.dtype = types[ga_rng_below(&rng, 4)];
    if (ga_rng_below(&rng, 2)) s.desc.flags |= GA_DIST_SINKS;
    if (ga_rng_below(&rng, 2)) s.desc.flags |= GA_DIST_ALIBI;
    if (ga_rng_below(&rng, 2)) s.desc.softcap = 2.5F;
    if (ga_rng_below(&rng, 2)) s.desc.scale = 0.4F;
    char what[200];
    (void)snprintf(what, sizeof what, "draw %d: %s %s %d x %d x %d (%d), moves %d %d %d %d, need %d, flags %u", n,
                   ga_dtype_name((ga_dtype)s.desc.dtype), name, h, q, inner, g.kv_inner, g.move_q, g.move_kv,
                   g.move_out, g.move_dkv, g.need, s.desc.flags);
    check_run(&s, what, 100 + (uint64_t)n);
    end_dist_case(&s);
  }
}

/* --- 16 bits --- */

typedef struct errors {
  double worst, mean;
} errors;

/* 16-bit runs of one problem: its oracle is worked out once. */
static dist_setup start_16_bits(const char *method, int32_t ranks, uint32_t pass, int32_t dtype) {
  static const dist_case c = {"causal", GA_DIST_CAUSAL, 0, 1, {256}, {256}, true};
  dist_setup s = start_dist_case(&c, method, 0, ranks, 4, 2);
  s.desc.dtype = dtype;
  s.desc.flags |= pass;
  return s;
}

static errors errors_of_run(tensors *t, const char *method, int32_t ranks, uint32_t pass, int32_t dtype,
                            int32_t partial_dtype) {
  dist_setup s = start_16_bits(method, ranks, pass, dtype);
  ga_dist_plan *plan = NULL, *plans[RANKS_MOST];
  s.desc.partial_dtype = partial_dtype;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  if (ga_dist_plan_verify(plan, NULL) != GA_OK) fail_msg("%s: %s", method, ga_error_text());
  for (int32_t r = 0; r < ranks; r++) plans[r] = plan;
  rank_job jobs[RANKS_MOST] = {0};
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  how.ranks = ranks, how.timeout = 60;
  if (!run_ranks(plans, &s.desc, t, &how, jobs)) fail_msg("%s: %s", method, jobs[0].text);
  const errors e = {worst_of_all(&s.desc, t), mean_error(&s.desc, t)};
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
  return e;
}

/* 16 ranks have at most 1.5 times the error of one. Partial results in 16 bits fail that, and are there to show it:
 * measured 2.0 times forward, 2.4 backward, where the others have 1.0. */
static void check_errors(uint32_t pass, int32_t dtype) {
  static const char *const names[] = {"zigzag", "ulysses", "tokenring", "zigzag-direct", "balanced"};
  dist_setup s = start_16_bits("zigzag", 1, pass, dtype);
  tensors t = make_tensors(&s.desc, 11, NULL);
  oracle_batch(&s.desc, &t);
  const errors one = errors_of_run(&t, "zigzag", 1, pass, dtype, GA_F32);
  for (int m = 0; m < (run_everything ? 5 : 1); m++) {
    const int32_t ranks = m == 1 ? 4 : 16; /* Ulysses: one for each head */
    const errors many = errors_of_run(&t, names[m], ranks, pass, dtype, GA_F32);
    if (!(many.worst <= 1.5 * one.worst && many.mean <= 1.5 * one.mean))
      fail_msg("%s, pass %u: errors %g, %g with %d ranks, %g, %g with one", names[m], pass, many.worst, many.mean,
               ranks, one.worst, one.mean);
  }
  const errors first = errors_of_run(&t, "zigzag", 1, pass, dtype, dtype),
               last = errors_of_run(&t, "zigzag", 16, pass, dtype, dtype);
  if (!(last.mean > 1.5 * first.mean))
    fail_msg("pass %u, partial results in 16 bits: error %g with 16 ranks, %g with one", pass, last.mean, first.mean);
  free_tensors(&t);
  end_dist_case(&s);
}

static void test_errors_do_not_grow(void **state) {
  (void)state;
  check_errors(0, GA_BF16);
  check_errors(GA_DIST_BACKWARD, GA_BF16);
  check_errors(0, GA_F16);
  check_errors(GA_DIST_BACKWARD, GA_F16);
}

/* --- what goes wrong --- */

typedef struct broken_run {
  rank_job jobs[RANKS_MOST];
  double seconds;
} broken_run;

/* Four ranks of zigzag, rank 2 does `stop_at`, or has another plan; each rank must end in time, with one text. */
static void check_broken(int32_t stop_at, bool other_plan, const char *said, double timeout) {
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 4, 4, 2);
  ga_dist_desc other = s.desc;
  other.method = "zigzag-direct";
  ga_dist_plan *plan = NULL, *second = NULL;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  assert_int_equal(ga_dist_plan_create(&other, &second), GA_OK);
  ga_dist_plan *plans[4] = {plan, plan, other_plan ? second : plan, plan};
  tensors t = make_tensors(&s.desc, 3, NULL);
  rank_job jobs[RANKS_MOST] = {0};
  jobs[2].stop_at = stop_at;
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  how.ranks = 4, how.timeout = timeout;
  assert_false(run_ranks(plans, &s.desc, &t, &how, jobs));
  for (int r = 0; r < 4; r++) {
    assert_true(jobs[r].seconds < 5);
    if (r == 2 && stop_at) continue;
    assert_true(jobs[r].status != GA_OK);
    assert_true(jobs[r].ctx_works);
    if (!strstr(jobs[r].text, said)) fail_msg("rank %d says '%s', not '%s'", r, jobs[r].text, said);
  }
  for (int64_t i = 0; i < t.nq * s.desc.q_heads * s.desc.v_dim; i++) assert_true(t.got_o[i] == 0);
  for (int64_t i = 0; i < t.nq * s.desc.q_heads; i++) assert_true(t.got_lse[i] == 0);
  free_tensors(&t);
  ga_dist_plan_destroy(plan), ga_dist_plan_destroy(second);
  end_dist_case(&s);
}

static void test_other_plan(void **state) {
  (void)state;
  check_broken(0, true, "plan hash is", 0);
}

static void test_rank_leaves(void **state) {
  (void)state;
  check_broken(1, false, "rank 2 is gone", 0);
}

static void test_rank_stalls(void **state) {
  (void)state;
  check_broken(2, false, "waited 0.2 s for rank", 0.2);
}

typedef struct meeting_rank {
  ga_comm *comm;
  uint64_t value;
  char text[256];
} meeting_rank;

static void *meet_with_value(void *arg) {
  meeting_rank *r = arg;
  if (ga_comm_meet(r->comm, "number", r->value) != GA_OK)
    (void)snprintf(r->text, sizeof r->text, "%s", ga_error_text());
  return NULL;
}

/* Both ranks are told whose value is which. */
static void test_values_differ(void **state) {
  (void)state;
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  how.ranks = 2, how.timeout = 5;
  ga_comm *comms[2];
  meeting_rank ranks[2] = {0};
  pthread_t threads[2];
  assert_int_equal(ga_comm_threads_create(&how, comms), GA_OK);
  for (int r = 0; r < 2; r++) {
    ranks[r] = (meeting_rank){.comm = comms[r], .value = r ? 0x77 : 0x55};
    assert_int_equal(pthread_create(&threads[r], NULL, meet_with_value, &ranks[r]), 0);
  }
  for (int r = 0; r < 2; r++) (void)pthread_join(threads[r], NULL);
  for (int r = 0; r < 2; r++) {
    if (!strstr(ranks[r].text, "number is 0000000000000077 on rank 1 and 0000000000000055 on rank 0"))
      fail_msg("rank %d: '%s'", r, ranks[r].text);
    ga_comm_destroy(comms[r]);
  }
}

/* Its own error on the rank that made it; on the others one of the communicator, with the same text. */
static void test_rank_gives_null(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 4, 4, 2);
  ga_dist_plan *plan = NULL;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  ga_dist_plan *plans[4] = {plan, plan, plan, plan};
  tensors t = make_tensors(&s.desc, 3, NULL);
  rank_job jobs[RANKS_MOST] = {0};
  jobs[2].stop_at = 3;
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  how.ranks = 4;
  assert_false(run_ranks(plans, &s.desc, &t, &how, jobs));
  for (int r = 0; r < 4; r++) {
    assert_int_equal(jobs[r].status, r == 2 ? GA_ERR_ARG : GA_ERR_COMM);
    assert_non_null(strstr(jobs[r].text, "q is null; rank 2 has rows of it"));
    if (r != 2) assert_non_null(strstr(jobs[r].text, "rank 2 gave up"));
  }
  free_tensors(&t);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
}

/* A sender that comes shortly before its receiver's deadline. */
typedef struct late_send {
  ga_comm *comm;
  const char *data;
  size_t bytes;
  ga_status status;
} late_send;

static void *run_late_send(void *arg) {
  late_send *x = arg;
  comm_ticket ticket;
  (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  x->status = x->comm->calls->send(x->comm, 0, x->data, x->bytes, &ticket);
  return NULL;
}

/* The deadline passes while a large message is copied: what is there when the lock is free again has not come too late.
 * Where the machine lets the sender sleep beyond the deadline, both sides fail. */
static void test_arrives_at_deadline(void **state) {
  (void)state;
  const size_t bytes = (size_t)96 << 20;
  char *data = malloc(bytes);
  assert_non_null(data);
  memset(data, 7, bytes);
  for (int n = 0; n < 5; n++) {
    ga_comm *comm[2];
    ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
    how.ranks = 2, how.timeout = 0.02;
    assert_int_equal(ga_comm_threads_create(&how, comm), GA_OK);
    late_send x = {.comm = comm[1], .data = data, .bytes = bytes};
    comm_ticket ticket;
    pthread_t thread;
    char *got = calloc(bytes, 1); /* untouched pages: the copy takes longer than what is left of the timeout */
    assert_non_null(got);
    assert_int_equal(pthread_create(&thread, NULL, run_late_send, &x), 0);
    ga_status status = comm[0]->calls->receive(comm[0], 1, got, bytes, &ticket);
    if (status == GA_OK) status = comm[0]->calls->wait(comm[0], &ticket);
    (void)pthread_join(thread, NULL);
    const bool came = got[bytes - 1] == 7;
    assert_int_equal(x.status, came ? GA_OK : GA_ERR_TIMEOUT);
    if (status != x.status) fail_msg("sent with %d, received with %d: %s", x.status, status, ga_error_text());
    free(got);
    ga_comm_destroy(comm[0]), ga_comm_destroy(comm[1]);
  }
  free(data);
}

/* Rows in another layout than the plan's are refused on every rank. */
static void test_other_layout(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 3, 4, 2);
  dist_setup other = start_dist_case(&dist_cases[0], "ring", 0, 3, 4, 2);
  ga_dist_plan *plan = NULL;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  ga_dist_plan *plans[3] = {plan, plan, plan};
  tensors t = make_tensors(&other.desc, 3, NULL);
  rank_job jobs[RANKS_MOST] = {0};
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  how.ranks = 3;
  assert_false(run_ranks(plans, &other.desc, &t, &how, jobs));
  for (int r = 0; r < 3; r++) assert_non_null(strstr(jobs[r].text, "q_layout is"));
  free_tensors(&t);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s), end_dist_case(&other);
}

int main(int argc, char **argv) {
  run_everything = argc > 1 && !strcmp(argv[1], "full");
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs),
                                     cmocka_unit_test(test_random_runs),
                                     cmocka_unit_test(test_errors_do_not_grow),
                                     cmocka_unit_test(test_other_plan),
                                     cmocka_unit_test(test_rank_leaves),
                                     cmocka_unit_test(test_rank_stalls),
                                     cmocka_unit_test(test_other_layout),
                                     cmocka_unit_test(test_values_differ),
                                     cmocka_unit_test(test_rank_gives_null),
                                     cmocka_unit_test(test_arrives_at_deadline)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
