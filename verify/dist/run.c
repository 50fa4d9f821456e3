#include "verify/dist/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "cmdline/interrupt.h"
#include "verify/dist/batch.h"
#include "verify/dist/draw.h"
#include "verify/dist/summary.h"
#include "verify/dist/trace.h"

/* Results of a rank, sent between processes. */
typedef struct rank_result {
  double difference, seconds;
  uint64_t sent, bits;
  uint64_t other_bits; /* numbers whose bits are not those of one device */
  char copies[8];      /* how blocks went from GPU to GPU */
} rank_result;

typedef struct run_rank {
  const dist_run_options *o;
  const dist_task *t;
  const ga_dist_plan *plan;
  const dist_batch *b;
  dist_timeline *timeline; /* filled by rank 0; NULL = not asked for */
  ga_comm *comm;           /* this and the rest belong to one rank */
  rank_result result;
} run_rank;

/* --- one rank --- */

/* A tensor of the rank: its rows in the type of the plan (LSE: f32). */
typedef struct rank_tensor {
  const ga_dist_layout *l;
  const float *all; /* of the batch: the input, or the result of one rank */
  int64_t width;
  int32_t dtype;
  bool is_input, is_result;
  void *rows;
} rank_tensor;

enum { T_Q, T_K, T_V, T_DOUT, T_O, T_LSE, T_DQ, T_DK, T_DV, TENSORS };

static void list_tensors(const run_rank *j, rank_tensor x[TENSORS]) {
  const ga_dist_desc *d = &j->t->desc;
  const dist_batch *b = j->b;
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim, hq = d->q_heads, hk = d->kv_heads, hd = d->head_dim;
  const bool back = d->flags & GA_DIST_BACKWARD;
  const int32_t type = b->dtype;
  x[T_Q] = (rank_tensor){d->q, b->in_q, hq * hd, type, true, false, NULL};
  x[T_K] = (rank_tensor){d->kv, b->in_k, hk * hd, type, true, false, NULL};
  x[T_V] = (rank_tensor){d->kv, b->in_v, hk * vd, type, true, false, NULL};
  x[T_DOUT] = (rank_tensor){d->q, b->in_dout, hq * vd, type, true, false, NULL};
  x[T_O] = (rank_tensor){d->q, back ? b->o_in : b->o_one, hq * vd, type, back, !back, NULL};
  x[T_LSE] = (rank_tensor){d->q, b->lse_one, hq, GA_F32, back, !back, NULL};
  x[T_DQ] = (rank_tensor){d->q, b->dq_one, hq * hd, type, false, back, NULL};
  x[T_DK] = (rank_tensor){d->kv, b->dk_one, hk * hd, type, false, back, NULL};
  x[T_DV] = (rank_tensor){d->kv, b->dv_one, hk * vd, type, false, back, NULL};
}

/* Copies the rank's rows of the batch, as floats: [rows, width]; LSE as [width, rows]. */
static ga_status rows_of_batch(const run_rank *j, const rank_tensor *x, bool is_lse, float **out) {
  const int32_t rank = ga_comm_rank(j->comm);
  const int64_t rows = ga_dist_layout_tokens(x->l, rank);
  const uint64_t id = ga_dist_layout_id(x->l);
  GA_TRY(dist_new_floats(rows * x->width, out));
  if (!is_lse) return ga_dist_permute(x->l, id, rank, x->all, (size_t)x->width * sizeof(float), *out);
  for (int64_t h = 0; h < x->width; h++)
    GA_TRY(ga_dist_permute(x->l, id, rank, x->all + h * j->b->nq, sizeof(float), *out + h * rows));
  return GA_OK;
}

static ga_status make_rows(const run_rank *j, ga_ctx *ctx, rank_tensor x[TENSORS]) {
  for (int i = 0; i < TENSORS; i++) {
    const int64_t n = ga_dist_layout_tokens(x[i].l, ga_comm_rank(j->comm)) * x[i].width;
    float *rows = NULL, *floats = NULL;
    GA_TRY(dist_new_floats(n, &rows));
    x[i].rows = rows;
    if (!x[i].is_input) continue;
    ga_status status = rows_of_batch(j, &x[i], i == T_LSE, &floats);
    if (status == GA_OK) status = dist_convert(ctx, GA_F32, floats, x[i].dtype, rows, n);
    free(floats);
    GA_TRY(status);
  }
  return GA_OK;
}

/* Runs the plan. On a GPU one more run comes first, which loads kernels and is not timed. */
static ga_status run_rank_plan(run_rank *j, ga_ctx *ctx, void *const rows[TENSORS]) {
  ga_dist_tensors io = GA_DIST_TENSORS_INIT;
  io.q_layout = ga_dist_layout_id(j->t->desc.q), io.kv_layout = ga_dist_layout_id(j->t->desc.kv);
  io.q = rows[T_Q], io.k = rows[T_K], io.v = rows[T_V], io.dout = rows[T_DOUT], io.o = rows[T_O];
  io.lse = rows[T_LSE], io.dq = rows[T_DQ], io.dk = rows[T_DK], io.dv = rows[T_DV];
  ga_dist_exec *exec;
  ga_dist_exec_options o = GA_DIST_EXEC_OPTIONS_INIT;
  o.copies = j->o->copies, o.timeline = j->timeline != NULL;
  GA_TRY(ga_dist_exec_create_with(j->plan, j->comm, ctx, &o, &exec));
  const uint64_t first = dist_is_on_host(j->o->ranks->device) ? 0 : 1, runs = first + (uint64_t)j->o->runs;
  ga_status status = GA_OK;
  (void)snprintf(j->result.copies, sizeof j->result.copies, "%s", ga_dist_exec_copies(exec));
  j->result.seconds = INFINITY;
  for (uint64_t n = 0; n < runs && status == GA_OK; n++) {
    const double begin = ga_seconds();
    status = ga_dist_exec_run(exec, &io);
    if (n >= first) j->result.seconds = fmin(j->result.seconds, ga_seconds() - begin);
  }
  j->result.sent = ga_dist_exec_sent_bytes(exec) / runs;
  if (status == GA_OK && j->timeline) status = dist_timeline_gather(j->comm, exec, j->timeline);
  ga_dist_exec_destroy(exec);
  return status;
}

static size_t bytes_of_tensor(const run_rank *j, const rank_tensor *x) {
  return (size_t)(ga_dist_layout_tokens(x->l, ga_comm_rank(j->comm)) * x->width) * (x->dtype == GA_F32 ? 4 : 2);
}

/* Runs on tensors in host memory, or on copies in the memory of the device. */
static ga_status run_rank_tensors(run_rank *j, ga_ctx *ctx, const rank_tensor x[TENSORS]) {
  void *rows[TENSORS] = {NULL};
  ga_status status = GA_OK;
  for (int i = 0; i < TENSORS && dist_is_on_host(j->o->ranks->device); i++) rows[i] = x[i].rows;
  if (dist_is_on_host(j->o->ranks->device)) return run_rank_plan(j, ctx, rows);
  for (int i = 0; i < TENSORS && status == GA_OK; i++) {
    status = ga_buffer_alloc(ctx, bytes_of_tensor(j, &x[i]) + 1, &rows[i]);
    if (status == GA_OK) status = ga_copy_to_device(ctx, rows[i], x[i].rows, bytes_of_tensor(j, &x[i]), NULL);
  }
  if (status == GA_OK) status = run_rank_plan(j, ctx, rows);
  for (int i = 0; i < TENSORS && status == GA_OK; i++)
    if (x[i].is_result) status = ga_copy_to_host(ctx, x[i].rows, rows[i], bytes_of_tensor(j, &x[i]), NULL);
  for (int i = 0; i < TENSORS; i++) ga_buffer_free(ctx, rows[i]);
  return status;
}

/* The largest difference divided by the largest value, or by 1 where that is more. */
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

static ga_status judge_rows(run_rank *j, ga_ctx *ctx, const rank_tensor x[TENSORS]) {
  j->result.bits = GA_FNV64_START;
  for (int i = 0; i < TENSORS; i++) {
    if (!x[i].is_result) continue;
    const int64_t n = ga_dist_layout_tokens(x[i].l, ga_comm_rank(j->comm)) * x[i].width;
    float *want = NULL, *got = NULL;
    ga_status status = rows_of_batch(j, &x[i], i == T_LSE, &want);
    if (status == GA_OK) status = dist_new_floats(n, &got);
    if (status == GA_OK) status = dist_convert(ctx, x[i].dtype, x[i].rows, GA_F32, got, n);
    for (int64_t e = 0; e < n && status == GA_OK; e++)
      j->result.other_bits += memcmp(&got[e], &want[e], sizeof *got) != 0;
    if (status == GA_OK) j->result.difference = fmax(j->result.difference, difference(got, want, n));
    j->result.bits = ga_fnv64(j->result.bits, x[i].rows, (size_t)n * (x[i].dtype == GA_F32 ? 4 : 2));
    free(want);
    free(got);
    GA_TRY(status);
  }
  return GA_OK;
}

static ga_status run_rank_of(const dist_rank *rank, void *arg, void *result) {
  run_rank j = *(const run_rank *)arg;
  rank_tensor x[TENSORS];
  j.comm = rank->comm;
  list_tensors(&j, x);
  ga_status status = make_rows(&j, rank->host, x);
  if (status == GA_OK) status = run_rank_tensors(&j, rank->device, x);
  if (status == GA_OK) status = judge_rows(&j, rank->host, x);
  for (int i = 0; i < TENSORS; i++) free(x[i].rows);
  memcpy(result, &j.result, sizeof j.result);
  return status;
}

/* --- all ranks --- */

/* f32: sums in two orders; measured: 1e-6 forward, 3e-6 backward at 4096 tokens. 16 bits: results are rounded to 2^-9
 * and 2^-12 of their size, and each of the two operands of a gradient has been. */
static double most_difference(int32_t dtype) { return dtype == GA_BF16 ? 1e-2 : dtype == GA_F16 ? 2e-3 : 1e-4; }

static ga_status judge_run(const dist_run_options *o, const dist_task *t, const ga_dist_plan *plan,
                           const rank_result *results, dist_run_found *f) {
  const int32_t dtype = t->desc.dtype;
  const char *method = t->desc.method;
  f->bits = GA_FNV64_START;
  for (int32_t r = 0; r < o->ranks->n; r++) {
    f->difference = fmax(f->difference, results[r].difference), f->seconds = fmax(f->seconds, results[r].seconds);
    f->sent += results[r].sent, f->other_bits += results[r].other_bits;
    f->bits = ga_fnv64(f->bits, &results[r].bits, sizeof results[r].bits);
  }
  (void)snprintf(f->copies, sizeof f->copies, "%s", results[0].copies);
  dist_summary s;
  GA_TRY(dist_summarise(plan, &s));
  GA_REQUIRE(f->difference <= most_difference(dtype), GA_ERR_INTERNAL,
             "%s: differs from one rank by %g of the largest value; at most %g", method, f->difference,
             most_difference(dtype));
  GA_REQUIRE(f->sent == (uint64_t)s.sent, GA_ERR_INTERNAL, "%s: %llu bytes were sent; the plan says %lld", method,
             (unsigned long long)f->sent, (long long)s.sent);
  return GA_OK;
}

/* comm: this process's. Ranks meet before they draw tensors, so that each notices when another one ends. */
static ga_status work_on_ranks(const dist_run_options *o, const dist_task *t, const ga_dist_plan *plan, ga_comm *comm,
                               rank_result *results, dist_run_found *f) {
  dist_batch b = {0};
  const dist_ranks *ranks = o->ranks;
  ga_status status = o->timeline && dist_is_first(ranks) ? dist_trace_check(o->timeline) : GA_OK;
  if (status == GA_OK) status = dist_make_batch(t, ranks->seed, &b);
  if (status == GA_OK) status = dist_run_one(ranks->device, ranks->rank, t, &b);
  if (status == GA_OK && interrupted()) status = ga_fail(GA_ERR_CANCELLED, "stopped");
  run_rank like = {.o = o, .t = t, .plan = plan, .b = &b, .timeline = o->timeline ? &f->timeline : NULL};
  if (status == GA_OK) status = dist_on_ranks(ranks, comm, run_rank_of, &like, sizeof *results, results);
  dist_free_batch(&b);
  return status;
}

ga_status dist_run(const dist_run_options *o, const dist_task *t, const ga_dist_plan *plan, dist_run_found *out) {
  const dist_ranks *ranks = o->ranks;
  ga_comm *comm;
  *out = (dist_run_found){0};
  dist_prepare_devices(ranks->device);
  GA_TRY(ga_dist_plan_verify(plan, NULL));
  rank_result *results = calloc((size_t)ranks->n, sizeof *results);
  if (!results) return ga_fail_nomem("results", (size_t)ranks->n * sizeof *results);
  ga_status status = dist_open_comm(ranks, &comm);
  if (status == GA_OK) status = work_on_ranks(o, t, plan, comm, results, out);
  if (status != GA_OK) ga_comm_abort(comm, ga_error_text());
  ga_comm_destroy(comm);
  if (status == GA_OK && o->timeline && dist_is_first(ranks))
    status = dist_trace_write(o->timeline, ranks->device, &out->timeline);
  if (status == GA_OK) status = judge_run(o, t, plan, results, out);
  free(results);
  return status;
}

void dist_run_free(dist_run_found *f) { dist_timeline_free(&f->timeline); }
