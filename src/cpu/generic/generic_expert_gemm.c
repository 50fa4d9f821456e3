/* KERNEL    expert_gemm, any CPU, every weight type as the file has it
 * COMPUTES  products by experts (ga/experts.h): four rows of a matrix become f32 at a time, X stays f32
 * CONTRACT  f32 X and Y; a row of Y has the same bits whatever the other tokens and the number of threads
 * THREADS   all: see cpu/cpu_expert.h
 */
#include "base/mem.h"
#include "cpu/cpu_expert.h"
#include "cpu/cpu_gemm.h"

#define ROWS GA_CPU_GEMM_ROWS

/* Dequantises ROWS rows, or as many as are left. Rows that are missing repeat the last one. */
static const void *open_native(const expert_job *job, const void *w, int64_t row, int64_t left, int thread, int set) {
  const ga_expert_gemm_desc *d = job->d;
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->w_dtype);
  const int64_t row_bytes = d->k / t->block_elems * t->block_bytes;
  float *to = job->scratch + (2 * (int64_t)thread + set) * ROWS * d->k;
  for (int64_t r = 0; r < ROWS; r++)
    ga_cpu_dequantise((ga_dtype)d->w_dtype, (const uint8_t *)w + (row + ga_min_i64(r, left - 1)) * row_bytes, d->k,
                      to + r * d->k);
  return to;
}

static int64_t native_cols(const expert_job *job, int64_t left) {
  (void)job;
  return ga_min_i64(left, EXPERT_MOST_COLS);
}

static void multiply_native(const expert_job *job, const void *unit, int32_t i, int64_t p, int64_t cols, float *out) {
  (void)i;
  const ga_expert_gemm_desc *d = job->d;
  for (int64_t c = 0; c < cols; c++)
    ga_cpu_gemm_dot_rows((const float *)job->a->x + expert_x_row(job, p + c) * d->x_stride, unit, d->k, out + c * ROWS);
}

static void activate_native(const expert_job *job, int32_t act, int64_t cols, float *t) {
  (void)job;
  for (int64_t i = 0; i < cols * ROWS; i++) t[i] = ga_cpu_gemm_activate(act, t[i]);
}

static const expert_kind native_kind = {
    .unit = ROWS, .open = open_native, .cols = native_cols, .multiply = multiply_native, .activate = activate_native};

uint64_t ga_cpu_expert_native_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel;
  const ga_expert_gemm_desc *d = desc;
  const uint64_t threads = caps->threads > 1 ? (uint64_t)caps->threads : 1;
  uint64_t bytes;
  if (!ga_mul_ok((uint64_t)d->k * sizeof(float), threads * 2 * ROWS, &bytes)) return UINT64_MAX;
  return bytes > UINT64_MAX / 2 ? UINT64_MAX : bytes + cpu_expert_list_bytes(d);
}

ga_status ga_cpu_expert_native(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                               ga_stream *stream) {
  expert_job job = {.d = desc, .a = io, .kind = &native_kind};
  job.scratch = (float *)(void *)((uint8_t *)workspace + cpu_expert_list_bytes(job.d));
  return cpu_expert_run(&job, kernel, workspace, stream);
}
