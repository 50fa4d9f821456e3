/* Collectives. A draw's x and y hold the arrays of all ranks, one after another; launch_ranks runs each rank in a
 * thread of its own, over a communicator that lives for that launch, and compares ranks that must have equal bits. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "ga/collective.h"
#include "ref/ref.h"
#include "verify/check/check.h"

enum { MOST_RANKS = 4 };

#define Y_IS_X 1u /* bits of c->bits */

static int32_t collective_kind_of(ga_op op) {
  switch (op) {
  case GA_OP_all_gather: return GA_ALL_GATHER;
  case GA_OP_reduce_scatter: return GA_REDUCE_SCATTER;
  case GA_OP_all_to_all: return GA_ALL_TO_ALL;
  case GA_OP_send_recv: return GA_SEND_RECV;
  default: return GA_ALL_REDUCE;
  }
}

static bool runs_on_gpu(const ga_kernel *kernel) { return kernel->isa >= GA_ISA_sm80; }

/* A GPU under test is one rank: kernels that wait for each other need a GPU each. */
static void draw(check_case *c) {
  ga_collective_desc *d = c->desc;
  *d = (ga_collective_desc)GA_COLLECTIVE_DESC_INIT;
  d->kind = collective_kind_of(c->kernel->op);
  d->n = check_dim(c, 0, 1500);
  if (check_pick(c, 6) == 0) d->n = 10000 + check_pick(c, 50000); /* that ranks sum by parts */
  d->dtype = check_dtype(c, 0);
  d->ranks = 1 + check_pick(c, MOST_RANKS);
  if (d->kind == GA_SEND_RECV && d->ranks == 1) d->ranks = 2;
  if (runs_on_gpu(c->kernel)) {
    d->ranks = 1;
    d->flags = d->kind == GA_ALL_REDUCE ? GA_COLLECTIVE_WINDOWS : GA_COLLECTIVE_LINKS;
    if (d->kind == GA_SEND_RECV) d->n = 0; /* there is no other rank */
  } else if (check_pick(c, 2)) {
    d->reach = GA_COMM_SAME_MEMORY;
  }
}

static int64_t x_elements(const ga_collective_desc *d) {
  return d->kind == GA_REDUCE_SCATTER || d->kind == GA_ALL_TO_ALL ? d->n * d->ranks : d->n;
}

static int64_t y_elements(const ga_collective_desc *d) {
  return d->kind == GA_ALL_GATHER || d->kind == GA_ALL_TO_ALL ? d->n * d->ranks : d->n;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_collective_desc *d = desc;
  const size_t align = runs_on_gpu(c->kernel) ? 16 : 0;
  check_in(a, "x", offsetof(ga_collective_io, x), d->dtype, d->ranks, x_elements(d), x_elements(d))->align = align;
  check_arg *y = check_out(a, "y", offsetof(ga_collective_io, y), d->dtype, d->ranks, y_elements(d), y_elements(d));
  y->align = align;
  if (d->kind == GA_ALL_REDUCE && c->bits & Y_IS_X) y->alias = 0;
}

static void oracle_types(void *desc) { ((ga_collective_desc *)desc)->dtype = GA_F64; }

/* --- all ranks --- */

typedef struct rank_launch {
  const ga_plan_steps *steps;
  const ga_collective_desc *d;
  ga_collective_io io;
  void *workspace;
  ga_stream *stream;
  ga_status status;
  char text[400];
} rank_launch;

static ga_status open_windows_of(rank_launch *r) {
  ga_all_reduce_desc d = GA_ALL_REDUCE_DESC_INIT;
  d.dtype = r->d->dtype;
  d.max_elements = ga_max_i64(r->d->n, 1);
  return ga_all_reduce_create(&d, r->io.comm, r->stream->ctx, &r->io.windows);
}

static ga_status launch_rank(rank_launch *r) {
  const uint32_t needs = ga_device_in_host_memory(r->stream->device) ? 0 : r->d->flags; /* the oracle needs neither */
  if (needs & GA_COLLECTIVE_WINDOWS) GA_TRY(open_windows_of(r));
  if (needs & GA_COLLECTIVE_LINKS) GA_TRY(ga_links_create(r->io.comm, r->stream->ctx, "host", &r->io.links));
  ga_status status = ga_plan_steps_launch(r->steps, r->d, &r->io, r->workspace, r->stream);
  if (status == GA_OK && r->io.windows) status = ga_all_reduce_check(r->io.windows, r->stream);
  if (status == GA_OK) status = ga_stream_sync(r->stream->ctx, r->stream);
  ga_all_reduce_destroy(r->io.windows);
  ga_links_destroy(r->io.links);
  return status;
}

static void *live_collective_rank(void *arg) {
  rank_launch *r = arg;
  r->status = launch_rank(r);
  if (r->status != GA_OK)
    (void)snprintf(r->text, sizeof r->text, "rank %d: %s", ga_comm_rank(r->io.comm), ga_error_text());
  return NULL;
}

/* Rank 0 is this thread, with the workspace that is looked at. */
static ga_status run_all_ranks(rank_launch *ranks, int32_t n) {
  pthread_t threads[MOST_RANKS];
  int32_t started = 1;
  for (; started < n; started++)
    if (pthread_create(&threads[started], NULL, live_collective_rank, &ranks[started])) break;
  if (started < n) ga_comm_abort(ranks[0].io.comm, "the system refuses a thread");
  (void)live_collective_rank(&ranks[0]);
  for (int32_t r = 1; r < started; r++) (void)pthread_join(threads[r], NULL);
  for (int32_t r = 0; r < n; r++)
    if (ranks[r].status != GA_OK) return ga_fail(ranks[r].status, "%s", ranks[r].text);
  return GA_OK;
}

/* Sums are made in one order: all ranks have the same bits. */
static ga_status compare_ranks(const rank_launch *ranks, size_t y_bytes) {
  const ga_collective_desc *d = ranks->d;
  if (d->kind != GA_ALL_REDUCE || !ga_device_in_host_memory(ranks->stream->device) || !y_bytes) return GA_OK;
  for (int32_t r = 1; r < d->ranks; r++)
    GA_REQUIRE(!memcmp(ranks[r].io.y, ranks[0].io.y, y_bytes), GA_ERR_INTERNAL, "rank %d has other bits than rank 0",
               r);
  return GA_OK;
}

static ga_status set_up_ranks(rank_launch *ranks, const ga_collective_desc *d, const ga_collective_io *io) {
  const size_t element = (size_t)ga_dtype_info((ga_dtype)d->dtype)->block_bytes;
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  ga_comm *comms[MOST_RANKS];
  o.ranks = d->ranks, o.timeout = 60;
  GA_TRY(ga_comm_threads_create(&o, comms));
  for (int32_t r = 0; r < d->ranks; r++) {
    ranks[r].io = *io;
    ranks[r].io.comm = comms[r];
    ranks[r].io.x = (const char *)io->x + (size_t)(r * x_elements(d)) * element;
    ranks[r].io.y = (char *)io->y + (size_t)(r * y_elements(d)) * element;
    ranks[r].io.to = d->ranks > 1 ? (r + 1) % d->ranks : -1;
    ranks[r].io.from = d->ranks > 1 ? (r + d->ranks - 1) % d->ranks : -1;
  }
  for (int32_t r = 1; r < d->ranks && ranks->steps->workspace_bytes; r++)
    GA_TRY(ga_mem_alloc((size_t)ranks->steps->workspace_bytes, "workspace of a rank", &ranks[r].workspace));
  return GA_OK;
}

static ga_status launch_ranks(const ga_plan_steps *steps, const void *desc, const void *io, void *workspace,
                              ga_stream *stream) {
  const ga_collective_desc *d = desc;
  rank_launch ranks[MOST_RANKS];
  for (int32_t r = 0; r < MOST_RANKS; r++) ranks[r] = (rank_launch){.steps = steps, .d = d, .stream = stream};
  ga_status status = set_up_ranks(ranks, d, io);
  ranks[0].workspace = workspace;
  if (status == GA_OK) status = run_all_ranks(ranks, d->ranks);
  if (status == GA_OK)
    status = compare_ranks(ranks, (size_t)y_elements(d) * (size_t)ga_dtype_info((ga_dtype)d->dtype)->block_bytes);
  for (int32_t r = 0; r < d->ranks; r++) {
    ga_comm_destroy(ranks[r].io.comm);
    if (r) ga_mem_free(ranks[r].workspace);
  }
  return status;
}

/* --- the plain evaluation --- */

/* Element i of y of a rank: the one element of x that it is, or the f32 sum of one of each rank. */
static double plain_of_ranks(const ga_collective_desc *d, const ga_collective_io *a, int32_t rank, int64_t i) {
  const ga_dtype t = (ga_dtype)d->dtype;
  const int64_t each = x_elements(d), row = d->n ? i / d->n : 0, column = d->n ? i % d->n : 0;
  float sum = 0;
  switch (d->kind) {
  case GA_ALL_GATHER: return ga_ref_load(t, a->x, row * each + column);
  case GA_ALL_TO_ALL: return ga_ref_load(t, a->x, row * each + rank * d->n + column);
  case GA_SEND_RECV: return ga_ref_load(t, a->x, (rank + d->ranks - 1) % d->ranks * each + i);
  default:
    for (int32_t r = 0; r < d->ranks; r++)
      sum += (float)ga_ref_load(t, a->x, r * each + (d->kind == GA_REDUCE_SCATTER ? rank * d->n : 0) + i);
    return (double)sum;
  }
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_collective_desc *d = desc;
  const ga_collective_io *a = io;
  const int64_t each = y_elements(d);
  for (int32_t r = 0; r < d->ranks; r++)
    for (int64_t i = 0; i < each; i++) ga_ref_store((ga_dtype)d->dtype, a->y, r * each + i, plain_of_ranks(d, a, r, i));
  return GA_OK;
}

static bool is_sum(const ga_collective_desc *d) { return d->kind == GA_ALL_REDUCE || d->kind == GA_REDUCE_SCATTER; }

/* One spacing of the type at the size of all terms: their sum may be small. */
static void unit(const check_case *c, const check_arg *y, const void *io, double *unit, int64_t n) {
  const ga_collective_desc *d = c->oracle_desc;
  const ga_collective_io *a = io;
  const int64_t each = y_elements(d), x_each = x_elements(d);
  for (int64_t i = 0; i < n; i++) {
    const int64_t rank = i / each, at = i % each + (d->kind == GA_REDUCE_SCATTER ? rank * d->n : 0);
    double size = 0;
    for (int32_t r = 0; r < d->ranks && is_sum(d); r++) size += fabs(ga_ref_load(GA_F64, a->x, r * x_each + at));
    unit[i] = check_ulp(y->dtype, is_sum(d) ? size : ga_ref_load(GA_F64, a->y, i));
  }
}

static void describe(const void *desc, char *text, size_t capacity) {
  const ga_collective_desc *d = desc;
  (void)snprintf(text, capacity, "ranks=%d reach=%u flags=%u", d->ranks, d->reach, d->flags);
}

#define CHECK_COLLECTIVE(op)                                       \
  const check_op check_##op = {                                    \
      .modes = CHECK_EXACT | CHECK_NORMAL | CHECK_HOSTILE,         \
      .specials = CHECK_INF | CHECK_NAN | CHECK_HUGE | CHECK_TINY, \
      .ulps = 1,                                                   \
      .draw = draw,                                                \
      .args = args,                                                \
      .oracle_types = oracle_types,                                \
      .launch = launch_ranks,                                      \
      .plain = plain,                                              \
      .unit = unit,                                                \
      .describe = describe,                                        \
  }
CHECK_COLLECTIVE(all_reduce);
CHECK_COLLECTIVE(all_gather);
CHECK_COLLECTIVE(reduce_scatter);
CHECK_COLLECTIVE(all_to_all);
CHECK_COLLECTIVE(send_recv);
