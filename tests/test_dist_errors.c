/* Distributed attention: wrong arguments, and memory that runs out at any place. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/dist_cases.h"

static void refuses(ga_status got, ga_status want, const char *said) {
  assert_int_equal(got, want);
  if (!strstr(ga_error_text(), said)) fail_msg("'%s' does not say '%s'", ga_error_text(), said);
}

static void test_layout_arguments(void **state) {
  (void)state;
  const int64_t lengths[2] = {5, 7}, bad[2] = {5, -1};
  const ga_dist_layout_desc good = {sizeof good, GA_DIST_CONTIGUOUS, 2, 0, 2, lengths};
  ga_dist_layout *l = NULL;
  struct {
    ga_dist_layout_desc d;
    ga_status status;
    const char *said;
  } cases[] = {{good, GA_ERR_ARG, "order is 9; must be 1 to 7"},
               {good, GA_ERR_ARG, "ranks is 0; must be 1 to 4096"},
               {good, GA_ERR_ARG, "chunks is 2; must be 0 with order contiguous"},
               {good, GA_ERR_ARG, "chunks is 0; must be 1 to 1024"},
               {good, GA_ERR_ARG, "documents is 0"},
               {good, GA_ERR_ARG, "lengths is null"},
               {good, GA_ERR_SHAPE, "lengths[1] is -1"},
               {good, GA_ERR_ARG, "struct_size is 3"}};
  cases[0].d.order = 9, cases[1].d.ranks = 0, cases[2].d.chunks = 2, cases[3].d.order = GA_DIST_CHUNKS;
  cases[4].d.documents = 0, cases[5].d.lengths = NULL, cases[6].d.lengths = bad, cases[7].d.struct_size = 3;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    refuses(ga_dist_layout_create(&cases[i].d, &l), cases[i].status, cases[i].said);
    assert_null(l);
  }
  assert_int_equal(ga_dist_layout_create(&good, &l), GA_OK);
  refuses(ga_dist_layout_rows(l, 2, NULL, NULL), GA_ERR_ARG, "rank is 2; must be 0 to 1");
  refuses(ga_dist_permute(l, ga_dist_layout_id(l), 0, NULL, 1, NULL), GA_ERR_ARG, "is null");
  assert_int_equal(ga_dist_layout_tokens(l, 7), 0);
  ga_dist_layout_destroy(l);
  ga_dist_layout_destroy(NULL);
}

static void test_plan_arguments(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 4, 4, 2);
  dist_setup three = start_dist_case(&dist_cases[0], "zigzag", 0, 3, 4, 2);
  dist_setup documents = start_dist_case(&dist_cases[4], "zigzag", 0, 4, 4, 2);
  dist_setup stripes = start_dist_case(&dist_cases[0], "striped", 0, 4, 4, 2);
  ga_dist_plan *plan = NULL;
  enum { N = 20 };
  ga_dist_desc d[N];
  ga_dist_grid g[N];
  for (int i = 0; i < N; i++) d[i] = s.desc, g[i] = (ga_dist_grid)GA_DIST_GRID_INIT;
  const struct {
    ga_status status;
    const char *said;
  } want[N] = {{GA_ERR_ARG, "method is 'nobody'; allowed: ring,"},
               {GA_ERR_ARG, "q layout is null"},
               {GA_ERR_SHAPE, "layouts of 4 ranks (q) and 3 ranks (kv)"},
               {GA_ERR_SHAPE, "layouts of 1 documents (q) and 6 documents (kv)"},
               {GA_ERR_SHAPE, "the layout of kv is striped, the other is not"},
               {GA_ERR_SHAPE, "q_heads 5, kv_heads 2"},
               {GA_ERR_SHAPE, "head_dim 0, v_dim 6; must be 1 to 1024"},
               {GA_ERR_ARG, "flags 0x100 are unknown"},
               {GA_ERR_ARG, "window is -1; must be 0 (none)"},
               {GA_ERR_SHAPE, "their product must be the rank count, 4"},
               {GA_ERR_SHAPE, "kv_inner is 3; must divide kv, 4"},
               {GA_ERR_ARG, "move_kv is 4; must be 1 to 3"},
               {GA_ERR_ARG, "need is 4; must be 1 to 3"},
               {GA_ERR_ARG, "prefetch is 2000; must be 1 to 1024"},
               {GA_ERR_DTYPE, "dtype is q4_0 (20); must be f32, f16 or bf16"},
               {GA_ERR_DTYPE, "partial_dtype is f16 (2); must be f32 or dtype, bf16"},
               {GA_ERR_ARG, "softcap is -1, scale 0; must be finite and 0 or more"},
               {GA_ERR_SHAPE, "3 groups of heads; must be 1 to 8 and divide kv_heads, 2"},
               {GA_ERR_SHAPE, "-1 groups of heads; must be 1 to 8"},
               {GA_ERR_ARG, "reserved of the grid is 1; must be 0"}};
  d[0].method = "nobody", d[1].q = NULL, d[2].kv = three.kv, d[3].kv = documents.kv, d[4].kv = stripes.kv;
  d[5].q_heads = 5, d[6].head_dim = 0, d[7].flags = 0x100, d[8].window = -1;
  g[9].heads = 3, g[10].kv_inner = 3, g[11].move_kv = 4, g[12].need = 4, g[13].prefetch = 2000;
  d[14].dtype = GA_Q4_0, d[15].dtype = GA_BF16, d[15].partial_dtype = GA_F16, d[16].softcap = -1;
  g[17].groups = 3, g[18].groups = -1, g[19].reserved = 1;
  for (int i = 0; i < N; i++) {
    d[i].grid = &g[i];
    refuses(ga_dist_plan_create(&d[i], &plan), want[i].status, want[i].said);
    assert_null(plan);
  }
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  ga_dist_cost cost = GA_DIST_COST_INIT;
  ga_dist_stage stage = GA_DIST_STAGE_INIT;
  refuses(ga_dist_plan_cost(plan, 4, &cost), GA_ERR_ARG, "rank is 4; must be 0 to 3");
  refuses(ga_dist_plan_stage(plan, 0, 99, &stage), GA_ERR_ARG, "stage is 99; must be 0 to 3");
  char text[8] = "x";
  ga_dist_plan_step_text(plan, 0, 1000000, text, sizeof text);
  assert_string_equal(text, "");
  ga_dist_plan_destroy(plan);
  end_dist_case(&s), end_dist_case(&three), end_dist_case(&documents), end_dist_case(&stripes);
}

/* What a plan counts stays within 64 bits: shapes at the bounds are verified and have costs above 0, others refused. */
static void test_large_shapes(void **state) {
  (void)state;
  const struct {
    int64_t tokens;
    int32_t heads, dim;
    const char *said; /* NULL = it fits */
  } cases[] = {{(int64_t)1 << 40, 65536, 1024, "1099511627776 queries, 1099511627776 keys, 65536 heads"},
               {(int64_t)1 << 31, 1, 1, "must be below 2^62"},
               {((int64_t)1 << 31) - 1, 1, 1, NULL},
               {(int64_t)1 << 30, 4, 1, "must be below 2^62"},
               {(int64_t)1 << 22, 65536, 1024, "4194304 tokens, 65536 heads, head_dim 1024, v_dim 1024, 4096 ranks"},
               {(int64_t)1 << 22, 65536, 1024, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int32_t ranks = cases[i].said && strstr(cases[i].said, "4096 ranks") ? 4096 : 2;
    ga_dist_layout *l = layout_of_lengths(GA_DIST_ZIGZAG, ranks, 1, &cases[i].tokens);
    ga_dist_desc d = GA_DIST_DESC_INIT;
    ga_dist_plan *plan = NULL;
    d.q = l, d.q_heads = d.kv_heads = cases[i].heads, d.head_dim = cases[i].dim, d.flags = GA_DIST_BACKWARD;
    if (cases[i].said) {
      refuses(ga_dist_plan_create(&d, &plan), GA_ERR_SHAPE, cases[i].said);
      assert_null(plan);
    } else {
      const int64_t n = cases[i].tokens;
      ga_dist_cost cost[2] = {GA_DIST_COST_INIT, GA_DIST_COST_INIT};
      assert_int_equal(ga_dist_plan_create(&d, &plan), GA_OK);
      assert_int_equal(ga_dist_plan_verify(plan, NULL), GA_OK);
      for (int32_t r = 0; r < 2; r++) {
        assert_int_equal(ga_dist_plan_cost(plan, r, &cost[r]), GA_OK);
        assert_true(cost[r].sent_bytes > 0 && cost[r].memory_bytes > 0);
      }
      assert_true(cost[0].pairs + cost[1].pairs == n * n * cases[i].heads);
    }
    ga_dist_plan_destroy(plan);
    ga_dist_layout_destroy(l);
  }
}

/* Plans whose tables would take hours and all memory are refused before they begin. */
static void test_large_tables(void **state) {
  (void)state;
  const int64_t tokens = 1 << 20;
  const struct {
    const char *method;
    int32_t order, ranks, chunks;
    const char *said;
  } cases[] = {
      {"ulysses", GA_DIST_CONTIGUOUS, 4096, 0, "4096 ranks, grid of 4096 heads x 1 q x 1 kv: 68719476736 works"},
      {"balanced", GA_DIST_PIECES, 4096, 65, "4096 ranks x 266240 stretches; their product must be at most 2^30"},
      {"balanced", GA_DIST_PIECES, 64, 1024, "4294967296 pairs of stretches x 1 groups of heads; must be at most 2^26"},
      {"ring", GA_DIST_CHUNKS, 64, 1024, "4294967296 pairs of stretches x 1 groups of heads; must be at most 2^26"},
      {"ulysses", GA_DIST_CHUNKS, 16, 256, "16777216 pairs of stretches x 16 groups of heads; must be at most 2^26"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const ga_dist_layout_desc l = {sizeof l, cases[i].order, cases[i].ranks, cases[i].chunks, 1, &tokens};
    ga_dist_layout *layout = NULL;
    ga_dist_plan *plan = NULL;
    assert_int_equal(ga_dist_layout_create(&l, &layout), GA_OK);
    ga_dist_desc d = GA_DIST_DESC_INIT;
    d.method = cases[i].method, d.q = layout, d.q_heads = d.kv_heads = 4096, d.head_dim = 8;
    d.flags = GA_DIST_CAUSAL;
    refuses(ga_dist_plan_create(&d, &plan), GA_ERR_SHAPE, cases[i].said);
    assert_null(plan);
    ga_dist_layout_destroy(layout);
  }
}

static void test_comm_arguments(void **state) {
  (void)state;
  ga_comm *comm[2];
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  o.ranks = 0;
  refuses(ga_comm_threads_create(&o, comm), GA_ERR_ARG, "ranks is 0; must be 1 to 4096");
  o.ranks = 2, o.timeout = -1;
  refuses(ga_comm_threads_create(&o, comm), GA_ERR_ARG, "timeout is -1 s");
  o.timeout = 0, o.flags = 8;
  refuses(ga_comm_threads_create(&o, comm), GA_ERR_ARG, "flags 0x8 are unknown");
  o.flags = 0;
  assert_int_equal(ga_comm_threads_create(&o, comm), GA_OK);
  assert_int_equal(ga_comm_rank(comm[1]), 1);
  assert_int_equal(ga_comm_size(comm[1]), 2);
  ga_comm_abort(comm[0], "no reason");
  refuses(ga_comm_meet(comm[1], "x", 1), GA_ERR_COMM, "rank 0 gave up: no reason");
  ga_comm_destroy(comm[0]), ga_comm_destroy(comm[1]), ga_comm_destroy(NULL);
}

/* Of one rank. A wrong option ends the communicator. */
static void check_timeline_errors(const ga_dist_plan *plan, ga_ctx *ctx) {
  ga_dist_exec_options how = GA_DIST_EXEC_OPTIONS_INIT;
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  ga_dist_timeline t = GA_DIST_TIMELINE_INIT;
  ga_dist_span s = GA_DIST_SPAN_INIT;
  for (int32_t timeline = 0; timeline <= 2; timeline++) {
    ga_comm *comm = NULL;
    ga_dist_exec *exec = NULL;
    o.ranks = 1;
    assert_int_equal(ga_comm_threads_create(&o, &comm), GA_OK);
    how.timeline = timeline;
    if (timeline == 2) {
      refuses(ga_dist_exec_create_with(plan, comm, ctx, &how, &exec), GA_ERR_ARG, "timeline is 2; must be 0 or 1");
    } else {
      assert_int_equal(ga_dist_exec_create_with(plan, comm, ctx, &how, &exec), GA_OK);
      const char *const said = timeline ? "no run with a timeline has ended well" : "records no timeline";
      refuses(ga_dist_exec_timeline(exec, &t), GA_ERR_STATE, said);
      refuses(ga_dist_exec_span(exec, 0, &s), GA_ERR_STATE, said);
      refuses(ga_dist_exec_span(exec, 0, NULL), GA_ERR_ARG, "out is null");
    }
    ga_dist_exec_destroy(exec);
    ga_comm_destroy(comm);
  }
  refuses(ga_dist_exec_timeline(NULL, &t), GA_ERR_ARG, "exec is null");
  refuses(ga_dist_exec_span(NULL, 0, &s), GA_ERR_ARG, "exec is null");
}

/* A plan for 3 ranks with a communicator of 1, and a device that cannot run it. */
static void test_exec_arguments(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 3, 4, 2);
  ga_dist_plan *plan = NULL;
  ga_comm *comm = NULL;
  ga_ctx *ctx = NULL;
  ga_dist_exec *exec = NULL;
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  ga_ctx_options c = GA_CTX_OPTIONS_INIT;
  c.device = "cpu";
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  assert_int_equal(ga_comm_threads_create(&o, &comm), GA_OK);
  assert_int_equal(ga_ctx_create(&c, &ctx), GA_OK);
  refuses(ga_dist_exec_create(plan, comm, ctx, &exec), GA_ERR_ARG, "communicator has 1 ranks; the plan has 3");
  assert_null(exec);
  ga_comm_destroy(comm);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
  s = start_dist_case(&dist_cases[0], "zigzag", 0, 1, 4, 2);
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  assert_int_equal(ga_comm_threads_create(&o, &comm), GA_OK);
  ga_dist_exec_options how = GA_DIST_EXEC_OPTIONS_INIT;
  how.copies = "nccl";
  refuses(ga_dist_exec_create_with(plan, comm, ctx, &how, &exec), GA_ERR_UNSUPPORTED, "copies is 'nccl'; on cpu");
  assert_null(exec);
  ga_comm_destroy(comm);
  check_timeline_errors(plan, ctx);
  ga_ctx_destroy(ctx);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
}

typedef struct link_job {
  ga_comm *comm;
  int64_t bytes[2];
  double seconds[2];
  ga_status status;
  char text[512];
} link_job;

static void *time_links(void *arg) {
  link_job *j = arg;
  ga_ctx *ctx = NULL;
  ga_dist_link_options o = GA_DIST_LINK_OPTIONS_INIT;
  ga_ctx_options c = GA_CTX_OPTIONS_INIT;
  const char *copies = "none";
  c.device = "cpu", c.threads = 1;
  o.runs = 2;
  j->status = ga_ctx_create(&c, &ctx);
  if (j->status == GA_OK) j->status = ga_dist_link_times(j->comm, ctx, &o, j->bytes, 2, j->seconds, &copies);
  (void)snprintf(j->text, sizeof j->text, "%s", j->status == GA_OK ? copies : ga_error_text());
  ga_comm_destroy(j->comm);
  ga_ctx_destroy(ctx);
  return NULL;
}

/* second: of the other rank's sizes. */
static void time_two(int64_t second, link_job jobs[2]) {
  ga_comm *comms[2];
  pthread_t threads[2];
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  o.ranks = 2;
  assert_int_equal(ga_comm_threads_create(&o, comms), GA_OK);
  for (int r = 0; r < 2; r++) {
    jobs[r] = (link_job){.comm = comms[r], .bytes = {65537, r ? second : 1}};
    assert_int_equal(pthread_create(&threads[r], NULL, time_links, &jobs[r]), 0);
  }
  for (int r = 0; r < 2; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
}

static void test_link_times(void **state) {
  (void)state;
  link_job jobs[2];
  time_two(1, jobs);
  for (int r = 0; r < 2; r++) {
    if (jobs[r].status != GA_OK) fail_msg("%s", jobs[r].text);
    assert_string_equal(jobs[r].text, "");
    for (int i = 0; i < 2; i++) assert_true(jobs[r].seconds[i] > 0 && jobs[r].seconds[i] == jobs[0].seconds[i]);
  }
  time_two(2, jobs);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(jobs[r].status, GA_ERR_COMM);
    assert_non_null(strstr(jobs[r].text, "sizes and rounds of link times"));
  }
}

static void test_link_arguments(void **state) {
  (void)state;
  ga_comm *comms[2];
  ga_ctx *ctx;
  double seconds[64];
  const int64_t bytes[2] = {4096, 0};
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  ga_ctx_options c = GA_CTX_OPTIONS_INIT;
  ga_dist_link_options how = GA_DIST_LINK_OPTIONS_INIT;
  c.device = "cpu", c.threads = 1;
  assert_int_equal(ga_ctx_create(&c, &ctx), GA_OK);
  assert_int_equal(ga_comm_threads_create(&o, comms), GA_OK);
  refuses(ga_dist_link_times(comms[0], ctx, NULL, bytes, 1, seconds, NULL), GA_ERR_ARG, "of 1 rank; at least 2");
  ga_comm_destroy(comms[0]);
  o.ranks = 2;
  assert_int_equal(ga_comm_threads_create(&o, comms), GA_OK);
  refuses(ga_dist_link_times(comms[0], ctx, NULL, NULL, 1, seconds, NULL), GA_ERR_ARG, "is null");
  refuses(ga_dist_link_times(comms[0], ctx, NULL, bytes, 0, seconds, NULL), GA_ERR_ARG, "0 sizes; must be 1 to 64");
  refuses(ga_dist_link_times(comms[0], ctx, NULL, bytes, 2, seconds, NULL), GA_ERR_ARG, "size 1 is 0 bytes; must be 1");
  how.runs = 65;
  refuses(ga_dist_link_times(comms[0], ctx, &how, bytes, 1, seconds, NULL), GA_ERR_ARG, "65 rounds; must be 1 to 64");
  for (int r = 0; r < 2; r++) ga_comm_destroy(comms[r]);
  ga_ctx_destroy(ctx);
}

static void test_null_handles(void **state) {
  (void)state;
  assert_int_equal(ga_comm_rank(NULL), -1);
  assert_int_equal(ga_comm_size(NULL), 0);
  assert_true(ga_dist_layout_id(NULL) == 0);
  assert_int_equal(ga_dist_layout_ranks(NULL), 0);
  assert_int_equal(ga_dist_layout_tokens(NULL, -1), 0);
  assert_int_equal(ga_dist_layout_tokens(NULL, 0), 0);
  assert_true(ga_dist_plan_hash(NULL) == 0);
  assert_int_equal(ga_dist_plan_stages(NULL), 0);
  assert_int_equal(ga_dist_plan_ranks(NULL), 0);
  assert_true(ga_dist_exec_sent_bytes(NULL) == 0);
  assert_string_equal(ga_dist_exec_copies(NULL), "");
  assert_string_equal(ga_dist_exec_host_staged(NULL), "");
}

/* One rank's whole life. */
static ga_status one_life(void) {
  ga_dist_layout *layout = NULL;
  ga_dist_plan *plan = NULL;
  ga_comm *comm = NULL;
  ga_ctx *ctx = NULL;
  ga_dist_exec *exec = NULL;
  const int64_t lengths[] = {9, 4};
  float x[13 * 8] = {0}, o[13 * 8], lse[13 * 2];
  const ga_dist_layout_desc l = {sizeof l, GA_DIST_ZIGZAG, 1, 0, 2, lengths};
  ga_dist_desc d = GA_DIST_DESC_INIT;
  ga_comm_threads_options options = GA_COMM_THREADS_OPTIONS_INIT;
  ga_ctx_options c = GA_CTX_OPTIONS_INIT;
  c.device = "cpu", c.threads = 1;
  d.q_heads = 2, d.kv_heads = 1, d.head_dim = 4, d.flags = GA_DIST_CAUSAL;
  ga_status status = ga_dist_layout_create(&l, &layout);
  d.q = layout;
  if (status == GA_OK) status = ga_dist_plan_create(&d, &plan);
  if (status == GA_OK) status = ga_dist_plan_verify(plan, NULL);
  if (status == GA_OK) status = ga_comm_threads_create(&options, &comm);
  if (status == GA_OK) status = ga_ctx_create(&c, &ctx);
  if (status == GA_OK) status = ga_dist_exec_create(plan, comm, ctx, &exec);
  ga_dist_tensors t = GA_DIST_TENSORS_INIT;
  if (status == GA_OK) {
    t.q_layout = t.kv_layout = ga_dist_layout_id(layout);
    t.q = t.k = t.v = x, t.o = o, t.lse = lse;
    status = ga_dist_exec_run(exec, &t);
  }
  ga_dist_exec_destroy(exec);
  ga_comm_destroy(comm);
  ga_ctx_destroy(ctx);
  ga_dist_plan_destroy(plan);
  ga_dist_layout_destroy(layout);
  return status;
}

static void test_run_out_of_memory(void **state) {
  (void)state;
  int failed = 0;
  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; n < 400 && status != GA_OK; n++) {
    ga_mem_fail_after(n);
    status = one_life();
    ga_mem_fail_after(0);
    failed += status != GA_OK;
    if (status != GA_OK) assert_true(*ga_error_text());
  }
  assert_int_equal(status, GA_OK);
  assert_true(failed > 20);
}

/* Plans of four ranks for a mesh: the builder and the verifier meet the end of memory at each of their allocations. */
static void test_plan_out_of_memory(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[4], "mesh", 0, 4, 4, 4);
  s.desc.flags |= GA_DIST_BACKWARD;
  ga_status status = GA_ERR_NOMEM;
  int failed = 0;
  for (long n = 1; n < 400 && status != GA_OK; n++) {
    ga_dist_plan *plan = NULL;
    ga_mem_fail_after(n);
    status = ga_dist_plan_create(&s.desc, &plan);
    if (status == GA_OK) status = ga_dist_plan_verify(plan, NULL);
    ga_mem_fail_after(0);
    if (status != GA_OK) assert_int_equal(status, GA_ERR_NOMEM);
    failed += status != GA_OK;
    ga_dist_plan_destroy(plan);
  }
  assert_int_equal(status, GA_OK);
  assert_true(failed > 20);
  end_dist_case(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layout_arguments),  cmocka_unit_test(test_plan_arguments),
                                     cmocka_unit_test(test_large_shapes),      cmocka_unit_test(test_large_tables),
                                     cmocka_unit_test(test_comm_arguments),    cmocka_unit_test(test_exec_arguments),
                                     cmocka_unit_test(test_link_times),        cmocka_unit_test(test_link_arguments),
                                     cmocka_unit_test(test_null_handles),      cmocka_unit_test(test_run_out_of_memory),
                                     cmocka_unit_test(test_plan_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
