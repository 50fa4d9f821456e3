/* ga dist run: random tensors, each rank a thread or a process, and the result beside that of one rank. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmdline/error.h"
#include "cmdline/interrupt.h"
#include "verify/dist/batch.h"
#include "verify/dist/ranks.h"
#include "verify/dist/timeline.h"

/* What a rank finds; ranks of other processes send it. */
typedef struct rank_result {
  double difference, seconds;
  uint64_t sent, bits;
  uint64_t other_bits; /* numbers whose bits are not those of one device */
  char copies[8];      /* how blocks went from GPU to GPU */
} rank_result;

typedef struct run_rank {
  const dist_args *a;
  const dist_task *t;
  const ga_dist_plan *plan;
  const dist_batch *b;
  dist_timeline *timeline; /* rank 0 fills it; NULL: none is asked for */
  ga_comm *comm;           /* from here on a rank's own */
  rank_result result;
} run_rank;

/* --- one rank --- */

/* A tensor of the rank: its rows in the type of the plan (LSE: f32). */
typedef struct rank_tensor {
  const ga_dist_layout *l;
  const float *all; /* of the batch: the input, or what one rank makes of it */
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

/* Rows of the rank out of the batch, as floats: [rows, width], of LSE [width, rows] as it is in the batch. */
static ga_status rows_of_batch(const run_rank *j, const rank_tensor *x, bool is_lse, float **out) {
  const int32_t rank = ga_comm_rank(j->comm);
  const int64_t rows = ga_dist_layout_tokens(x->l, rank);
  const uint64_t id = ga_dist_layout_id(x->l);
  TRY(dist_new_floats(rows * x->width, out));
  if (!is_lse) return ga_dist_permute(x->l, id, rank, x->all, (size_t)x->width * sizeof(float), *out);
  for (int64_t h = 0; h < x->width; h++)
    TRY(ga_dist_permute(x->l, id, rank, x->all + h * j->b->nq, sizeof(float), *out + h * rows));
  return GA_OK;
}

static ga_status make_rows(const run_rank *j, ga_ctx *ctx, rank_tensor x[TENSORS]) {
  for (int i = 0; i < TENSORS; i++) {
    const int64_t n = ga_dist_layout_tokens(x[i].l, ga_comm_rank(j->comm)) * x[i].width;
    float *rows = NULL, *floats = NULL;
    TRY(dist_new_floats(n, &rows));
    x[i].rows = rows;
    if (!x[i].is_input) continue;
    ga_status status = rows_of_batch(j, &x[i], i == T_LSE, &floats);
    if (status == GA_OK) status = dist_convert(ctx, GA_F32, floats, x[i].dtype, rows, n);
    free(floats);
    TRY(status);
  }
  return GA_OK;
}

/* The first run of a device also makes ready what it launches: it is one more, which is not timed. */
static ga_status run_rank_plan(run_rank *j, ga_ctx *ctx, void *const rows[TENSORS]) {
  ga_dist_tensors io = GA_DIST_TENSORS_INIT;
  io.q_layout = ga_dist_layout_id(j->t->desc.q), io.kv_layout = ga_dist_layout_id(j->t->desc.kv);
  io.q = rows[T_Q], io.k = rows[T_K], io.v = rows[T_V], io.dout = rows[T_DOUT], io.o = rows[T_O];
  io.lse = rows[T_LSE], io.dq = rows[T_DQ], io.dk = rows[T_DK], io.dv = rows[T_DV];
  ga_dist_exec *exec;
  ga_dist_exec_options o = GA_DIST_EXEC_OPTIONS_INIT;
  o.copies = j->a->copies, o.timeline = j->timeline != NULL;
  TRY(ga_dist_exec_create_with(j->plan, j->comm, ctx, &o, &exec));
  const uint64_t first = dist_is_on_host(j->a) ? 0 : 1, runs = first + (uint64_t)j->a->runs;
  ga_status status = GA_OK;
  (void)snprintf(j->result.copies, sizeof j->result.copies, "%s", ga_dist_exec_copies(exec));
  j->result.seconds = INFINITY;
  for (uint64_t n = 0; n < runs && status == GA_OK; n++) {
    const double begin = dist_seconds();
    status = ga_dist_exec_run(exec, &io);
    if (n >= first) j->result.seconds = fmin(j->result.seconds, dist_seconds() - begin);
  }
  j->result.sent = ga_dist_exec_sent_bytes(exec) / runs;
  if (status == GA_OK && j->timeline) status = dist_timeline_gather(j->comm, exec, j->timeline);
  ga_dist_exec_destroy(exec);
  return status;
}

static size_t bytes_of_tensor(const run_rank *j, const rank_tensor *x) {
  return (size_t)(ga_dist_layout_tokens(x->l, ga_comm_rank(j->comm)) * x->width) * (x->dtype == GA_F32 ? 4 : 2);
}

/* There and back again, where the device has memory of its own. */
static ga_status run_rank_tensors(run_rank *j, ga_ctx *ctx, const rank_tensor x[TENSORS]) {
  void *rows[TENSORS] = {NULL};
  ga_status status = GA_OK;
  for (int i = 0; i < TENSORS && dist_is_on_host(j->a); i++) rows[i] = x[i].rows;
  if (dist_is_on_host(j->a)) return run_rank_plan(j, ctx, rows);
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

static ga_status judge_rows(run_rank *j, ga_ctx *ctx, const rank_tensor x[TENSORS]) {
  j->result.bits = DIST_HASH_START;
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
    j->result.bits = dist_hash(j->result.bits, x[i].rows, (size_t)n * (x[i].dtype == GA_F32 ? 4 : 2));
    free(want);
    free(got);
    TRY(status);
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

static ga_status report_run(const dist_args *a, const ga_dist_plan *plan, int32_t dtype, const rank_result *results,
                            const dist_timeline *timeline) {
  double worst = 0, seconds = 0;
  uint64_t sent = 0, others = 0, bits = DIST_HASH_START;
  char text[24];
  for (int32_t r = 0; r < a->ranks; r++) {
    worst = fmax(worst, results[r].difference), seconds = fmax(seconds, results[r].seconds);
    sent += results[r].sent, others += results[r].other_bits,
        bits = dist_hash(bits, &results[r].bits, sizeof results[r].bits);
  }
  dist_summary s;
  TRY(dist_summarise(plan, &s));
  REQUIRE(worst <= most_difference(dtype), GA_ERR_INTERNAL,
          "%s: differs from one rank by %g of the largest value; at most %g", a->method, worst, most_difference(dtype));
  REQUIRE(sent == (uint64_t)s.sent, GA_ERR_INTERNAL, "%s: %llu bytes were sent; the plan says %lld", a->method,
          (unsigned long long)sent, (long long)s.sent);
  if (a->rank > 0) return GA_OK; /* rank 0 speaks */
  (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)bits);
  if (a->json) {
    json_t *spans = NULL;
    if (a->timeline) TRY(dist_timeline_json(a, timeline, &spans));
    return cmd_print_json(json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:I, s:I, s:s, s:f, s:o*}", "method", a->method,
                                    "transport", a->transport, "copies", results[0].copies, "device", a->device,
                                    "ranks", (json_int_t)a->ranks, "difference", worst, "other_bits",
                                    (json_int_t)others, "sent_bytes", (json_int_t)sent, "bits", text, "seconds",
                                    seconds, "timeline", spans),
                          JSON_INDENT(1));
  }
  if (!dist_is_on_host(a))
    printf("%s on %s, copies by %s: %llu numbers have other bits than one device's\n", a->method, a->device,
           results[0].copies, (unsigned long long)others);
  printf("%s, %lld ranks (%s): differs from one rank by %.2g of the largest value; %llu bytes sent, as planned; "
         "%.3f s\n",
         a->method, (long long)a->ranks, a->transport, worst, (unsigned long long)sent, seconds);
  return a->timeline ? dist_timeline_print(a, timeline) : GA_OK;
}

ga_status dist_show_run(const dist_args *a, const dist_task *t, const ga_dist_plan *plan) {
  dist_batch b = {0};
  dist_timeline timeline = {0};
  ga_comm *comm = NULL; /* of this process: ranks meet before they work, so that each hears of another's end */
  dist_prepare_devices(a);
  TRY(ga_dist_plan_verify(plan, NULL));
  rank_result *results = calloc((size_t)a->ranks, sizeof *results);
  if (!results) return fail_nomem("results", (size_t)a->ranks * sizeof *results);
  ga_status status = strcmp(a->transport, "threads") != 0 ? dist_open_comm(a, &comm) : GA_OK;
  if (status == GA_OK && a->timeline && a->rank <= 0) status = dist_timeline_check(a->timeline);
  if (status == GA_OK) status = dist_make_batch(t, a->seed, &b);
  if (status == GA_OK) status = dist_run_one(a, t, &b);
  if (status == GA_OK && interrupted()) status = ga_error_set(GA_ERR_CANCELLED, "stopped");
  run_rank like = {.a = a, .t = t, .plan = plan, .b = &b, .timeline = a->timeline ? &timeline : NULL};
  if (status == GA_OK) status = dist_on_ranks(a, comm, run_rank_of, &like, sizeof *results, results);
  if (status != GA_OK) ga_comm_abort(comm, ga_error_text());
  ga_comm_destroy(comm);
  if (status == GA_OK && a->timeline && a->rank <= 0) status = dist_timeline_write(a, &timeline);
  if (status == GA_OK) status = report_run(a, plan, b.dtype, results, &timeline);
  dist_timeline_free(&timeline);
  dist_free_batch(&b);
  free(results);
  return status;
}
