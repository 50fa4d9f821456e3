#include "verify/dist/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "cmdline/interrupt.h"
#include "ga/all_reduce.h"
#include "verify/dist/draw.h"
#include "verify/dist/words.h"

enum { WARM = 5 };
enum { PLAIN, NORMED, WAYS };
#define MOST_ELEMENTS ((int64_t)1 << 24)
#define SIZES         "4096,8192,16384,32768,65536,131072,262144,1048576"
#define ANY_SEED      1000 /* of numbers that are the same on all ranks */

/* Results of a rank for one size. */
typedef struct reduce_result {
  uint64_t bits;                        /* of all its results */
  int32_t timed[WAYS];                  /* has times */
  double us[WAYS][DIST_REDUCE_REPLAYS]; /* of a call */
} reduce_result;

typedef struct reduce_task {
  const dist_reduce_options *o;
  int32_t dtype, n_sizes;
  int64_t *bytes;
  int64_t most; /* elements of the largest size */
} reduce_task;

typedef struct reduce_rank {
  const reduce_task *t;
  const dist_rank *rank;
  ga_all_reduce *reduce;
  ga_event *start, *stop;
  void *x, *y, *residual, *weight; /* of the device */
  float *floats, *block;           /* of the host: numbers, and the same in the type */
  double *sums, *sizes;            /* of all ranks' x, of their absolute values */
} reduce_rank;

static int64_t number_bytes(const reduce_task *t) { return t->dtype == GA_F32 ? 4 : 2; }
/* Half the distance of two neighbours, as a part of a number. */
static double half_ulp(const reduce_task *t) {
  return t->dtype == GA_F32 ? 0x1p-24 : t->dtype == GA_F16 ? 0x1p-11 : 0x1p-8;
}

/* --- a rank's memory --- */

static ga_status open_reduce_rank(reduce_rank *r) {
  const int64_t n = r->t->most;
  const size_t bytes = (size_t)(n * number_bytes(r->t));
  ga_ctx *ctx = r->rank->device;
  ga_all_reduce_desc d = GA_ALL_REDUCE_DESC_INIT;
  d.max_elements = n, d.dtype = r->t->dtype, d.timeout = fmin(r->t->o->ranks->timeout, 3600);
  GA_TRY(ga_all_reduce_create(&d, r->rank->comm, ctx, &r->reduce));
  GA_TRY(ga_event_create(ctx, &r->start));
  GA_TRY(ga_event_create(ctx, &r->stop));
  GA_TRY(ga_buffer_alloc(ctx, bytes, &r->x));
  GA_TRY(ga_buffer_alloc(ctx, bytes, &r->y));
  GA_TRY(ga_buffer_alloc(ctx, bytes, &r->residual));
  GA_TRY(ga_buffer_alloc(ctx, DIST_REDUCE_WIDTH * sizeof(float), &r->weight));
  GA_TRY(dist_new_floats(n, &r->floats));
  GA_TRY(dist_new_floats(n, &r->block));
  r->sums = calloc((size_t)n, sizeof *r->sums);
  r->sizes = calloc((size_t)n, sizeof *r->sizes);
  return r->sums && r->sizes ? GA_OK : ga_fail_nomem("sums", (size_t)n * sizeof *r->sums);
}

static void close_reduce_rank(reduce_rank *r) {
  ga_ctx *ctx = r->rank->device;
  void *const all[] = {r->x, r->y, r->residual, r->weight};
  (void)!ga_stream_sync(ctx, NULL); /* no call of the sum may be in flight */
  ga_all_reduce_destroy(r->reduce);
  ga_event_destroy(r->start);
  ga_event_destroy(r->stop);
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(ctx, all[i]);
  free(r->floats), free(r->block), free(r->sums), free(r->sizes);
}

/* Draws n random numbers into r->floats, rounded to the type, and r->block, in the type. */
static ga_status draw_numbers(const reduce_rank *r, int64_t n, int32_t seed) {
  dist_fill_random(r->floats, n, (uint64_t)(r->t->o->ranks->seed + seed));
  GA_TRY(dist_convert(r->rank->host, GA_F32, r->floats, r->t->dtype, r->block, n));
  return dist_convert(r->rank->host, r->t->dtype, r->block, GA_F32, r->floats, n);
}

static ga_status draw_to(const reduce_rank *r, int64_t n, int32_t seed, void *device) {
  GA_TRY(draw_numbers(r, n, seed));
  return ga_copy_to_device(r->rank->device, device, r->block, (size_t)(n * number_bytes(r->t)), NULL);
}

/* Copies n numbers of the device to r->floats, and hashes their bits into *bits. */
static ga_status read_back(const reduce_rank *r, const void *device, int64_t n, uint64_t *bits) {
  const size_t bytes = (size_t)(n * number_bytes(r->t));
  GA_TRY(ga_copy_to_host(r->rank->device, r->block, device, bytes, NULL));
  *bits = ga_fnv64(*bits, r->block, bytes);
  return dist_convert(r->rank->host, r->t->dtype, r->block, GA_F32, r->floats, n);
}

/* --- checks --- */

static ga_status add_up_ranks(const reduce_rank *r, int64_t n) {
  memset(r->sums, 0, (size_t)n * sizeof *r->sums);
  memset(r->sizes, 0, (size_t)n * sizeof *r->sizes);
  for (int32_t p = 0; p < ga_comm_size(r->rank->comm); p++) {
    GA_TRY(draw_numbers(r, n, p));
    for (int64_t i = 0; i < n; i++) r->sums[i] += (double)r->floats[i], r->sizes[i] += fabs((double)r->floats[i]);
  }
  return GA_OK;
}

static ga_status judge_number(const reduce_rank *r, const char *what, int64_t i, double got, double want, double most) {
  GA_REQUIRE(fabs(got - want) <= most, GA_ERR_INTERNAL, "reduce: rank %d: %s %lld is %.9g; must be %.9g",
             ga_comm_rank(r->rank->comm), what, (long long)i, got, want);
  return GA_OK;
}

/* Sums in f32 lose a little where numbers cancel; f16 has steps of 2^-24 at 0. */
static double slack_of(const reduce_rank *r, int64_t i) {
  return ga_comm_size(r->rank->comm) * 0x1p-24 * r->sizes[i] + 0x1p-24 * (r->t->dtype == GA_F16);
}

static ga_status check_summed(const reduce_rank *r, int64_t n, uint64_t *bits) {
  const double unit = 1.01 * half_ulp(r->t);
  GA_TRY(draw_to(r, n, ga_comm_rank(r->rank->comm), r->x));
  GA_TRY(ga_all_reduce_run(r->reduce, r->x, r->y, n, NULL));
  GA_TRY(ga_all_reduce_check(r->reduce, NULL));
  GA_TRY(read_back(r, r->y, n, bits));
  for (int64_t i = 0; i < n; i++)
    GA_TRY(judge_number(r, "sum", i, (double)r->floats[i], r->sums[i], unit * fabs(r->sums[i]) + slack_of(r, i)));
  return GA_OK;
}

static ga_status enqueue_norm(const reduce_rank *r, int64_t n) {
  ga_all_reduce_norm_io io = GA_ALL_REDUCE_NORM_IO_INIT;
  io.x = r->x, io.y = r->y, io.residual = r->residual, io.weight = r->weight;
  io.rows = n / DIST_REDUCE_WIDTH, io.width = DIST_REDUCE_WIDTH;
  return ga_all_reduce_norm(r->reduce, &io, NULL);
}

/* Compares the residual with the sum, then y with the norm of that residual. r->sums becomes the residual. */
static ga_status check_normed(const reduce_rank *r, int64_t n, uint64_t *bits) {
  float *weight;
  const double unit = 1.01 * half_ulp(r->t);
  GA_TRY(dist_new_floats(DIST_REDUCE_WIDTH, &weight));
  dist_fill_random(weight, DIST_REDUCE_WIDTH, ANY_SEED + 1);
  ga_status status = ga_copy_to_device(r->rank->device, r->weight, weight, DIST_REDUCE_WIDTH * sizeof *weight, NULL);
  if (status == GA_OK) status = draw_to(r, n, ANY_SEED, r->residual);
  for (int64_t i = 0; i < n; i++) r->sizes[i] += fabs(r->sums[i]), r->sums[i] += (double)r->floats[i];
  if (status == GA_OK) status = enqueue_norm(r, n);
  if (status == GA_OK) status = ga_all_reduce_check(r->reduce, NULL);
  if (status == GA_OK) status = read_back(r, r->residual, n, bits);
  for (int64_t i = 0; i < n && status == GA_OK; i++) {
    const double most = unit * (fabs(r->sums[i]) + r->sizes[i]) + slack_of(r, i);
    status = judge_number(r, "residual", i, (double)r->floats[i], r->sums[i], most);
    r->sums[i] = (double)r->floats[i];
  }
  if (status == GA_OK) status = read_back(r, r->y, n, bits);
  for (int64_t row = 0; row < n && status == GA_OK; row += DIST_REDUCE_WIDTH) {
    double squares = 0;
    for (int64_t i = row; i < row + DIST_REDUCE_WIDTH; i++) squares += r->sums[i] * r->sums[i];
    const double factor = 1 / sqrt(squares / DIST_REDUCE_WIDTH + 1e-6);
    for (int64_t i = row; i < row + DIST_REDUCE_WIDTH && status == GA_OK; i++) {
      const double y = r->sums[i] * factor * (double)weight[i - row];
      status = judge_number(r, "norm", i, (double)r->floats[i], y, (unit + 1e-6) * fabs(y) + slack_of(r, i));
    }
  }
  free(weight);
  return status;
}

/* --- times --- */

static ga_status enqueue_way(const reduce_rank *r, int64_t n, int way) {
  return way == NORMED ? enqueue_norm(r, n) : ga_all_reduce_run(r->reduce, r->x, r->y, n, NULL);
}

/* Records CALLS calls; *out is NULL where the device has no graphs. */
static ga_status record_calls(const reduce_rank *r, int64_t n, int way, ga_graph **out) {
  ga_ctx *ctx = r->rank->device;
  *out = NULL;
  const ga_status begun = ga_graph_begin(ctx, NULL);
  if (begun == GA_ERR_UNSUPPORTED) return GA_OK;
  GA_TRY(begun);
  ga_status status = GA_OK;
  for (int i = 0; i < DIST_REDUCE_CALLS && status == GA_OK; i++) status = enqueue_way(r, n, way);
  const ga_status ended = ga_graph_end(ctx, NULL, out);
  return status == GA_OK ? ended : status;
}

/* Times one replay. A call before the clock starts makes all devices begin together. */
static ga_status replay(const reduce_rank *r, int64_t n, int way, ga_graph *graph, double *us) {
  ga_ctx *ctx = r->rank->device;
  double ms = 0;
  GA_REQUIRE(!interrupted(), GA_ERR_CANCELLED, "stopped");
  GA_TRY(ga_comm_meet(r->rank->comm, "replay", 0));
  GA_TRY(enqueue_way(r, n, way));
  GA_TRY(ga_event_record(ctx, r->start, NULL));
  GA_TRY(ga_graph_launch(ctx, graph, NULL));
  GA_TRY(ga_event_record(ctx, r->stop, NULL));
  GA_TRY(ga_event_elapsed(r->start, r->stop, &ms));
  *us = ms * 1e3 / DIST_REDUCE_CALLS;
  return GA_OK;
}

static ga_status time_way(const reduce_rank *r, int64_t n, int way, reduce_result *found) {
  ga_graph *graph;
  ga_status status = record_calls(r, n, way, &graph);
  found->timed[way] = graph != NULL;
  for (int i = -WARM; i < DIST_REDUCE_REPLAYS && graph && status == GA_OK; i++)
    status = replay(r, n, way, graph, &found->us[way][i < 0 ? 0 : i]);
  if (status == GA_OK) status = ga_all_reduce_check(r->reduce, NULL);
  ga_graph_destroy(graph);
  return status;
}

static ga_status one_size(const reduce_rank *r, int64_t bytes, reduce_result *found) {
  const int64_t n = bytes / number_bytes(r->t);
  uint64_t first = GA_FNV64_START, again = first;
  GA_TRY(add_up_ranks(r, n));
  GA_TRY(check_summed(r, n, &first));
  GA_TRY(time_way(r, n, PLAIN, found));
  GA_TRY(read_back(r, r->y, n, &again));
  GA_REQUIRE(again == first, GA_ERR_INTERNAL, "reduce: rank %d: %lld bytes: a graph gives other bits than a call",
             ga_comm_rank(r->rank->comm), (long long)bytes);
  if (n % DIST_REDUCE_WIDTH == 0) {
    GA_TRY(check_normed(r, n, &first));
    GA_TRY(time_way(r, n, NORMED, found));
  }
  found->bits = first;
  return GA_OK;
}

static ga_status reduce_on_rank(const dist_rank *rank, void *arg, void *result) {
  const reduce_task *t = arg;
  reduce_rank r = {.t = t, .rank = rank};
  reduce_result *found = result;
  ga_status status = open_reduce_rank(&r);
  for (int32_t i = 0; i < t->n_sizes && status == GA_OK; i++) status = one_size(&r, t->bytes[i], &found[i]);
  if (status == GA_OK) status = ga_comm_meet(rank->comm, "end", 0);
  close_reduce_rank(&r);
  return status;
}

/* --- figures of all ranks --- */

static int compare_us(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median over replays; each takes as long as its slowest rank. NAN = not timed. */
static double median_us(const reduce_task *t, const reduce_result *all, int32_t size, int way) {
  double slowest[DIST_REDUCE_REPLAYS] = {0};
  for (int64_t p = 0; p < t->o->ranks->n; p++) {
    const reduce_result *one = &all[p * t->n_sizes + size];
    if (!one->timed[way]) return NAN;
    for (int i = 0; i < DIST_REDUCE_REPLAYS; i++) slowest[i] = fmax(slowest[i], one->us[way][i]);
  }
  qsort(slowest, DIST_REDUCE_REPLAYS, sizeof *slowest, compare_us);
  return (slowest[DIST_REDUCE_REPLAYS / 2 - 1] + slowest[DIST_REDUCE_REPLAYS / 2]) / 2;
}

static ga_status fill_row_of(const reduce_task *t, const reduce_result *all, int32_t size, dist_reduce_row *row) {
  const int64_t bytes = t->bytes[size], n = bytes / number_bytes(t);
  const bool whole = n % DIST_REDUCE_WIDTH == 0;
  for (int64_t p = 1; p < t->o->ranks->n; p++)
    GA_REQUIRE(all[p * t->n_sizes + size].bits == all[size].bits, GA_ERR_INTERNAL,
               "reduce: %lld bytes: ranks 0 and %lld have other bits", (long long)bytes, (long long)p);
  *row = (dist_reduce_row){.bytes = bytes, .us = median_us(t, all, size, PLAIN)};
  row->rows = whole ? n / DIST_REDUCE_WIDTH : 0;
  row->us_norm = whole ? median_us(t, all, size, NORMED) : (double)NAN;
  return GA_OK;
}

static ga_status fill_sizes(const reduce_task *t, const reduce_result *all, dist_reduce_found *out) {
  out->row = calloc((size_t)t->n_sizes, sizeof *out->row);
  if (!out->row) return ga_fail_nomem("sizes", (size_t)t->n_sizes * sizeof *out->row);
  for (; out->n < t->n_sizes; out->n++) GA_TRY(fill_row_of(t, all, out->n, &out->row[out->n]));
  return GA_OK;
}

/* --- options --- */

static ga_status begin_reduce(const dist_reduce_options *o, reduce_task *t) {
  *t = (reduce_task){.o = o, .dtype = (int32_t)ga_dtype_from_name(o->type)};
  GA_REQUIRE(t->dtype == GA_F32 || t->dtype == GA_F16 || t->dtype == GA_BF16, GA_ERR_ARG,
             "--type '%.100s': must be f32, f16 or bf16", o->type);
  GA_TRY(dist_read_numbers("bytes", "multiples of 16, such as 8192 or 4096,131072", o->bytes ? o->bytes : SIZES,
                           &t->bytes, &t->n_sizes));
  for (int32_t i = 0; i < t->n_sizes; i++) {
    const int64_t n = t->bytes[i] / number_bytes(t);
    GA_REQUIRE(t->bytes[i] % 16 == 0 && n >= 1 && n <= MOST_ELEMENTS, GA_ERR_ARG,
               "--bytes %lld: must be a multiple of 16, 16 to %lld for %s", (long long)t->bytes[i],
               (long long)(MOST_ELEMENTS * number_bytes(t)), o->type);
    if (n > t->most) t->most = n;
  }
  GA_REQUIRE(dist_is_on_host(o->ranks->device) || o->ranks->n <= 8, GA_ERR_ARG,
             "--ranks %lld: on %.100s reduce takes at most 8", (long long)o->ranks->n, o->ranks->device);
  return GA_OK;
}

ga_status dist_check_reduce(const dist_reduce_options *o) {
  reduce_task t;
  const ga_status status = begin_reduce(o, &t);
  free(t.bytes);
  return status;
}

static ga_status run_reduce(reduce_task *t, dist_reduce_found *out) {
  const dist_ranks *ranks = t->o->ranks;
  const size_t bytes = (size_t)t->n_sizes * sizeof(reduce_result);
  reduce_result *all = calloc((size_t)ranks->n, bytes);
  if (!all) return ga_fail_nomem("results", (size_t)ranks->n * bytes);
  ga_status status = dist_meet_and_run(ranks, reduce_on_rank, t, bytes, all);
  if (status == GA_OK && dist_is_first(ranks)) status = fill_sizes(t, all, out);
  free(all);
  return status;
}

ga_status dist_reduce(const dist_reduce_options *o, dist_reduce_found *out) {
  reduce_task t;
  *out = (dist_reduce_found){0};
  dist_prepare_devices(o->ranks->device);
  ga_status status = begin_reduce(o, &t);
  if (status == GA_OK) status = run_reduce(&t, out);
  free(t.bytes);
  return status;
}

void dist_reduce_free(dist_reduce_found *f) { free(f->row); }
