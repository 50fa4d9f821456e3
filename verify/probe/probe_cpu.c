/* A CPU: memory, multiply-adds, matrix units. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "verify/bench/bench.h"
#include "verify/bench/peak.h"
#include "verify/probe/probe.h"

#define COPY_BYTES ((size_t)1 << 20) /* claimed by whichever thread is free */

typedef struct copy_job {
  char *to;
  const char *from;
} copy_job;

static void copy_block(void *arg, int64_t i, int thread) {
  (void)thread;
  copy_job *job = arg;
  memcpy(job->to + (size_t)i * COPY_BYTES, job->from + (size_t)i * COPY_BYTES, COPY_BYTES);
}

/* Read and written bytes of the best of several copies of more than the last cache. */
static ga_status measure_copy(probe *p) {
  const int64_t blocks = p->brief ? 1 : (int64_t)(bench_rotation(p->ctx->device) / COPY_BYTES);
  const size_t bytes = (size_t)blocks * COPY_BYTES;
  void *from, *to;
  double best = HUGE_VAL;
  GA_TRY(ga_buffer_alloc(p->ctx, bytes, &from));
  ga_status status = ga_buffer_alloc(p->ctx, bytes, &to);
  if (status == GA_OK) {
    memset(from, 1, bytes); /* host memory; untouched pages would all be one page of zeros */
    memset(to, 2, bytes);
    copy_job job = {to, from};
    const double start = ga_seconds();
    do {
      const double t = ga_seconds();
      ga_pool_run(p->ctx->device->pool, blocks, copy_block, &job);
      best = fmin(best, ga_seconds() - t);
    } while (ga_seconds() - start < p->seconds);
    ga_buffer_free(p->ctx, to);
  }
  ga_buffer_free(p->ctx, from);
  if (status == GA_OK) probe_put(p, 2 * (double)bytes / best * 1e-9, "copy_gbs");
  return status;
}

ga_status probe_cpu(probe *p) {
  ga_pool *pool = p->ctx->device->pool;
  bench_ceiling c;
  GA_REQUIRE(pool, GA_ERR_UNSUPPORTED, "probe: %s is not made for speed; allowed: cpu, cuda:N", p->ctx->device->name);
  p->total = 4;
  GA_TRY(bench_use_given_cache());
  GA_TRY(probe_step(p, "copy"));
  GA_TRY(measure_copy(p));
  GA_TRY(probe_step(p, "read, multiply-adds"));
  GA_TRY(bench_measure_ceiling(p->ctx, &c));
  probe_put(p, c.read_gbs, "read_gbs");
  if (c.gflops[BENCH_F32] > 0) probe_put(p, c.gflops[BENCH_F32], "f32_fma_gflops");
  for (int int8 = 0; int8 < 2; int8++) {
    GA_TRY(probe_step(p, "matrix units"));
    const double rate = bench_peak_rate(pool, bench_amx_peak(p->ctx->device->caps.isas, int8));
    if (rate > 0) probe_put(p, rate * 1e-9, int8 ? "amx_int8_gflops" : "amx_bf16_gflops");
  }
  return GA_OK;
}
