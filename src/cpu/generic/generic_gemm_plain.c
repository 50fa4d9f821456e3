/* Matrix product of plain types for any machine: operands stored either way, e4m3 with scales, results in f32, f16,
 * bf16. A thread takes rows of W; tiles of both operands are brought to f32 with k contiguous. Each y is one thread's
 * work in one order, whatever the number of threads. */
#include "base/half.h"
#include "base/mem.h"
#include "cpu/cpu_gemm.h"
#include "opdef/gemm_at.h"

#define COLS GA_CPU_GEMM_ROWS /* rows of W at a time */
#define ROWS 16               /* rows of X */

typedef struct plain_job {
  const ga_gemm_desc *desc;
  const ga_gemm_io *io;
  float *scratch; /* (COLS + ROWS) * k a thread */
} plain_job;

static void load_elements(int32_t dtype, const void *data, int64_t at, int64_t n, float *out) {
  ga_cpu_dequantise((ga_dtype)dtype, (const uint8_t *)data + at * ga_dtype_info((ga_dtype)dtype)->block_bytes, n, out);
}

/* `lines` vectors of k, as f32 [lines, k]; stored one after the other, or across. */
static void gather_lines(int32_t dtype, const void *data, bool across, int64_t stride, int64_t first, int64_t lines,
                         int64_t k, float *out) {
  float t[ROWS];
  if (!across) {
    for (int64_t r = 0; r < lines; r++) load_elements(dtype, data, (first + r) * stride, k, out + r * k);
    return;
  }
  for (int64_t i = 0; i < k; i++) {
    load_elements(dtype, data, i * stride + first, lines, t);
    for (int64_t r = 0; r < lines; r++) out[r * k + i] = t[r];
  }
}

static void get_x(const plain_job *job, int64_t row, int64_t rows, float *x) {
  const ga_gemm_desc *d = job->desc;
  gather_lines(d->x_dtype, job->io->x, d->flags & GA_GEMM_XT, d->x_stride, row, rows, d->k, x);
  for (int64_t r = 0; d->scales && r < rows; r++)
    for (int64_t i = 0; i < d->k; i++) x[r * d->k + i] *= ga_gemm_x_scale(d, job->io, row + r, i);
}

static void get_w(const plain_job *job, int64_t col, int64_t cols, float *w) {
  const ga_gemm_desc *d = job->desc;
  gather_lines(d->w_dtype, job->io->w, d->flags & GA_GEMM_WT, d->w_stride, col, cols, d->k, w);
  for (int64_t c = 0; d->scales && c < cols; c++)
    for (int64_t i = 0; i < d->k; i++) w[c * d->k + i] *= ga_gemm_w_scale(d, job->io, col + c, i);
  for (int64_t i = cols * d->k; i < COLS * d->k; i++) w[i] = 0; /* a short group */
}

static void store_output(int32_t dtype, void *y, int64_t at, float x) {
  if (dtype == GA_F32)
    ((float *)y)[at] = x;
  else if (dtype == GA_F16)
    ((ga_f16 *)y)[at] = ga_f32_to_f16(x);
  else
    ((ga_bf16 *)y)[at] = ga_f32_to_bf16(x);
}

static void finish_dot(const ga_gemm_desc *d, const ga_gemm_io *a, int64_t row, int64_t col, float dot) {
  const int64_t at = row * d->y_stride + col;
  float t = d->scale * dot, other;
  if (d->flags & GA_GEMM_BIAS) t += a->bias[col];
  if (d->flags & GA_GEMM_GLU) {
    load_elements(d->y_dtype, a->gate, at, 1, &other);
    t *= ga_cpu_gemm_activate(d->act, other);
  } else {
    t = ga_cpu_gemm_activate(d->act, t);
  }
  if (d->flags & GA_GEMM_RESIDUAL) {
    load_elements(d->y_dtype, a->residual, at, 1, &other);
    t += other;
  }
  store_output(d->y_dtype, a->y, at, t);
}

static void plain_range(void *arg, int64_t begin, int64_t end, int thread) {
  const plain_job *job = arg;
  const ga_gemm_desc *d = job->desc;
  float *w = job->scratch + thread * (COLS + ROWS) * d->k, *x = w + COLS * d->k, dots[COLS];
  for (int64_t row = 0; row < d->m; row += ROWS) {
    const int64_t rows = ga_min_i64(ROWS, d->m - row);
    get_x(job, row, rows, x);
    for (int64_t col = begin; col < end; col += COLS) {
      const int64_t cols = ga_min_i64(COLS, end - col);
      get_w(job, col, cols, w);
      for (int64_t r = 0; r < rows; r++) {
        ga_cpu_gemm_dot_rows(x + r * d->k, w, d->k, dots);
        for (int64_t c = 0; c < cols; c++) finish_dot(d, job->io, row + r, col + c, dots[c]);
      }
    }
  }
}

uint64_t ga_cpu_gemm_plain_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel;
  const ga_gemm_desc *d = desc;
  uint64_t threads = caps->threads > 1 ? (uint64_t)caps->threads : 1, bytes;
  return ga_mul_ok((uint64_t)d->k * (COLS + ROWS) * sizeof(float), threads, &bytes) ? bytes : UINT64_MAX;
}

ga_status ga_cpu_gemm_plain(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream) {
  (void)kernel;
  plain_job job = {.desc = desc, .io = io, .scratch = workspace};
  ga_pool_run_ranges(cpu_gemm_is_small(job.desc) ? NULL : cpu_pool(stream), job.desc->n, COLS, plain_range, &job);
  return GA_OK;
}
