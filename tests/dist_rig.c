/* See dist_rig.h. */
#include "tests/dist_rig.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "core/host_device.h"
#include "dist/block.h"
#include "dist/exec.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "ga/layer.h"
#include "ref/ref.h"

static double *doubles(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }
static float *floats(int64_t n) { return calloc((size_t)n + 1, sizeof(float)); }

void free_tensors(tensors *t) {
  void *const all[] = {t->q, t->k, t->v, t->dout, t->o_in, t->o, t->dq, t->dk, t->dv, t->lse};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  if (t->owns_got) free(t->got_o);
}

static int32_t dtype_of_desc(const ga_dist_desc *d) { return d->dtype ? d->dtype : GA_F32; }
static size_t bytes_of_number(const ga_dist_desc *d) { return (size_t)dist_dtype_bytes(dtype_of_desc(d)); }

/* The nearest number that the type has. */
static double rounded(const ga_dist_desc *d, double x) {
  float f = (float)x;
  uint32_t bits = 0;
  dist_store_row(dtype_of_desc(d), &f, 1, &bits);
  dist_load_row(dtype_of_desc(d), &bits, 1, &f);
  return (double)f;
}

static void fill_numbers(const ga_dist_desc *d, double *x, int64_t n, ga_rng *rng) {
  for (int64_t i = 0; i < n; i++) x[i] = rounded(d, (double)ga_rng_normal(rng));
}

/* Of q, k, v, o, lse in the order of tensors. */
typedef struct tensor_sizes {
  int64_t q, k, v, o, lse;
} tensor_sizes;

static tensor_sizes sizes_of(const ga_dist_desc *d) {
  const int64_t nq = ga_dist_layout_tokens(d->q, -1), nk = ga_dist_layout_tokens(d->kv, -1);
  return (tensor_sizes){nq * d->q_heads * d->head_dim, nk * d->kv_heads * d->head_dim, nk * d->kv_heads * d->v_dim,
                        nq * d->q_heads * d->v_dim, nq * d->q_heads};
}

int64_t tensors_floats(const ga_dist_desc *d) {
  const tensor_sizes n = sizes_of(d);
  return n.o + n.lse + n.q + n.k + n.v;
}

tensors make_tensors(const ga_dist_desc *d, uint64_t seed, float *got) {
  const tensor_sizes n = sizes_of(d);
  tensors t = {.nq = ga_dist_layout_tokens(d->q, -1), .nk = ga_dist_layout_tokens(d->kv, -1), .owns_got = !got};
  t.q = doubles(n.q), t.k = doubles(n.k), t.v = doubles(n.v), t.dout = doubles(n.o), t.o_in = doubles(n.o);
  t.o = doubles(n.o), t.dq = doubles(n.q), t.dk = doubles(n.k), t.dv = doubles(n.v), t.lse = floats(n.lse);
  t.got_o = got ? got : floats(tensors_floats(d)), t.got_lse = t.got_o + n.o, t.got_dq = t.got_lse + n.lse;
  t.got_dk = t.got_dq + n.q, t.got_dv = t.got_dk + n.k;
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  fill_numbers(d, t.q, n.q, &rng), fill_numbers(d, t.k, n.k, &rng), fill_numbers(d, t.v, n.v, &rng);
  fill_numbers(d, t.dout, n.o, &rng);
  for (int h = 0; h < 32; h++) t.sinks[h] = (float)ga_rng_normal(&rng), t.alibi[h] = 0.5F / (float)(h + 1);
  return t;
}

/* The oracle, a document at a time. */
static void oracle_document(const ga_dist_desc *d, tensors *t, int64_t q0, int64_t nq, int64_t k0, int64_t nk) {
  ga_attn_desc f = GA_ATTN_DESC_INIT;
  f.max_q = nq, f.max_kv = nk, f.q_heads = d->q_heads, f.kv_heads = d->kv_heads, f.head_dim = d->head_dim;
  f.v_dim = d->v_dim, f.q_dtype = f.kv_dtype = f.o_dtype = GA_F64, f.window = (int32_t)d->window;
  f.flags = GA_ATTN_LSE | (d->flags & GA_DIST_CAUSAL ? GA_ATTN_CAUSAL : 0u),
  f.scale = d->scale > 0 ? d->scale : 1 / sqrtf((float)d->head_dim);
  f.softcap = d->softcap;
  const uint32_t extra =
      (d->flags & GA_DIST_SINKS ? GA_ATTN_SINKS : 0u) | (d->flags & GA_DIST_ALIBI ? GA_ATTN_ALIBI : 0u);
  f.flags |= extra;
  const int64_t hq = d->q_heads, hk = d->kv_heads, dim = d->head_dim, vd = d->v_dim;
  float *lse = floats(nq * hq);
  ga_attn_io io = {.q = t->q + q0 * hq * dim,
                   .k = t->k + k0 * hk * dim,
                   .v = t->v + k0 * hk * vd,
                   .o = t->o + q0 * hq * vd,
                   .lse = lse,
                   .sinks = t->sinks,
                   .alibi = t->alibi};
  io.q_stride = (ga_attn_strides){0, hq * dim, dim}, io.o_stride = (ga_attn_strides){0, hq * vd, vd};
  io.k_stride = (ga_attn_strides){0, hk * dim, dim}, io.v_stride = (ga_attn_strides){0, hk * vd, vd};
  assert_int_equal(ga_ref_attn(NULL, &f, &io, NULL, NULL), GA_OK);
  for (int64_t h = 0; h < hq; h++)
    for (int64_t i = 0; i < nq; i++) t->lse[h * t->nq + q0 + i] = lse[h * nq + i];
  for (int64_t i = q0 * hq * vd; i < (q0 + nq) * hq * vd; i++) t->o_in[i] = rounded(d, t->o[i]);
  ga_attn_bwd_desc b = GA_ATTN_BWD_DESC_INIT;
  b.max_q = nq, b.max_kv = nk, b.q_heads = d->q_heads, b.kv_heads = d->kv_heads, b.head_dim = d->head_dim;
  b.v_dim = d->v_dim, b.dtype = b.grad_dtype = GA_F64, b.window = (int32_t)d->window, b.scale = f.scale;
  b.flags = extra | (d->flags & GA_DIST_CAUSAL ? GA_ATTN_CAUSAL : 0u), b.softcap = d->softcap;
  float dsinks[32] = {0};
  ga_attn_bwd_io g = {.q = io.q,
                      .k = io.k,
                      .v = io.v,
                      .o = t->o_in + q0 * hq * vd,
                      .dout = t->dout + q0 * hq * vd,
                      .lse = lse,
                      .dq = t->dq + q0 * hq * dim,
                      .dk = t->dk + k0 * hk * dim,
                      .dv = t->dv + k0 * hk * vd,
                      .dsinks = dsinks,
                      .sinks = t->sinks,
                      .alibi = t->alibi};
  g.q_stride = g.dq_stride = io.q_stride, g.k_stride = g.dk_stride = io.k_stride;
  g.v_stride = g.dv_stride = io.v_stride, g.o_stride = g.dout_stride = io.o_stride;
  assert_int_equal(ga_ref_attn_bwd(NULL, &b, &g, NULL, NULL), GA_OK);
  for (int32_t h = 0; h < d->q_heads; h++) t->dsinks[h] += dsinks[h];
  free(lse);
}

void oracle_batch(const ga_dist_desc *d, tensors *t) {
  const ga_dist_layout *q = d->q, *kv = d->kv;
  for (int64_t i = 0; i < q->documents; i++)
    oracle_document(d, t, q->doc_start[i], q->doc_start[i + 1] - q->doc_start[i], kv->doc_start[i],
                    kv->doc_start[i + 1] - kv->doc_start[i]);
}

/* --- ranks --- */

/* Rows of a rank, in the type of the plan. */
static void *rows_of(const ga_dist_desc *d, const ga_dist_layout *l, int32_t rank, const double *all, int64_t width) {
  const int64_t n = ga_dist_layout_tokens(l, rank) * width;
  double *rows = doubles(n);
  float *numbers = floats(n);
  void *out = calloc((size_t)n + 1, bytes_of_number(d));
  if (ga_dist_permute(l, ga_dist_layout_id(l), rank, all, (size_t)width * sizeof *all, rows) == GA_OK)
    for (int64_t i = 0; i < n; i++) numbers[i] = (float)rows[i];
  dist_store_row(dtype_of_desc(d), numbers, n, out);
  free(rows), free(numbers);
  return out;
}

/* And back into their places among all, as floats. */
static bool put_rank_rows(int32_t dtype, const ga_dist_layout *l, int32_t rank, const void *rows, int64_t width,
                          float *all) {
  const int64_t n = ga_dist_layout_tokens(l, rank) * width;
  float *numbers = floats(n);
  dist_load_row(dtype, rows, n, numbers);
  const bool good =
      ga_dist_unpermute(l, ga_dist_layout_id(l), rank, numbers, (size_t)width * sizeof *numbers, all) == GA_OK;
  free(numbers);
  return good;
}

/* Of this thread's rank. */
static _Thread_local ga_sharing counting_sharing;
static _Thread_local ga_status (*real_share_alloc)(ga_device *device, size_t bytes, ga_shared *out);
static _Thread_local int64_t shared_bytes;

static ga_status count_share(ga_device *device, size_t bytes, ga_shared *out) {
  shared_bytes += (int64_t)bytes;
  return real_share_alloc(device, bytes, out);
}

/* Memory that an executor takes, shared with other ranks or not. */
static ga_status create_counted(rank_job *j, ga_ctx *ctx, ga_dist_exec **exec) {
  const ga_sharing *real = ctx->device->sharing;
  ga_memory_info before = GA_MEMORY_INFO_INIT, after = GA_MEMORY_INFO_INIT;
  const ga_dist_exec_options options = {.struct_size = sizeof options, .timeline = j->timeline};
  counting_sharing = *real;
  real_share_alloc = real->alloc;
  counting_sharing.alloc = count_share;
  ctx->device->sharing = &counting_sharing;
  shared_bytes = 0;
  ga_status status = ga_ctx_memory(ctx, &before);
  if (status == GA_OK) status = dist_exec_create_on_device(j->plan, j->comm, ctx, &options, exec);
  ctx->device->sharing = real;
  if (status == GA_OK) status = ga_ctx_memory(ctx, &after);
  j->device_bytes = shared_bytes + (int64_t)(after.used_bytes - before.used_bytes);
  return status;
}

/* K and V while their memory holds zeros. */
typedef struct hidden_keys {
  void *data[2];
  size_t bytes[2];
} hidden_keys;

static ga_status hide_keys(const rank_job *j, ga_ctx *ctx, const ga_dist_tensors *io, hidden_keys *h) {
  const ga_dist_desc *d = j->d;
  const int64_t heads = ga_dist_layout_tokens(d->kv, j->rank) * d->kv_heads, dims[] = {d->head_dim, d->v_dim};
  const void *const at[] = {io->k, io->v};
  ga_status status = GA_OK;
  for (int c = 0; c < 2 && status == GA_OK; c++) {
    h->bytes[c] = (size_t)(heads * dims[c]) * bytes_of_number(d);
    h->data[c] = malloc(h->bytes[c] + 1);
    void *const zeros = calloc(h->bytes[c] + 1, 1), *there;
    memcpy(&there, &at[c], sizeof there);
    status = ga_copy_to_host(ctx, h->data[c], there, h->bytes[c], NULL);
    if (status == GA_OK) status = ga_copy_to_device(ctx, there, zeros, h->bytes[c], NULL);
    free(zeros);
  }
  return status;
}

static ga_status show_keys(ga_ctx *ctx, const ga_dist_tensors *io, const hidden_keys *h) {
  void *there[2];
  memcpy(&there[0], &io->k, sizeof there[0]);
  memcpy(&there[1], &io->v, sizeof there[1]);
  const ga_status status = ga_copy_to_device(ctx, there[0], h->data[0], h->bytes[0], NULL);
  return status == GA_OK ? ga_copy_to_device(ctx, there[1], h->data[1], h->bytes[1], NULL) : status;
}

/* What no run writes is no number. */
static ga_status spoil_results(const rank_job *j, ga_ctx *ctx, const ga_dist_tensors *io) {
  const ga_dist_desc *d = j->d;
  const int64_t each = (int64_t)bytes_of_number(d), nq = ga_dist_layout_tokens(d->q, j->rank) * d->q_heads,
                nk = ga_dist_layout_tokens(d->kv, j->rank) * d->kv_heads;
  const struct {
    void *at;
    int64_t bytes;
  } forward[] = {{io->o, nq * d->v_dim * each}, {io->lse, nq * (int64_t)sizeof *io->lse}},
    backward[] = {{io->dq, nq * d->head_dim * each}, {io->dk, nk * d->head_dim * each}, {io->dv, nk * d->v_dim * each}};
  const bool back = d->flags & GA_DIST_BACKWARD;
  ga_status status = GA_OK;
  for (int i = 0; i < (back ? 3 : 2) && status == GA_OK; i++) {
    const int64_t bytes = back ? backward[i].bytes : forward[i].bytes;
    void *const from = malloc((size_t)bytes + 1);
    memset(from, 0xff, (size_t)bytes + 1);
    status = ga_copy_to_device(ctx, back ? backward[i].at : forward[i].at, from, (size_t)bytes, NULL);
    free(from);
  }
  return status;
}

#define SPANS_REQUIRE(cond, ...) \
  if (!(cond)) return ga_error_set(GA_ERR_INTERNAL, __VA_ARGS__)

/* Spans of a stream follow each other; together they send what the plan says, and compute where it has tiles. */
static ga_status check_spans(const rank_job *j, const ga_dist_exec *exec) {
  enum { STREAMS = 8 };
  ga_dist_timeline t = GA_DIST_TIMELINE_INIT;
  ga_dist_cost cost = GA_DIST_COST_INIT;
  double ended[STREAMS] = {0};
  int64_t sent = 0, calls = 0;
  ga_status status = ga_dist_exec_timeline(exec, &t);
  if (status == GA_OK) status = ga_dist_plan_cost(j->plan, j->rank, &cost);
  for (int64_t i = 0; i < t.spans && status == GA_OK; i++) {
    ga_dist_span s = GA_DIST_SPAN_INIT;
    status = ga_dist_exec_span(exec, i, &s);
    if (status != GA_OK) break;
    SPANS_REQUIRE(s.stream >= 0 && s.stream < STREAMS && s.stream_name && s.what, "span %d: stream %d", (int)i,
                  s.stream);
    SPANS_REQUIRE(s.begin >= ended[s.stream] && s.end >= s.begin && s.end <= t.seconds,
                  "span %d of %s: %g to %g; the one before ends at %g, the run at %g", (int)i, s.stream_name, s.begin,
                  s.end, ended[s.stream], t.seconds);
    SPANS_REQUIRE(s.peer < ga_dist_plan_ranks(j->plan) && s.peer != j->rank && s.peer >= -1, "span %d: peer %d", (int)i,
                  s.peer);
    SPANS_REQUIRE((s.work == GA_DIST_WORK_PUSH) <= (s.peer >= 0), "span %d: a push to nobody", (int)i);
    ended[s.stream] = s.end;
    sent += s.bytes;
    calls += s.work == GA_DIST_WORK_ATTENTION;
  }
  if (status != GA_OK) return status;
  SPANS_REQUIRE(sent == cost.sent_bytes, "spans of %lld bytes; the plan sends %lld", (long long)sent,
                (long long)cost.sent_bytes);
  SPANS_REQUIRE((calls > 0) == (cost.pairs > 0), "%lld calls of attention for %lld pairs", (long long)calls,
                (long long)cost.pairs);
  SPANS_REQUIRE(t.start > 0 && t.start < ga_seconds() && t.start_error >= 0 && t.start_error < 1, "start %g, error %g",
                t.start, t.start_error);
  return ga_dist_exec_span(exec, t.spans, &(ga_dist_span)GA_DIST_SPAN_INIT) == GA_ERR_ARG ? GA_OK : GA_ERR_INTERNAL;
}

static ga_status run_one_plan(rank_job *j, ga_ctx *ctx, const ga_dist_tensors *io) {
  ga_dist_exec *exec = NULL;
  hidden_keys keys = {{NULL, NULL}, {0, 0}};
  const ga_dist_exec_options options = {.struct_size = sizeof options, .timeline = j->timeline};
  ga_status status =
      j->on_device ? create_counted(j, ctx, &exec) : ga_dist_exec_create_with(j->plan, j->comm, ctx, &options, &exec);
  if (status == GA_OK && j->stop_at == 1) {
    ga_dist_exec_destroy(exec);
    return ga_error_set(GA_ERR_STATE, "left on purpose");
  }
  if (status == GA_OK && j->zeros_first) status = hide_keys(j, ctx, io, &keys);
  if (j->stop_at == 2) (void)nanosleep(&(struct timespec){.tv_nsec = 700000000}, NULL);
  for (int32_t n = 0; n < (j->runs ? j->runs : 2) && status == GA_OK; n++) { /* no run finds anything of another */
    if (n && j->stop_at == 4) (void)kill(getpid(), SIGKILL);
    if (j->zeros_first && n + 1 == j->runs) status = show_keys(ctx, io, &keys);
    if (status == GA_OK) status = spoil_results(j, ctx, io);
    if (status == GA_OK) status = ga_dist_exec_run(exec, io);
  }
  if (status == GA_OK) j->sent = ga_dist_exec_sent_bytes(exec);
  if (status == GA_OK && j->timeline) status = check_spans(j, exec);
  ga_dist_exec_destroy(exec);
  free(keys.data[0]), free(keys.data[1]);
  return status;
}

/* A tensor of a rank: where it lies in host memory, and its bytes. */
typedef struct rank_rows {
  void *host, *device;
  size_t bytes;
} rank_rows;

/* The same plan with tensors in the memory of the context's device. */
static ga_status run_in_device_memory(rank_job *j, ga_ctx *ctx, const ga_dist_tensors *io, rank_rows *rows) {
  enum { FIRST_OUT = 4, LSE = 8, DSINKS, SINKS, ALIBI, n };
  ga_dist_tensors there = *io;
  const void **const in[] = {&there.q, &there.k, &there.v, &there.dout};
  void **const out[] = {&there.o, &there.dq, &there.dk, &there.dv};
  ga_status status = GA_OK;
  for (size_t i = 0; i < n && status == GA_OK; i++) {
    status = ga_buffer_alloc(ctx, rows[i].bytes + 1, &rows[i].device);
    if (status == GA_OK) status = ga_copy_to_device(ctx, rows[i].device, rows[i].host, rows[i].bytes, NULL);
  }
  for (size_t i = 0; i < 4; i++)
    if (*in[i]) *in[i] = rows[i].device;
  for (size_t i = 0; i < 4; i++) *out[i] = rows[FIRST_OUT + i].device;
  there.lse = rows[LSE].device;
  there.dsinks = rows[DSINKS].device, there.sinks = rows[SINKS].device, there.alibi = rows[ALIBI].device;
  if (status == GA_OK) {
    status = run_one_plan(j, ctx, &there);
    char text[512];
    (void)snprintf(text, sizeof text, "%s", ga_error_text());
    for (size_t i = FIRST_OUT; i <= DSINKS; i++)
      if (ga_copy_to_host(ctx, rows[i].host, rows[i].device, rows[i].bytes, NULL) != GA_OK && status == GA_OK)
        return GA_ERR_DEVICE;
    if (status != GA_OK) status = ga_error_set(status, "%s", text);
  }
  for (size_t i = 0; i < n; i++) ga_buffer_free(ctx, rows[i].device);
  return status;
}

enum { GUARD_BYTES = 32, GUARD = 0xa5 };

/* Rows of a result: zeros, and bytes after them that nothing may write. */
static void *guarded_rows(int64_t bytes) {
  unsigned char *rows = calloc((size_t)bytes + GUARD_BYTES, 1);
  if (rows) memset(rows + bytes, GUARD, GUARD_BYTES);
  return rows;
}

static bool guard_is_whole(const void *rows, int64_t bytes) {
  for (int i = 0; i < GUARD_BYTES; i++)
    if (((const unsigned char *)rows)[bytes + i] != GUARD) return false;
  return true;
}

static void run_with_rows(rank_job *j, ga_ctx *ctx) {
  const ga_dist_desc *d = j->d;
  const int64_t nq = ga_dist_layout_tokens(d->q, j->rank), nk = ga_dist_layout_tokens(d->kv, j->rank);
  const int64_t qw = (int64_t)d->q_heads * d->head_dim, ow = (int64_t)d->q_heads * d->v_dim,
                kw = (int64_t)d->kv_heads * d->head_dim, vw = (int64_t)d->kv_heads * d->v_dim;
  void *q = rows_of(d, d->q, j->rank, j->t->q, qw), *k = rows_of(d, d->kv, j->rank, j->t->k, kw),
       *v = rows_of(d, d->kv, j->rank, j->t->v, vw), *dout = rows_of(d, d->q, j->rank, j->t->dout, ow);
  const int64_t one = (int64_t)bytes_of_number(d), lse_bytes = nq * d->q_heads * (int64_t)sizeof(float);
  void *o = guarded_rows(nq * ow * one), *dq = guarded_rows(nq * qw * one), *dk = guarded_rows(nk * kw * one),
       *dv = guarded_rows(nk * vw * one);
  float *lse = guarded_rows(lse_bytes);
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
                              .dv = dv,
                              .sinks = j->t->sinks,
                              .alibi = j->t->alibi,
                              .dsinks = j->t->got_dsinks[j->rank]};
  if (d->flags & GA_DIST_BACKWARD) { /* O and LSE are inputs: the oracle's */
    void *want = rows_of(d, d->q, j->rank, j->t->o_in, ow);
    memcpy(o, want, (size_t)(nq * ow) * bytes_of_number(d));
    free(want);
    int64_t *token = calloc((size_t)nq + 1, sizeof *token);
    (void)!ga_dist_layout_rows(d->q, j->rank, token, NULL);
    for (int32_t h = 0; h < d->q_heads; h++)
      for (int64_t i = 0; i < nq; i++) lse[h * nq + i] = j->t->lse[h * j->t->nq + token[i]];
    free(token);
  }
  const size_t each = bytes_of_number(d), heads = (size_t)d->q_heads * sizeof(float);
  rank_rows tensors_of_rank[] = {{q, NULL, (size_t)(nq * qw) * each},
                                 {k, NULL, (size_t)(nk * kw) * each},
                                 {v, NULL, (size_t)(nk * vw) * each},
                                 {dout, NULL, (size_t)(nq * ow) * each},
                                 {o, NULL, (size_t)(nq * ow) * each},
                                 {dq, NULL, (size_t)(nq * qw) * each},
                                 {dk, NULL, (size_t)(nk * kw) * each},
                                 {dv, NULL, (size_t)(nk * vw) * each},
                                 {lse, NULL, (size_t)(nq * d->q_heads) * sizeof *lse},
                                 {j->t->got_dsinks[j->rank], NULL, heads},
                                 {j->t->sinks, NULL, heads},
                                 {j->t->alibi, NULL, heads}};
  j->status = ga_device_in_host_memory(ctx->device) ? run_one_plan(j, ctx, &io)
                                                    : run_in_device_memory(j, ctx, &io, tensors_of_rank);
  const int32_t type = dtype_of_desc(d);
  bool good = put_rank_rows(type, d->q, j->rank, o, ow, j->t->got_o) &&
              put_rank_rows(type, d->q, j->rank, dq, qw, j->t->got_dq) &&
              put_rank_rows(type, d->kv, j->rank, dk, kw, j->t->got_dk) &&
              put_rank_rows(type, d->kv, j->rank, dv, vw, j->t->got_dv);
  for (int32_t h = 0; h < d->q_heads && good; h++)
    good = put_rank_rows(GA_F32, d->q, j->rank, lse + h * nq, 1, j->t->got_lse + h * j->t->nq);
  if (!good && j->status == GA_OK) j->status = GA_ERR_INTERNAL;
  const bool whole = guard_is_whole(o, nq * ow * one) && guard_is_whole(dq, nq * qw * one) &&
                     guard_is_whole(dk, nk * kw * one) && guard_is_whole(dv, nk * vw * one) &&
                     guard_is_whole(lse, lse_bytes);
  if (!whole) {
    j->status = GA_ERR_INTERNAL;
    (void)snprintf(j->text, sizeof j->text, "rank %d wrote past the end of its results", j->rank);
  }
  void *const all[] = {q, k, v, dout, o, lse, dq, dk, dv};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* A context is as good as new after a run that failed. */
static bool still_adds(ga_ctx *ctx) {
  ga_add_desc d = GA_ADD_DESC_INIT;
  float x[4] = {1, 2, 3, 4};
  void *p = NULL;
  d.rows = 1, d.width = 4;
  ga_status status = ga_buffer_alloc(ctx, sizeof x, &p);
  const ga_add_io io = {.x = p, .b = p, .y = p};
  if (status == GA_OK) status = ga_copy_to_device(ctx, p, x, sizeof x, NULL);
  if (status == GA_OK) status = ga_add(ctx, &d, &io, NULL);
  if (status == GA_OK) status = ga_copy_to_host(ctx, x, p, sizeof x, NULL);
  ga_buffer_free(ctx, p);
  return status == GA_OK && x[3] == 8;
}

static bool still_works(ga_ctx *ctx) {
  if (!ga_device_in_host_memory(ctx->device)) return still_adds(ctx);
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = 1, d.q_heads = d.kv_heads = 1, d.head_dim = 4;
  const float x[4] = {1, 2, 3, 4};
  float o[4] = {0};
  ga_attn_io io = {.q = x, .k = x, .v = x, .o = o};
  return ga_attn(ctx, &d, &io, NULL) == GA_OK && !memcmp(o, x, sizeof x);
}

/* --- a device whose copies take long, or whose events pass late --- */

static _Thread_local ga_device_ops slow_ops; /* of the rank's context, which lives in this thread */
static _Thread_local int32_t slow_ms;

static ga_status copy_rows_slowly(ga_stream *stream, const ga_row_copy *copy) {
  (void)nanosleep(&(struct timespec){.tv_sec = slow_ms / 1000, .tv_nsec = slow_ms % 1000 * 1000000l}, NULL);
  return ga_host_copy_rows(stream, copy);
}

enum { LATE_EVENTS = 256 };
static _Thread_local int32_t late_ms;
static _Thread_local struct {
  ga_event *event;
  double recorded;
} late_events[LATE_EVENTS];

static int place_of_event(const ga_event *event) {
  for (int i = 0; i < LATE_EVENTS; i++)
    if (late_events[i].event == event || !late_events[i].event) return i;
  abort(); /* more events than places */
}

static ga_status record_late_event(ga_event *event, ga_stream *stream) {
  const int i = place_of_event(event);
  (void)stream;
  late_events[i].event = event;
  late_events[i].recorded = ga_seconds();
  return GA_OK;
}

static ga_status query_late_event(ga_event *event, bool *done) {
  *done = ga_seconds() - late_events[place_of_event(event)].recorded > 1e-3 * late_ms;
  return GA_OK;
}

static void make_slow(ga_device *device, const rank_job *j) {
  slow_ops = *device->ops;
  if (j->copy_ms) slow_ops.copy_rows = copy_rows_slowly;
  if (j->event_ms) slow_ops.event_record = record_late_event, slow_ops.event_query = query_late_event;
  slow_ms = j->copy_ms, late_ms = j->event_ms;
  device->ops = &slow_ops;
}

void *run_rank(void *arg) {
  rank_job *j = arg;
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = j->device ? j->device : "cpu", options.threads = 1;
  ga_ctx *ctx = NULL;
  struct timespec a, b;
  (void)clock_gettime(CLOCK_MONOTONIC, &a);
  j->status = ga_ctx_create(&options, &ctx);
  if (j->status == GA_OK && (j->copy_ms || j->event_ms)) make_slow(ctx->device, j);
  if (j->status == GA_OK) run_with_rows(j, ctx);
  if (j->status != GA_OK) (void)snprintf(j->text, sizeof j->text, "%s", ga_error_text());
  if (j->status != GA_OK && ctx) j->ctx_works = still_works(ctx);
  ga_comm_destroy(j->comm);
  ga_ctx_destroy(ctx);
  (void)clock_gettime(CLOCK_MONOTONIC, &b);
  j->seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
  return NULL;
}

bool run_ranks(ga_dist_plan *const *plans, const ga_dist_desc *d, tensors *t, const ga_comm_threads_options *how,
               rank_job *jobs) {
  const int32_t ranks = how->ranks;
  ga_comm *comms[RANKS_MOST];
  pthread_t threads[RANKS_MOST];
  assert_int_equal(ga_comm_threads_create(how, comms), GA_OK);
  bool good = true;
  for (int32_t r = 0; r < ranks; r++) {
    jobs[r].plan = plans[r], jobs[r].comm = comms[r], jobs[r].t = t, jobs[r].d = d, jobs[r].rank = r;
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

double worst_of_all(const ga_dist_desc *d, const tensors *t) {
  if (!(d->flags & GA_DIST_BACKWARD))
    return fmax(worst(t->got_o, t->o, t->nq * d->q_heads * d->v_dim), worst_lse(t, t->nq * d->q_heads));
  const double q = worst(t->got_dq, t->dq, t->nq * d->q_heads * d->head_dim),
               k = worst(t->got_dk, t->dk, t->nk * d->kv_heads * d->head_dim),
               v = worst(t->got_dv, t->dv, t->nk * d->kv_heads * d->v_dim);
  double sinks = 0, top = 1;
  for (int32_t h = 0; h < d->q_heads && d->flags & GA_DIST_SINKS; h++) {
    double sum = 0;
    for (int32_t r = 0; r < ga_dist_layout_ranks(d->q); r++) sum += (double)t->got_dsinks[r][h];
    sinks = fmax(sinks, fabs(sum - (double)t->dsinks[h])), top = fmax(top, fabs((double)t->dsinks[h]));
  }
  return fmax(fmax(q, sinks / top), fmax(k, v));
}

static void add_error(const float *got, const double *want, int64_t n, double *error, double *value) {
  for (int64_t i = 0; i < n; i++) {
    *error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
    *value += want[i] * want[i];
  }
}

double mean_error(const ga_dist_desc *d, const tensors *t) {
  const tensor_sizes n = sizes_of(d);
  double error = 0, value = 1e-300;
  if (d->flags & GA_DIST_BACKWARD) {
    add_error(t->got_dq, t->dq, n.q, &error, &value);
    add_error(t->got_dk, t->dk, n.k, &error, &value);
    add_error(t->got_dv, t->dv, n.v, &error, &value);
  } else {
    add_error(t->got_o, t->o, n.o, &error, &value);
  }
  return sqrt(error / value);
}

uint64_t bits_of_all(const tensors *t, const ga_dist_desc *d) {
  uint64_t h = GA_FNV64_START;
  h = ga_fnv64(h, t->got_o, (size_t)(t->nq * d->q_heads * d->v_dim) * sizeof(float));
  h = ga_fnv64(h, t->got_lse, (size_t)(t->nq * d->q_heads) * sizeof(float));
  h = ga_fnv64(h, t->got_dq, (size_t)(t->nq * d->q_heads * d->head_dim) * sizeof(float));
  h = ga_fnv64(h, t->got_dk, (size_t)(t->nk * d->kv_heads * d->head_dim) * sizeof(float));
  return ga_fnv64(h, t->got_dv, (size_t)(t->nk * d->kv_heads * d->v_dim) * sizeof(float));
}
