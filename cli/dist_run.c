/* ga dist run: random tensors, each rank a thread, and the result beside that of one rank. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/dist.h"
#include "cli/error.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"

enum { MOST_RUN_RANKS = 64 };

/* Tensors of the whole batch: inputs, one rank's results, results of the ranks. */
typedef struct run_batch {
  int64_t nq, nk, q, o, k, v; /* tokens; floats of each tensor */
  float *in_q, *in_k, *in_v, *in_dout;
  float *o_one, *lse_one, *dq_one, *dk_one, *dv_one;
  float *o_all, *lse_all, *dq_all, *dk_all, *dv_all;
} run_batch;

typedef struct run_rank {
  const dist_task *t;
  const ga_dist_plan *plan;
  run_batch *b;
  ga_comm *comm;
  ga_status status;
  char text[512];
  uint64_t sent;
  double seconds;
} run_rank;

static double clock_seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ga_status new_floats(int64_t n, float **out) {
  *out = calloc((size_t)n + 1, sizeof **out);
  return *out ? GA_OK : fail_nomem("tensors", (size_t)n * sizeof **out);
}

/* Sums of uniform numbers, around 0: near enough to normal. */
static void fill_random(float *x, int64_t n, uint64_t seed) {
  for (int64_t i = 0; i < n; i++) {
    float sum = 0;
    for (int j = 0; j < 4; j++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      sum += (float)(seed >> 40) / 16777216.0f - 0.5f;
    }
    x[i] = sum * 1.7f;
  }
}

static void free_batch(run_batch *b) {
  float *const all[] = {b->in_q,   b->in_k,   b->in_v,  b->in_dout, b->o_one,  b->lse_one, b->dq_one,
                        b->dk_one, b->dv_one, b->o_all, b->lse_all, b->dq_all, b->dk_all,  b->dv_all};
  for (size_t i = 0; i < COUNT_OF(all); i++) free(all[i]);
}

static ga_status make_batch(const dist_task *t, int64_t seed, run_batch *b) {
  const ga_dist_desc *d = &t->desc;
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim;
  *b = (run_batch){.nq = ga_dist_layout_tokens(t->q, -1), .nk = ga_dist_layout_tokens(t->kv, -1)};
  b->q = b->nq * d->q_heads * d->head_dim, b->o = b->nq * d->q_heads * vd;
  b->k = b->nk * d->kv_heads * d->head_dim, b->v = b->nk * d->kv_heads * vd;
  const int64_t lse = b->nq * d->q_heads;
  const struct {
    int64_t n;
    float **at;
  } all[] = {{b->q, &b->in_q},   {b->k, &b->in_k},   {b->v, &b->in_v},   {b->o, &b->in_dout}, {b->o, &b->o_one},
             {lse, &b->lse_one}, {b->q, &b->dq_one}, {b->k, &b->dk_one}, {b->v, &b->dv_one},  {b->o, &b->o_all},
             {lse, &b->lse_all}, {b->q, &b->dq_all}, {b->k, &b->dk_all}, {b->v, &b->dv_all}};
  for (size_t i = 0; i < COUNT_OF(all); i++) TRY(new_floats(all[i].n, all[i].at));
  fill_random(b->in_q, b->q, (uint64_t)seed + 1), fill_random(b->in_k, b->k, (uint64_t)seed + 2);
  fill_random(b->in_v, b->v, (uint64_t)seed + 3), fill_random(b->in_dout, b->o, (uint64_t)seed + 4);
  return GA_OK;
}

/* --- one rank, a document at a time --- */

static ga_status one_document(ga_ctx *ctx, const ga_dist_desc *d, run_batch *b, int64_t q0, int64_t nq, int64_t k0,
                              int64_t nk) {
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim, hq = d->q_heads, hk = d->kv_heads, hd = d->head_dim;
  const uint32_t causal = d->flags & GA_DIST_CAUSAL ? GA_ATTN_CAUSAL : 0u;
  ga_attn_desc f = GA_ATTN_DESC_INIT;
  f.max_q = nq, f.max_kv = nk, f.q_heads = d->q_heads, f.kv_heads = d->kv_heads, f.head_dim = d->head_dim;
  f.v_dim = (int32_t)vd, f.window = (int32_t)d->window, f.flags = GA_ATTN_LSE | causal;
  float *lse;
  TRY(new_floats(nq * hq, &lse));
  ga_attn_io io = {0};
  io.q = b->in_q + q0 * hq * hd, io.k = b->in_k + k0 * hk * hd, io.v = b->in_v + k0 * hk * vd;
  io.o = b->o_one + q0 * hq * vd, io.lse = lse;
  ga_status status = ga_attn(ctx, &f, &io, NULL);
  for (int64_t h = 0; h < hq; h++)
    for (int64_t i = 0; i < nq; i++) b->lse_one[h * b->nq + q0 + i] = lse[h * nq + i];
  if (status == GA_OK && d->flags & GA_DIST_BACKWARD) {
    ga_attn_bwd_desc g = GA_ATTN_BWD_DESC_INIT;
    g.max_q = nq, g.max_kv = nk, g.q_heads = d->q_heads, g.kv_heads = d->kv_heads, g.head_dim = d->head_dim;
    g.v_dim = (int32_t)vd, g.window = (int32_t)d->window, g.flags = causal;
    ga_attn_bwd_io gio = {0};
    gio.q = io.q, gio.k = io.k, gio.v = io.v, gio.o = io.o, gio.lse = lse, gio.dout = b->in_dout + q0 * hq * vd;
    gio.dq = b->dq_one + q0 * hq * hd, gio.dk = b->dk_one + k0 * hk * hd, gio.dv = b->dv_one + k0 * hk * vd;
    status = ga_attn_bwd(ctx, &g, &gio, NULL);
  }
  free(lse);
  return status;
}

static ga_status run_one_rank(const dist_task *t, run_batch *b) {
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = "cpu";
  ga_ctx *ctx;
  TRY(ga_ctx_create(&options, &ctx));
  ga_status status = GA_OK;
  int64_t q0 = 0, k0 = 0;
  for (int32_t i = 0; i < t->documents && status == GA_OK; i++) {
    status = one_document(ctx, &t->desc, b, q0, t->q_lengths[i], k0, t->kv_lengths[i]);
    q0 += t->q_lengths[i], k0 += t->kv_lengths[i];
  }
  ga_ctx_destroy(ctx);
  return status;
}

/* --- the ranks --- */

/* Rows of one tensor: of the whole to the rank's, or back. */
static ga_status move_rows(const ga_dist_layout *l, int32_t rank, float *all, float *rows, int64_t width, bool back) {
  const size_t bytes = (size_t)width * sizeof(float);
  if (back) return ga_dist_unpermute(l, ga_dist_layout_id(l), rank, rows, bytes, all);
  return ga_dist_permute(l, ga_dist_layout_id(l), rank, all, bytes, rows);
}

/* Memory of a rank; [q, k, v, dout, o, lse, dq, dk, dv]. */
static ga_status move_all(const run_rank *j, float *const part[9], bool back) {
  const ga_dist_desc *d = &j->t->desc;
  const run_batch *b = j->b;
  const int32_t rank = ga_comm_rank(j->comm);
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim, rows = ga_dist_layout_tokens(d->q, rank);
  const bool backward = d->flags & GA_DIST_BACKWARD;
  const struct {
    const ga_dist_layout *l;
    float *all, *rows;
    int64_t width;
    bool moves;
  } all[] = {{d->q, b->in_q, part[0], (int64_t)d->q_heads * d->head_dim, !back},
             {d->kv, b->in_k, part[1], (int64_t)d->kv_heads * d->head_dim, !back},
             {d->kv, b->in_v, part[2], d->kv_heads * vd, !back},
             {d->q, b->in_dout, part[3], d->q_heads * vd, !back},
             {d->q, back ? b->o_all : b->o_one, part[4], d->q_heads * vd, back || backward},
             {d->q, b->dq_all, part[6], (int64_t)d->q_heads * d->head_dim, back},
             {d->kv, b->dk_all, part[7], (int64_t)d->kv_heads * d->head_dim, back},
             {d->kv, b->dv_all, part[8], d->kv_heads * vd, back}};
  for (size_t i = 0; i < COUNT_OF(all); i++)
    if (all[i].moves) TRY(move_rows(all[i].l, rank, all[i].all, all[i].rows, all[i].width, back));
  for (int32_t h = 0; h < d->q_heads && (back || backward); h++)
    TRY(move_rows(d->q, rank, (back ? b->lse_all : b->lse_one) + h * b->nq, part[5] + h * rows, 1, back));
  return GA_OK;
}

static ga_status run_with(run_rank *j, ga_ctx *ctx, float *const part[9]) {
  const ga_dist_desc *d = &j->t->desc;
  ga_dist_tensors x = GA_DIST_TENSORS_INIT;
  x.q_layout = ga_dist_layout_id(d->q), x.kv_layout = ga_dist_layout_id(d->kv);
  x.q = part[0], x.k = part[1], x.v = part[2], x.dout = part[3], x.o = part[4], x.lse = part[5];
  x.dq = part[6], x.dk = part[7], x.dv = part[8];
  TRY(move_all(j, part, false));
  ga_dist_exec *exec;
  TRY(ga_dist_exec_create(j->plan, j->comm, ctx, &exec));
  const double begin = clock_seconds();
  const ga_status status = ga_dist_exec_run(exec, &x);
  j->seconds = clock_seconds() - begin;
  j->sent = ga_dist_exec_sent_bytes(exec);
  ga_dist_exec_destroy(exec);
  TRY(status);
  return move_all(j, part, true);
}

static void *rank_main(void *arg) {
  run_rank *j = arg;
  const ga_dist_desc *d = &j->t->desc;
  const int32_t rank = ga_comm_rank(j->comm);
  const int64_t nq = ga_dist_layout_tokens(d->q, rank), nk = ga_dist_layout_tokens(d->kv, rank);
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim, hq = d->q_heads, hk = d->kv_heads, hd = d->head_dim;
  const int64_t sizes[9] = {nq * hq * hd, nk * hk * hd, nk * hk * vd, nq * hq * vd, nq * hq * vd,
                            nq * hq,      nq * hq * hd, nk * hk * hd, nk * hk * vd};
  float *part[9] = {NULL};
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = "cpu", options.threads = 1;
  ga_ctx *ctx = NULL;
  j->status = ga_ctx_create(&options, &ctx);
  for (int i = 0; i < 9 && j->status == GA_OK; i++) j->status = new_floats(sizes[i], &part[i]);
  if (j->status == GA_OK) j->status = run_with(j, ctx, part);
  if (j->status != GA_OK) {
    (void)snprintf(j->text, sizeof j->text, "%s", ga_error_text());
    ga_comm_abort(j->comm, j->text);
  }
  for (int i = 0; i < 9; i++) free(part[i]);
  ga_ctx_destroy(ctx);
  ga_comm_destroy(j->comm);
  return NULL;
}

static ga_status run_all_ranks(const dist_args *a, run_rank *jobs) {
  ga_comm *comms[MOST_RUN_RANKS] = {NULL};
  pthread_t threads[MOST_RUN_RANKS];
  ga_comm_threads_options options = GA_COMM_THREADS_OPTIONS_INIT;
  const int32_t ranks = (int32_t)a->ranks;
  options.ranks = ranks, options.seed = (uint64_t)a->seed, options.timeout = a->timeout;
  options.flags = a->buffered ? GA_COMM_BUFFERED : 0u;
  TRY(ga_comm_threads_create(&options, comms));
  int32_t started = 0;
  for (; started < ranks; started++) {
    jobs[started].comm = comms[started];
    if (pthread_create(&threads[started], NULL, rank_main, &jobs[started])) break;
  }
  for (int32_t r = started; r < ranks; r++) ga_comm_destroy(comms[r]);
  for (int32_t r = 0; r < started; r++) (void)pthread_join(threads[r], NULL);
  REQUIRE(started == ranks, GA_ERR_DEVICE, "the system starts %d threads of %d", started, ranks);
  for (int32_t r = 0; r < ranks; r++)
    if (jobs[r].status != GA_OK) return ga_error_set(jobs[r].status, "%s", jobs[r].text);
  return GA_OK;
}

/* Largest difference, as a part of the largest value (at least 1). */
static double difference(const float *a, const float *b, int64_t n) {
  double most = 0, top = 1;
  for (int64_t i = 0; i < n; i++) {
    const double x = (double)a[i], y = (double)b[i];
    if (x == y) continue;
    if (!isfinite(x) || !isfinite(y)) return INFINITY;
    most = fmax(most, fabs(x - y));
    top = fmax(top, fabs(y));
  }
  return most / top;
}

/* Results of f32 sums in two orders; measured: 1e-6 forward, 3e-6 backward at 4096 tokens. */
#define MOST_DIFFERENCE 1e-4

static ga_status report_run(const dist_args *a, const dist_task *t, const ga_dist_plan *plan, const run_batch *b,
                            const run_rank *jobs) {
  const bool backward = t->desc.flags & GA_DIST_BACKWARD;
  double worst = backward ? 0 : difference(b->o_all, b->o_one, b->o), seconds = 0;
  if (!backward) worst = fmax(worst, difference(b->lse_all, b->lse_one, b->nq * t->desc.q_heads));
  if (backward) worst = fmax(worst, difference(b->dq_all, b->dq_one, b->q));
  if (backward) worst = fmax(worst, difference(b->dk_all, b->dk_one, b->k));
  if (backward) worst = fmax(worst, difference(b->dv_all, b->dv_one, b->v));
  uint64_t sent = 0;
  for (int32_t r = 0; r < a->ranks; r++) {
    sent += jobs[r].sent;
    seconds = fmax(seconds, jobs[r].seconds);
  }
  dist_summary s;
  TRY(dist_summarise(plan, &s));
  REQUIRE(worst <= MOST_DIFFERENCE, GA_ERR_INTERNAL, "%s: differs from one rank by %g of the largest value; at most %g",
          a->method, worst, MOST_DIFFERENCE);
  REQUIRE(sent == (uint64_t)s.sent, GA_ERR_INTERNAL, "%s: %llu bytes were sent; the plan says %lld", a->method,
          (unsigned long long)sent, (long long)s.sent);
  if (a->json)
    return cmd_print_json(json_pack("{s:s, s:I, s:f, s:I, s:f}", "method", a->method, "ranks", (json_int_t)a->ranks,
                                    "difference", worst, "sent_bytes", (json_int_t)sent, "seconds", seconds),
                          JSON_INDENT(1));
  printf("%s, %lld ranks: differs from one rank by %.2g of the largest value; %llu bytes sent, as planned; %.3f s\n",
         a->method, (long long)a->ranks, worst, (unsigned long long)sent, seconds);
  return GA_OK;
}

ga_status dist_show_run(const dist_args *a, const dist_task *t, const ga_dist_plan *plan) {
  run_batch b;
  run_rank jobs[MOST_RUN_RANKS] = {{0}};
  TRY(ga_dist_plan_verify(plan, NULL));
  for (int32_t r = 0; r < a->ranks; r++) jobs[r] = (run_rank){.t = t, .plan = plan, .b = &b};
  ga_status status = make_batch(t, a->seed, &b);
  if (status == GA_OK) status = run_one_rank(t, &b);
  if (status == GA_OK) status = run_all_ranks(a, jobs);
  if (status == GA_OK) status = report_run(a, t, plan, &b, jobs);
  free_batch(&b);
  return status;
}
