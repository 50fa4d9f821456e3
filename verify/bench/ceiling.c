/* What a device can do at best: a CPU measured in the same run, a GPU by ga probe. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "verify/bench/bench.h"
#include "verify/bench/peak.h"
#include "verify/probe/probe.h"

/* --- caches --- */

static size_t given_bytes; /* 0: as the system says */

ga_status bench_use_given_cache(void) {
  const char *text = getenv("GA_LAST_CACHE");
  char *end;
  if (!text || !*text) return GA_OK;
  const long mib = strtol(text, &end, 10);
  GA_REQUIRE(!*end && mib >= 1 && mib <= 1 << 20, GA_ERR_ARG, "GA_LAST_CACHE is '%s'; must be 1 to 1048576 (MiB)",
             text);
  given_bytes = (size_t)mib << 20;
  return GA_OK;
}

static size_t last_cache(const ga_device *device) {
  if (given_bytes) return given_bytes;
  if (device->caps.l2_bytes) return device->caps.l2_bytes;
  long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? (size_t)bytes : (size_t)32 << 20;
}

size_t bench_rotation(const ga_device *device) {
  size_t want = 3 * last_cache(device), most = (size_t)3 << 29, memory = device->caps.memory_bytes / 4;
  if (want > most) want = most;
  return memory && want > memory ? memory : want;
}

/* --- reading --- */

#define BLOCK_WORDS  ((int64_t)1 << 17) /* 1 MiB, claimed by whichever thread is free */
#define ROUND_BLOCKS 16                 /* read in one round; rounds go through the whole buffer */

typedef struct read_job {
  const uint64_t *data;
  _Atomic uint64_t sink;
} read_job;

static void read_block(void *arg, int64_t block, int thread) {
  (void)thread;
  read_job *job = arg;
  uint64_t sum[8] = {0};
  const uint64_t *p = job->data + block * BLOCK_WORDS;
  for (int64_t i = 0; i < BLOCK_WORDS; i += 8)
    for (int j = 0; j < 8; j++) sum[j] += p[i + j];
  for (int j = 1; j < 8; j++) sum[0] += sum[j];
  atomic_fetch_add_explicit(&job->sink, sum[0], memory_order_relaxed); /* keeps the loop */
}

static double seconds_since(const struct timespec *then) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) * 1e-9;
}

static double time_of(ga_pool *pool, int64_t pieces, ga_piece_fn fn, void *arg) {
  struct timespec start;
  (void)clock_gettime(CLOCK_MONOTONIC, &start);
  ga_pool_run(pool, pieces, fn, arg);
  return seconds_since(&start);
}

/* Best round of two passes over more than the last cache. */
static ga_status measure_read(ga_ctx *ctx, double *gbs) {
  const size_t round_bytes = (size_t)ROUND_BLOCKS * BLOCK_WORDS * 8;
  size_t rounds = bench_rotation(ctx->device) / round_bytes + 1;
  void *data;
  double best = HUGE_VAL;
  GA_TRY(ga_buffer_alloc(ctx, rounds * round_bytes, &data));
  memset(data, 1, rounds * round_bytes); /* host memory; untouched pages would all be one page of zeros */
  for (size_t i = 0; i < 2 * rounds; i++) {
    read_job job = {.data = (void *)((char *)data + i % rounds * round_bytes)};
    best = fmin(best, time_of(ctx->device->pool, ROUND_BLOCKS, read_block, &job));
  }
  ga_buffer_free(ctx, data);
  *gbs = (double)round_bytes / best * 1e-9;
  return GA_OK;
}

double bench_peak_rate(ga_pool *pool, bench_peak peak) {
  double best = HUGE_VAL;
  if (!peak.run) return 0;
  for (int i = 0; i < 50; i++) best = fmin(best, time_of(pool, ga_pool_threads(pool), peak.run, NULL));
  return peak.flops * ga_pool_threads(pool) / best;
}

/* What ga probe found on this very device. */
static void read_figures(const ga_ctx *ctx, bench_ceiling *out) {
  static const char *const names[BENCH_N_UNITS] = {"f32_fma_tflops", "bf16_tflops", "f16_tflops", "e4m3_tflops"};
  json_t *figures = probe_read(ctx);
  out->read_gbs = json_number_value(json_object_get(figures, "read_gbs"));
  for (int i = 0; i < BENCH_N_UNITS; i++) out->gflops[i] = 1e3 * json_number_value(json_object_get(figures, names[i]));
  json_decref(figures);
}

ga_status bench_measure_ceiling(ga_ctx *ctx, bench_ceiling *out) {
  *out = (bench_ceiling){0};
  GA_TRY(bench_use_given_cache());
  ga_pool *pool = ctx->device->pool;
  if (bench_has_clock(ctx->device)) read_figures(ctx, out);
  if (!pool) return GA_OK;
  GA_TRY(measure_read(ctx, &out->read_gbs));
  out->gflops[BENCH_F32] = bench_peak_rate(pool, bench_peak_for(ctx->device->caps.isas)) * 1e-9;
  return GA_OK;
}
