/* Matrix product for any machine and every weight type in its native layout: weights are dequantised to f32 a few rows
 * at a time, activations stay f32. Each y is one thread's work in one order, whatever m and the number of threads. */
#include <math.h>

#include "base/mem.h"
#include "cpu/cpu_gemm.h"
#include "opdef/gemm_at.h"

#define ROWS  GA_CPU_GEMM_ROWS /* rows of W dequantised together: each x is loaded once for all of them */
#define LANES 8 /* partial sums of a dot product, so that the compiler can use vectors without changing the result */

float ga_cpu_gemm_activate(int32_t act, float x) {
  switch (act) {
  case GA_ACT_SILU: return x / (1 + expf(-x));
  case GA_ACT_GELU_TANH: return 0.5f * x * (1 + tanhf(0.797884561f /* sqrt(2/pi) */ * (x + 0.044715f * x * x * x)));
  case GA_ACT_GELU_ERF: return 0.5f * x * (1 + erff(x * 0.707106781f /* sqrt(1/2) */));
  default: return x;
  }
}

void ga_cpu_gemm_epilogue(const ga_gemm_desc *d, const ga_gemm_io *io, int64_t row, int64_t col, int64_t n,
                          const float *t) {
  int64_t at = row * d->y_stride + col;
  const float *gate = io->gate, *residual = io->residual;
  float *y = (float *)io->y + at;
  for (int64_t i = 0; i < n; i++) {
    float v = d->scale * t[i];
    if (d->flags & GA_GEMM_BIAS) v += io->bias[col + i];
    v = d->flags & GA_GEMM_GLU ? ga_cpu_gemm_activate(d->act, gate[at + i]) * v : ga_cpu_gemm_activate(d->act, v);
    if (d->flags & GA_GEMM_RESIDUAL) v += residual[at + i];
    y[i] = v;
  }
}

typedef struct generic_job {
  const ga_gemm_desc *desc;
  const ga_gemm_io *io;
  const float *x;
  int64_t x_stride;
  float *scratch; /* ROWS * k a thread */
} generic_job;

void ga_cpu_gemm_dot_rows(const float *x, const float *w, int64_t k, float t[ROWS]) {
  float sum[ROWS][LANES] = {{0}};
  int64_t i = 0;
  for (; i + LANES <= k; i += LANES)
    for (int r = 0; r < ROWS; r++)
      for (int l = 0; l < LANES; l++) sum[r][l] += x[i + l] * w[r * k + i + l];
  for (; i < k; i++)
    for (int r = 0; r < ROWS; r++) sum[r][0] += x[i] * w[r * k + i];
  for (int r = 0; r < ROWS; r++)
    t[r] = ((sum[r][0] + sum[r][4]) + (sum[r][2] + sum[r][6])) + ((sum[r][1] + sum[r][5]) + (sum[r][3] + sum[r][7]));
}

static void generic_range(void *arg, int64_t begin, int64_t end, int thread) {
  const generic_job *job = arg;
  const ga_gemm_desc *d = job->desc;
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->w_dtype);
  int64_t row_bytes = d->k / t->block_elems * t->block_bytes;
  float *w = job->scratch + thread * ROWS * d->k, dots[ROWS];
  for (int64_t c = begin; c < end; c += ROWS) {
    int64_t rows = end - c < ROWS ? end - c : ROWS;
    for (int64_t r = 0; r < ROWS; r++) /* a short group repeats its last row and drops the result */
      ga_cpu_dequantise((ga_dtype)d->w_dtype, (const uint8_t *)job->io->w + (c + (r < rows ? r : rows - 1)) * row_bytes,
                        d->k, w + r * d->k);
    for (int64_t m = 0; m < d->m; m++) {
      ga_cpu_gemm_dot_rows(job->x + m * job->x_stride, w, d->k, dots);
      ga_cpu_gemm_epilogue(d, job->io, m, c, rows, dots);
    }
  }
}

/* GA_GEMM_X_E4M3: rows of X behind the threads' scratch, each code times its scale. */
static void round_rows_of_x(generic_job *job, float *to) {
  const ga_gemm_desc *d = job->desc;
  for (int64_t i = 0; i < d->m * d->k; i += GA_GEMM_SCALE_BLOCK) { /* rows are whole blocks */
    const float scale = ga_gemm_x_codes(job->x + i / d->k * d->x_stride + i % d->k, GA_GEMM_SCALE_BLOCK, to + i);
    for (int64_t e = 0; e < GA_GEMM_SCALE_BLOCK; e++) to[i + e] *= scale;
  }
  job->x = to;
  job->x_stride = d->k;
}

/* Rows of k numbers: of W for each thread, and behind them all of X where it is rounded. */
static uint64_t rows_of_w(const ga_caps *caps) { return (uint64_t)(caps->threads > 1 ? caps->threads : 1) * ROWS; }

uint64_t ga_cpu_gemm_generic_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel;
  const ga_gemm_desc *d = desc;
  const uint64_t rows = rows_of_w(caps) + (d->flags & GA_GEMM_X_E4M3 ? (uint64_t)d->m : 0);
  uint64_t bytes;
  return ga_mul_ok((uint64_t)d->k * sizeof(float), rows, &bytes) ? bytes : UINT64_MAX;
}

ga_status ga_cpu_gemm_generic(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                              ga_stream *stream) {
  (void)kernel;
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  generic_job job = {.desc = d, .io = a, .x = a->x, .x_stride = d->x_stride, .scratch = workspace};
  if (d->m == 0) return GA_OK; /* then W may be no memory at all */
  if (d->flags & GA_GEMM_X_E4M3) round_rows_of_x(&job, job.scratch + rows_of_w(&stream->device->caps) * (uint64_t)d->k);
  ga_pool_run_ranges(cpu_gemm_is_small(job.desc) ? NULL : cpu_pool(stream), job.desc->n, ROWS, generic_range, &job);
  return GA_OK;
}
