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

#include "base/hash.h"
#include "base/rng.h"
#include "dist/comm.h"
#include "dist/plan.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "ref/ref.h"
#include "tests/dist_cases.h"

enum { RANKS_MOST = 16 };

/* Tensors of the whole batch, in the order of tokens. */
typedef struct tensors {
  int64_t nq, nk;
  double *q, *k, *v, *dout; /* what the ranks get, as doubles */
  double *o, *dq, *dk, *dv; /* the oracle's */
  float *lse;               /* [q_heads, nq] */
  float *got_o, *got_lse, *got_dq, *got_dk, *got_dv;
} tensors;

static double *doubles(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }
static float *floats(int64_t n) { return calloc((size_t)n + 1, sizeof(float)); }

static void free_tensors(tensors *t) {
  void *const all[] = {t->q,  t->k,   t->v,     t->dout,    t->o,      t->dq,     t->dk,
                       t->dv, t->lse, t->got_o, t->got_lse, t->got_dq, t->got_dk, t->got_dv};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Values that floats have. */
static void fill_floats(double *x, int64_t n, ga_rng *rng) {
  for (int64_t i = 0; i < n; i++) x[i] = (double)(float)ga_rng_normal(rng);
}

static tensors make_tensors(const ga_dist_desc *d, uint64_t seed) {
  tensors t = {.nq = ga_dist_layout_tokens(d->q, -1), .nk = ga_dist_layout_tokens(d->kv, -1)};
  const int64_t q = t.nq * d->q_heads * d->head_dim, o = t.nq * d->q_heads * d->v_dim,
                k = t.nk * d->kv_heads * d->head_dim, v = t.nk * d->kv_heads * d->v_dim;
  t.q = doubles(q), t.k = doubles(k), t.v = doubles(v), t.dout = doubles(o);
  t.o = doubles(o), t.dq = doubles(q), t.dk = doubles(k), t.dv = doubles(v), t.lse = floats(t.nq * d->q_heads);
  t.got_o = floats(o), t.got_lse = floats(t.nq * d->q_heads), t.got_dq = floats(q), t.got_dk = floats(k);
  t.got_dv = floats(v);
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  fill_floats(t.q, q, &rng), fill_floats(t.k, k, &rng), fill_floats(t.v, v, &rng), fill_floats(t.dout, o, &rng);
  return t;
}

/* The oracle, a document at a time. */
static void oracle_document(const ga_dist_desc *d, tensors *t, int64_t q0, int64_t nq, int64_t k0, int64_t nk) {
  ga_attn_desc f = GA_ATTN_DESC_INIT;
  f.max_q = nq, f.max_kv = nk, f.q_heads = d->q_heads, f.kv_heads = d->kv_heads, f.head_dim = d->head_dim;
  f.v_dim = d->v_dim, f.q_dtype = f.kv_dtype = f.o_dtype = GA_F64, f.window = (int32_t)d->window;
  f.flags = GA_ATTN_LSE | (d->flags & GA_DIST_CAUSAL ? GA_ATTN_CAUSAL : 0u), f.scale = 1 / sqrtf((float)d->head_dim);
  const int64_t hq = d->q_heads, hk = d->kv_heads, dim = d->head_dim, vd = d->v_dim;
  float *lse = floats(nq * hq);
  ga_attn_io io = {.q = t->q + q0 * hq * dim,
                   .k = t->k + k0 * hk * dim,
                   .v = t->v + k0 * hk * vd,
                   .o = t->o + q0 * hq * vd,
                   .lse = lse};
  io.q_stride = (ga_attn_strides){0, hq * dim, dim}, io.o_stride = (ga_attn_strides){0, hq * vd, vd};
  io.k_stride = (ga_attn_strides){0, hk * dim, dim}, io.v_stride = (ga_attn_strides){0, hk * vd, vd};
  assert_int_equal(ga_ref_attn(NULL, &f, &io, NULL, NULL), GA_OK);
  for (int64_t h = 0; h < hq; h++)
    for (int64_t i = 0; i < nq; i++) t->lse[h * t->nq + q0 + i] = lse[h * nq + i];
  ga_attn_bwd_desc b = GA_ATTN_BWD_DESC_INIT;
  b.max_q = nq, b.max_kv = nk, b.q_heads = d->q_heads, b.kv_heads = d->kv_heads, b.head_dim = d->head_dim;
  b.v_dim = d->v_dim, b.dtype = b.grad_dtype = GA_F64, b.window = (int32_t)d->window, b.scale = f.scale;
  b.flags = d->flags & GA_DIST_CAUSAL ? GA_ATTN_CAUSAL : 0u;
  ga_attn_bwd_io g = {.q = io.q,
                      .k = io.k,
                      .v = io.v,
                      .o = io.o,
                      .dout = t->dout + q0 * hq * vd,
                      .lse = lse,
                      .dq = t->dq + q0 * hq * dim,
                      .dk = t->dk + k0 * hk * dim,
                      .dv = t->dv + k0 * hk * vd};
  g.q_stride = g.dq_stride = io.q_stride, g.k_stride = g.dk_stride = io.k_stride;
  g.v_stride = g.dv_stride = io.v_stride, g.o_stride = g.dout_stride = io.o_stride;
  assert_int_equal(ga_ref_attn_bwd(NULL, &b, &g, NULL, NULL), GA_OK);
  free(lse);
}

static void oracle_batch(const ga_dist_desc *d, tensors *t) {
  const ga_dist_layout *q = d->q, *kv = d->kv;
  for (int64_t i = 0; i < q->documents; i++)
    oracle_document(d, t, q->doc_start[i], q->doc_start[i + 1] - q->doc_start[i], kv->doc_start[i],
                    kv->doc_start[i + 1] - kv->doc_start[i]);
}

/* --- ranks --- */

typedef struct rank_job {
  const ga_dist_plan *plan;
  ga_comm *comm;
  tensors *t;
  const ga_dist_desc *d;
  int32_t rank, stop_at; /* stop_at: 1 leaves before the run, 2 sleeps before it, 3 gives no q */
  const char *device;
  ga_status status;
  char text[512];
  uint64_t sent;
  double seconds;
  bool ctx_works; /* after a failure */
} rank_job;

/* Rows of a rank, as floats. */
static float *rows_of(const ga_dist_layout *l, int32_t rank, const double *all, int64_t width) {
  const int64_t n = ga_dist_layout_tokens(l, rank);
  double *rows = doubles(n * width);
  float *out = floats(n * width);
  if (ga_dist_permute(l, ga_dist_layout_id(l), rank, all, (size_t)width * sizeof *all, rows) == GA_OK)
    for (int64_t i = 0; i < n * width; i++) out[i] = (float)rows[i];
  free(rows);
  return out;
}

static bool put_rank_rows(const ga_dist_layout *l, int32_t rank, const float *rows, int64_t width, float *all) {
  return ga_dist_unpermute(l, ga_dist_layout_id(l), rank, rows, (size_t)width * sizeof *rows, all) == GA_OK;
}

static ga_status run_one_plan(rank_job *j, ga_ctx *ctx, const ga_dist_tensors *io) {
  ga_dist_exec *exec = NULL;
  ga_status status = ga_dist_exec_create(j->plan, j->comm, ctx, &exec);
  if (status == GA_OK && j->stop_at == 1) {
    ga_dist_exec_destroy(exec);
    return ga_error_set(GA_ERR_STATE, "left on purpose");
  }
  if (j->stop_at == 2) (void)nanosleep(&(struct timespec){.tv_nsec = 700000000}, NULL);
  if (status == GA_OK) status = ga_dist_exec_run(exec, io);
  if (status == GA_OK) status = ga_dist_exec_run(exec, io); /* the second run finds nothing of the first */
  if (status == GA_OK) j->sent = ga_dist_exec_sent_bytes(exec);
  ga_dist_exec_destroy(exec);
  return status;
}

static void run_with_rows(rank_job *j, ga_ctx *ctx) {
  const ga_dist_desc *d = j->d;
  const int64_t nq = ga_dist_layout_tokens(d->q, j->rank), nk = ga_dist_layout_tokens(d->kv, j->rank);
  const int64_t qw = (int64_t)d->q_heads * d->head_dim, ow = (int64_t)d->q_heads * d->v_dim,
                kw = (int64_t)d->kv_heads * d->head_dim, vw = (int64_t)d->kv_heads * d->v_dim;
  float *q = rows_of(d->q, j->rank, j->t->q, qw), *k = rows_of(d->kv, j->rank, j->t->k, kw),
        *v = rows_of(d->kv, j->rank, j->t->v, vw), *dout = rows_of(d->q, j->rank, j->t->dout, ow);
  float *o = floats(nq * ow), *lse = floats(nq * d->q_heads), *dq = floats(nq * qw), *dk = floats(nk * kw),
        *dv = floats(nk * vw), *columns = floats(nq * d->q_heads);
  const ga_dist_tensors io = {.struct_size = sizeof io,
                              .q_layout = ga_dist_layout_id(d->q),
                              .kv_layout = ga_dist_layout_id(d->kv),
                              .q = j->stop_at == 3 ? NULL : q,
                              .k = k,
                              .v = v,
                              .o = o,
                              .lse = lse,
                              .dout = dout,
                              .dq = dq,
                              .dk = dk,
                              .dv = dv};
  if (d->flags & GA_DIST_BACKWARD) { /* O and LSE are inputs: the oracle's */
    float *want = rows_of(d->q, j->rank, j->t->o, ow);
    memcpy(o, want, (size_t)(nq * ow) * sizeof *o);
    free(want);
    int64_t *token = calloc((size_t)nq + 1, sizeof *token);
    (void)!ga_dist_layout_rows(d->q, j->rank, token, NULL);
    for (int32_t h = 0; h < d->q_heads; h++)
      for (int64_t i = 0; i < nq; i++) lse[h * nq + i] = j->t->lse[h * j->t->nq + token[i]];
    free(token);
  }
  j->status = run_one_plan(j, ctx, &io);
  bool good = put_rank_rows(d->q, j->rank, o, ow, j->t->got_o) && put_rank_rows(d->q, j->rank, dq, qw, j->t->got_dq) &&
              put_rank_rows(d->kv, j->rank, dk, kw, j->t->got_dk) &&
              put_rank_rows(d->kv, j->rank, dv, vw, j->t->got_dv);
  for (int32_t h = 0; h < d->q_heads && good; h++)
    good = put_rank_rows(d->q, j->rank, lse + h * nq, 1, j->t->got_lse + h * j->t->nq);
  if (!good && j->status == GA_OK) j->status = GA_ERR_INTERNAL;
  float *const all[] = {q, k, v, dout, o, lse, dq, dk, dv, columns};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* A context is as good as new after a run that failed. */
static bool still_works(ga_ctx *ctx) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = 1, d.q_heads = d.kv_heads = 1, d.head_dim = 4;
  const float x[4] = {1, 2, 3, 4};
  float o[4] = {0};
  ga_attn_io io = {.q = x, .k = x, .v = x, .o = o};
  return ga_attn(ctx, &d, &io, NULL) == GA_OK && !memcmp(o, x, sizeof x);
}

static void *run_rank(void *arg) {
  rank_job *j = arg;
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = j->device, options.threads = 1;
  ga_ctx *ctx = NULL;
  struct timespec a, b;
  (void)clock_gettime(CLOCK_MONOTONIC, &a);
  j->status = ga_ctx_create(&options, &ctx);
  if (j->status == GA_OK) run_with_rows(j, ctx);
  if (j->status != GA_OK) (void)snprintf(j->text, sizeof j->text, "%s", ga_error_text());
  if (j->status != GA_OK && ctx) j->ctx_works = still_works(ctx);
  ga_comm_destroy(j->comm);
  ga_ctx_destroy(ctx);
  (void)clock_gettime(CLOCK_MONOTONIC, &b);
  j->seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
  return NULL;
}

/* plans[rank]; false and the jobs' texts when a rank fails. */
static bool run_ranks(ga_dist_plan *const *plans, const ga_dist_desc *d, tensors *t, const ga_comm_threads_options *how,
                      rank_job *jobs) {
  const int32_t ranks = how->ranks;
  ga_comm *comms[RANKS_MOST];
  pthread_t threads[RANKS_MOST];
  assert_int_equal(ga_comm_threads_create(how, comms), GA_OK);
  bool good = true;
  for (int32_t r = 0; r < ranks; r++) {
    jobs[r].plan = plans[r], jobs[r].comm = comms[r], jobs[r].t = t, jobs[r].d = d, jobs[r].rank = r;
    if (!jobs[r].device) jobs[r].device = "cpu";
    assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
  }
  for (int32_t r = 0; r < ranks; r++) {
    (void)pthread_join(threads[r], NULL);
    good = good && jobs[r].status == GA_OK;
  }
  return good;
}

/* --- comparing --- */

static double worst(const float *got, const double *want, int64_t n) {
  double most = 0, top = 1e-30;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(got[i])) return INFINITY;
    most = fmax(most, fabs((double)got[i] - want[i]));
    top = fmax(top, fabs(want[i]));
  }
  return n ? most / fmax(top, 1) : 0;
}

static double worst_lse(const tensors *t, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) {
    const bool none = t->lse[i] == -INFINITY;
    if (none != (t->got_lse[i] == -INFINITY)) return INFINITY;
    if (!none) most = fmax(most, fabs((double)t->got_lse[i] - (double)t->lse[i]));
  }
  return most;
}

static double worst_of_all(const ga_dist_desc *d, const tensors *t) {
  if (!(d->flags & GA_DIST_BACKWARD))
    return fmax(worst(t->got_o, t->o, t->nq * d->q_heads * d->v_dim), worst_lse(t, t->nq * d->q_heads));
  const double q = worst(t->got_dq, t->dq, t->nq * d->q_heads * d->head_dim),
               k = worst(t->got_dk, t->dk, t->nk * d->kv_heads * d->head_dim),
               v = worst(t->got_dv, t->dv, t->nk * d->kv_heads * d->v_dim);
  return fmax(q, fmax(k, v));
}

static uint64_t bits_of_all(const tensors *t, const ga_dist_desc *d) {
  uint64_t h = GA_FNV64_START;
  h = ga_fnv64(h, t->got_o, (size_t)(t->nq * d->q_heads * d->v_dim) * sizeof(float));
  h = ga_fnv64(h, t->got_lse, (size_t)(t->nq * d->q_heads) * sizeof(float));
  h = ga_fnv64(h, t->got_dq, (size_t)(t->nq * d->q_heads * d->head_dim) * sizeof(float));
  h = ga_fnv64(h, t->got_dk, (size_t)(t->nk * d->kv_heads * d->head_dim) * sizeof(float));
  return ga_fnv64(h, t->got_dv, (size_t)(t->nk * d->kv_heads * d->v_dim) * sizeof(float));
}

/* One problem by one method: against the oracle, bytes against the plan, a second run in another order of arrival. */
static void check_run(const dist_setup *s, const char *what, uint64_t seed) {
  ga_dist_plan *plan = NULL, *plans[RANKS_MOST];
  if (ga_dist_plan_create(&s->desc, &plan) != GA_OK) fail_msg("%s: %s", what, ga_error_text());
  if (ga_dist_plan_verify(plan, NULL) != GA_OK) fail_msg("%s: %s", what, ga_error_text());
  const int32_t ranks = ga_dist_plan_ranks(plan);
  for (int32_t r = 0; r < ranks; r++) plans[r] = plan;
  tensors t = make_tensors(&s->desc, seed);
  oracle_batch(&s->desc, &t);
  uint64_t bits[2];
  for (int n = 0; n < 2; n++) {
    rank_job jobs[RANKS_MOST] = {0};
    ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
    how.ranks = ranks, how.seed = n ? seed + 77 : 0, how.flags = n ? 0 : GA_COMM_BUFFERED, how.timeout = 60;
    if (!run_ranks(plans, &s->desc, &t, &how, jobs)) fail_msg("%s: %s", what, jobs[0].text);
    const double e = worst_of_all(&s->desc, &t);
    if (!(e < 4e-6)) fail_msg("%s: error %g", what, e);
    bits[n] = bits_of_all(&t, &s->desc);
    for (int32_t r = 0; r < ranks; r++) {
      ga_dist_cost cost = GA_DIST_COST_INIT;
      assert_int_equal(ga_dist_plan_cost(plan, r, &cost), GA_OK);
      assert_int_equal(jobs[r].sent, 2 * cost.sent_bytes);
    }
  }
  if (bits[0] != bits[1]) fail_msg("%s: two runs differ", what);
  free_tensors(&t);
  ga_dist_plan_destroy(plan);
}

static void check_method(const char *method, const dist_case *c, int32_t ranks, uint32_t pass, int32_t q_heads,
                         int32_t kv_heads) {
  if (!dist_case_fits(c, method)) return;
  char what[160];
  (void)snprintf(what, sizeof what, "%s, %d ranks, %s, %d/%d heads, %s", method, ranks, c->name, q_heads, kv_heads,
                 pass ? "backward" : "forward");
  dist_setup s = start_dist_case(c, method, 0, ranks, q_heads, kv_heads);
  s.desc.flags |= pass;
  check_run(&s, what, 1 + (uint64_t)ranks);
  end_dist_case(&s);
}

static bool run_everything; /* test_dist_run full: every method x ranks x case; else a sample */

static void test_runs(void **state) {
  (void)state;
  static const int32_t all_ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16};
  const char *name;
  for (int m = 0; (name = ga_dist_method_name((size_t)m)) != NULL; m++)
    for (int r = 0; r < 10; r++)
      for (int c = 0; c < DIST_CASES; c++)
        for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
          const bool sample = r < 8 && (7 * m + 5 * r + 3 * c + (int)pass) % 23 == 0;
          if (run_everything || sample)
            check_method(name, &dist_cases[c], all_ranks[r], pass, r > 7 ? 18 : 8, r > 7 ? 6 : 2);
        }
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
    char what[200];
    (void)snprintf(what, sizeof what, "draw %d: %s %d x %d x %d (%d), moves %d %d %d %d, need %d, flags %u", n, name, h,
                   q, inner, g.kv_inner, g.move_q, g.move_kv, g.move_out, g.move_dkv, g.need, s.desc.flags);
    check_run(&s, what, 100 + (uint64_t)n);
    end_dist_case(&s);
  }
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
  tensors t = make_tensors(&s.desc, 3);
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

/* Its own error on the rank that made it; on the others one of the communicator, with the same text. */
static void test_rank_gives_null(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 4, 4, 2);
  ga_dist_plan *plan = NULL;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  ga_dist_plan *plans[4] = {plan, plan, plan, plan};
  tensors t = make_tensors(&s.desc, 3);
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
  tensors t = make_tensors(&other.desc, 3);
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
                                     cmocka_unit_test(test_other_plan),
                                     cmocka_unit_test(test_rank_leaves),
                                     cmocka_unit_test(test_rank_stalls),
                                     cmocka_unit_test(test_other_layout),
                                     cmocka_unit_test(test_rank_gives_null),
                                     cmocka_unit_test(test_arrives_at_deadline)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
