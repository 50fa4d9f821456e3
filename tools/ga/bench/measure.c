/* Timing a group of rows that do the same work. */
#include <stdlib.h>
#include <time.h>

#include "tools/ga/bench/bench.h"

#define MIN_SAMPLES 11
#define LEAST_SAMPLES 5 /* of rows so slow that MIN_SAMPLES take four times as long as they were given */
#define MAX_SAMPLES 2000
#define SAMPLE_SECONDS 50e-6 /* shorter calls are repeated within one sample: the clock has a grain of some 30 ns */
#define MAX_SETS 16384

/* One row with its buffers: n_sets copies of all arguments behind each other, and one workspace. */
typedef struct lane {
  check_case c;
  uint8_t *memory;
  size_t set_bytes;
  int n_sets, at;
  unsigned char (*io)[CHECK_MAX_IO]; /* of each set */
  void *workspace;
  int64_t calls;
  double *samples;
  int64_t n_samples;
} lane;

static size_t bytes_of_set(const check_args *a) {
  size_t bytes = 0;
  for (int i = 0; i < a->n; i++)
    if (a->arg[i].alias < 0) bytes += ga_round_up(a->arg[i].bytes, 256);
  return bytes;
}

static ga_status fill_set(ga_ctx *ctx, lane *l, int set) {
  uint8_t *base = l->memory + (size_t)set * l->set_bytes;
  check_args *a = &l->c.row;
  for (int i = 0; i < a->n; i++) {
    check_arg *arg = &a->arg[i];
    if (arg->alias >= 0) continue;
    arg->device = base;
    GA_TRY(ga_copy_to_device(ctx, base, arg->before, arg->bytes, NULL));
    base += ga_round_up(arg->bytes, 256);
  }
  memcpy(l->io[set], a->io, CHECK_MAX_IO);
  for (int i = 0; i < a->n; i++) {
    const check_arg *owner = a->arg[i].alias >= 0 ? &a->arg[a->arg[i].alias] : &a->arg[i];
    void *p = (char *)owner->device + owner->at;
    memcpy(l->io[set] + a->arg[i].io_at, &p, sizeof p);
  }
  return GA_OK;
}

static ga_status open_case(ga_ctx *ctx, const ga_kernel *kernel, int shape, const bench_options *o, lane *l, char *name) {
  const bench_op *bench = bench_op_of(kernel->op);
  check_case *c = &l->c;
  c->op = check_op_of(kernel->op);
  c->kernel = kernel;
  c->ctx = ctx;
  c->mode = CHECK_NORMAL;
  c->bits = bench->bits;
  c->edge = -1;
  c->desc = c->desc_bytes[0];
  c->oracle_desc = c->desc_bytes[1];
  ga_rng_seed(&c->rng, o->seed);
  ga_arena_init(&c->arena, 0);
  (void)bench->shape(shape, kernel, c->desc, name);
  memcpy(c->oracle_desc, c->desc, GA_DESC_MAX_BYTES);
  if (c->op->widen) c->op->widen(c->oracle_desc);
  return check_build_row(c);
}

static ga_status open_lane(ga_ctx *ctx, const ga_kernel *kernel, int shape, size_t budget, const bench_options *o, lane *l,
                           char *name) {
  void *p;
  GA_TRY(open_case(ctx, kernel, shape, o, l, name));
  l->set_bytes = bytes_of_set(&l->c.row);
  size_t sets = o->hot ? 1 : budget / l->set_bytes + 1;
  l->n_sets = (int)(sets > MAX_SETS ? MAX_SETS : sets);
  GA_TRY(ga_mem_zalloc((size_t)l->n_sets, CHECK_MAX_IO, "bench", &p));
  l->io = p;
  GA_TRY(ga_mem_zalloc(MAX_SAMPLES, sizeof(double), "bench", &p));
  l->samples = p;
  GA_TRY(ga_buffer_alloc(ctx, l->set_bytes * (size_t)l->n_sets, &p));
  l->memory = p;
  for (int s = 0; s < l->n_sets; s++) GA_TRY(fill_set(ctx, l, s));
  uint64_t bytes = kernel->workspace ? kernel->workspace(kernel, l->c.desc, &ctx->device->caps) : 0;
  return bytes ? ga_buffer_alloc(ctx, bytes, &l->workspace) : GA_OK;
}

static void close_lane(ga_ctx *ctx, lane *l) {
  ga_buffer_free(ctx, l->memory);
  ga_buffer_free(ctx, l->workspace);
  ga_mem_free(l->io);
  ga_mem_free(l->samples);
  ga_arena_free(&l->c.arena);
}

static ga_status sample(ga_ctx *ctx, lane *l, double *seconds) {
  const bench_clock *clock = bench_clock_of(ctx->device);
  GA_ALIGNED(16) unsigned char state[64];
  GA_TRY(clock->start(ctx->stream, state));
  for (int64_t i = 0; i < l->calls; i++) {
    GA_TRY(l->c.kernel->launch(l->c.kernel, l->c.desc, l->io[l->at], l->workspace, ctx->stream));
    l->at = l->at + 1 == l->n_sets ? 0 : l->at + 1;
  }
  GA_TRY(clock->stop(ctx->stream, state, seconds));
  *seconds /= (double)l->calls;
  return GA_OK;
}

/* Two calls to warm up code and threads, one to see how long it takes. */
static ga_status warm_up(ga_ctx *ctx, lane *l) {
  double seconds = 0;
  l->calls = 1;
  for (int i = 0; i < 3; i++) GA_TRY(sample(ctx, l, &seconds));
  l->calls = seconds < SAMPLE_SECONDS ? (int64_t)(SAMPLE_SECONDS / fmax(seconds, 1e-8)) + 1 : 1;
  return GA_OK;
}

static void shuffle(int *order, int n, ga_rng *rng) {
  for (int i = n - 1; i > 0; i--) {
    int j = (int)ga_rng_below(rng, (uint64_t)i + 1), t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
}

/* Rounds: every lane once, in a new order. */
static ga_status take_turns(ga_ctx *ctx, lane *lanes, int n, const bench_options *o) {
  ga_rng rng;
  int order[64];
  double spent = 0;
  ga_rng_seed(&rng, o->seed);
  for (int i = 0; i < n; i++) order[i] = i;
  for (int round = 0; round < MAX_SAMPLES; round++) {
    double share = spent / (o->seconds * n);
    if ((round >= MIN_SAMPLES && share > 1) || (round >= LEAST_SAMPLES && share > 4)) break;
    shuffle(order, n, &rng);
    for (int i = 0; i < n; i++) {
      lane *l = &lanes[order[i]];
      double seconds;
      GA_TRY(sample(ctx, l, &seconds));
      l->samples[l->n_samples++] = seconds;
      spent += seconds * (double)l->calls;
    }
  }
  return GA_OK;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void bench_percentiles(double *x, int64_t n, bench_result *out) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  out->median = n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
  out->p10 = x[(n - 1) / 10];
  out->p90 = x[(n - 1) - (n - 1) / 10];
}

static void conclude(lane *l, bench_result *out) {
  const bench_op *bench = bench_op_of(l->c.kernel->op);
  out->kernel = l->c.kernel;
  out->samples = l->n_samples;
  out->calls = l->calls;
  out->n_sets = l->n_sets;
  out->flops = bench->flops ? bench->flops(l->c.desc) : 0;
  out->bytes = bench->bytes ? bench->bytes(l->c.desc) : 0;
  for (int i = 0; !bench->bytes && i < l->c.row.n; i++) {
    const check_arg *arg = &l->c.row.arg[i];
    const ga_dtype_traits *t = ga_dtype_info(arg->dtype);
    out->bytes += (double)check_count(arg) / t->block_elems * t->block_bytes * (arg->role == CHECK_INOUT ? 2 : 1);
  }
  bench_percentiles(l->samples, l->n_samples, out);
}

ga_status bench_group(ga_ctx *ctx, const ga_kernel *const *rows, int n, int shape, const bench_options *o, bench_result *out) {
  void *p;
  GA_REQUIRE(n >= 1 && n <= 64, GA_ERR_ARG, "bench: %d rows at once; at most 64", n);
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof(lane), "bench", &p));
  lane *lanes = p;
  ga_status status = GA_OK;
  for (int i = 0; i < n && status == GA_OK; i++) {
    status = open_lane(ctx, rows[i], shape, bench_rotation(ctx->device) / (size_t)n, o, &lanes[i], out[i].shape);
    if (status == GA_OK) status = warm_up(ctx, &lanes[i]);
  }
  if (status == GA_OK) status = take_turns(ctx, lanes, n, o);
  for (int i = 0; i < n; i++) {
    if (status == GA_OK) conclude(&lanes[i], &out[i]);
    close_lane(ctx, &lanes[i]);
  }
  ga_mem_free(lanes);
  return status;
}
