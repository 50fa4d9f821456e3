/* Scheduling of matrix products over packed weights: activations are rounded once, then threads take runs of panels and
 * take each through all columns, so that weights come from memory once. A y is one thread's work in one order. */
#include "cpu/cpu_gemm_x16.h"

/* A run of panels is about this many bytes of weights: long enough to hide the counter, short enough that a thread that
 * loses its CPU for a while leaves the rest to others. */
#define CHUNK_BYTES (48 * 1024)

/* Up to so many activations (about 1.5 us) are rounded by the caller alone: a region costs as much. */
#define SERIAL_ROUND 4096

typedef struct x16_job {
  const ga_gemm_desc *desc;
  const ga_gemm_io *io;
  const ga_x16_impl *impl;
  const ga_x16_format *format;
  ga_x16_act *acts; /* [groups of columns][k / 32][columns of the group] */
  int64_t panels, panel_bytes, chunk;
} x16_job;

/* Columns of the group that starts at column c: the widest micro-kernel that is not too wide. */
static int64_t group_cols(const x16_job *job, int64_t c) {
  int64_t cols = ga_min_i64(GA_X16_MAX_COLS, job->desc->m - c);
  while (!job->impl->micro[cols]) cols--;
  return cols;
}

/* Rounds blocks [begin, end) of the activations, all columns in a row. */
static void quantise_range(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const x16_job *job = arg;
  const ga_gemm_desc *d = job->desc;
  const int64_t blocks = d->k / 32;
  for (int64_t c = 0, cols; c < d->m; c += cols) {
    cols = group_cols(job, c);
    for (int64_t i = c; i < c + cols; i++) {
      int64_t from = ga_max_i64(begin - i * blocks, 0), to = ga_min_i64(end - i * blocks, blocks);
      if (from >= to) continue;
      job->impl->quantise(job->format, (const float *)job->io->x + i * d->x_stride + 32 * from, to - from,
                          job->acts + c * blocks + from * cols + (i - c), cols);
    }
  }
}

static void multiply_panel(const x16_job *job, int64_t panel) {
  const ga_gemm_desc *d = job->desc;
  const uint8_t *w = (const uint8_t *)job->io->w + panel * job->panel_bytes;
  int64_t col = panel * GA_X16_ROWS, n = ga_min_i64(GA_X16_ROWS, d->n - col);
  GA_ALIGNED(64) float out[GA_X16_MAX_COLS][GA_X16_ROWS];
  for (int64_t c = 0, cols; c < d->m; c += cols) {
    cols = group_cols(job, c);
    if (job->acts)
      job->impl->micro[cols](w, job->acts + c * (d->k / 32), 0, d->k, out[0]);
    else
      job->impl->micro[cols](w, (const float *)job->io->x + c * d->x_stride, d->x_stride, d->k, out[0]);
    job->impl->epilogue(d, job->io, c, cols, col, n, out[0], GA_X16_ROWS);
  }
}

static void multiply_chunk(void *arg, int64_t i, int thread) {
  (void)thread;
  const x16_job *job = arg;
  const int64_t end = ga_min_i64((i + 1) * job->chunk, job->panels);
  for (int64_t p = i * job->chunk; p < end; p++) multiply_panel(job, p);
}

uint64_t ga_cpu_gemm_x16_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_gemm_desc *d = desc;
  const ga_x16_impl *impl = kernel->impl;
  uint64_t bytes;
  if (!impl->quantise) return 0;
  return ga_mul_ok((uint64_t)(d->k / 32) * sizeof(ga_x16_act), (uint64_t)d->m, &bytes) ? bytes : UINT64_MAX;
}

ga_status ga_cpu_gemm_x16(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  x16_job job = {.desc = desc, .io = io, .impl = kernel->impl, .format = ga_x16_format_of(kernel->dtype[0])};
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return GA_OK;
  job.acts = job.impl->quantise ? workspace : NULL;
  job.panels = ga_div_up(d->n, GA_X16_ROWS);
  job.panel_bytes = x16_panel_bytes(job.format, d->k);
  ga_pool *pool = cpu_gemm_is_small(d) ? NULL : cpu_pool(stream);
  const int threads = pool ? ga_pool_threads(pool) : 1;
  job.chunk =
      ga_max_i64(1, ga_min_i64(CHUNK_BYTES / ga_max_i64(1, job.panel_bytes), ga_div_up(job.panels, 4 * threads)));
  if (job.acts)
    ga_pool_run_ranges(d->m * d->k <= SERIAL_ROUND ? NULL : pool, d->m * (d->k / 32), 1, quantise_range, &job);
  ga_pool_run(pool, ga_div_up(job.panels, job.chunk), multiply_chunk, &job);
  return GA_OK;
}
