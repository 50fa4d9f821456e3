/* Rows of f32 to any type that GGUF files are written in, on all threads. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "cpu/cpu_gemm.h"
#include "ga/quantize.h"
#include "quant/fit.h"
#include "quant/halves.h"
#include "quant/quantizer.h"

ga_status ga_quantizer_create(int32_t n_threads, ga_quantizer **out) {
  void *p;
  GA_REQUIRE(out, GA_ERR_ARG, "quantizer: out is NULL");
  *out = NULL;
  GA_REQUIRE(n_threads >= 0 && n_threads <= 1024, GA_ERR_ARG, "quantizer: %d threads; must be 0 to 1024", n_threads);
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_quantizer), "quantizer", &p));
  ga_quantizer *q = p;
  const ga_status status = ga_pool_create(n_threads ? n_threads : ga_cpu_count(), &q->pool);
  if (status != GA_OK) {
    ga_mem_free(q);
    return status;
  }
  *out = q;
  return GA_OK;
}

void ga_quantizer_destroy(ga_quantizer *q) {
  if (!q) return;
  ga_pool_destroy(q->pool);
  ga_mem_free(q);
}

bool ga_quantize_known(ga_dtype dtype) {
  return dtype == GA_F32 || dtype == GA_F16 || dtype == GA_BF16 || quant_fits(dtype);
}

static ga_status check_rows_desc(const ga_quantize_desc *given, ga_quantize_desc *d, uint64_t *bytes) {
  uint64_t elems;
  GA_TRY(GA_SIZED_TAKE("quantize: desc", ga_quantize_desc, given, d));
  const ga_dtype dtype = (ga_dtype)d->dtype;
  GA_REQUIRE(ga_quantize_known(dtype), GA_ERR_DTYPE,
             "quantize: dtype is %s; must be f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k to q6_k, iq4_nl, "
             "iq4_xs or mxfp4",
             ga_dtype_name(dtype));
  GA_REQUIRE(d->rows >= 1 && d->cols >= 1, GA_ERR_SHAPE, "quantize: %lld rows of %lld; must be at least 1 each",
             (long long)d->rows, (long long)d->cols);
  const int32_t block = ga_dtype_info(dtype)->block_elems;
  GA_REQUIRE(d->cols % block == 0, GA_ERR_SHAPE, "quantize: rows of %lld elements; %s needs a multiple of %d",
             (long long)d->cols, ga_dtype_name(dtype), block);
  GA_REQUIRE(ga_mul_ok((uint64_t)d->rows, (uint64_t)d->cols, &elems) && elems <= INT64_MAX / 8, GA_ERR_SHAPE,
             "quantize: %lld rows of %lld: too many elements", (long long)d->rows, (long long)d->cols);
  return ga_dtype_bytes(dtype, (int64_t)elems, bytes);
}

ga_status ga_quantize_bytes(const ga_quantize_desc *desc, uint64_t *bytes) {
  ga_quantize_desc d;
  GA_REQUIRE(desc && bytes, GA_ERR_ARG, "quantize: desc or bytes is NULL");
  return check_rows_desc(desc, &d, bytes);
}

/* --- the work ---------------------------------------------------------------------------------------------------- */

typedef struct row_job {
  ga_dtype dtype;
  int64_t cols;
  uint64_t row_bytes; /* of y */
  const float *x, *w; /* w: [cols] or NULL */
  uint8_t *y;
  _Atomic int64_t bad; /* the first element that cannot be written, INT64_MAX: none */
} row_job;

/* What is above it would be read back as infinite; MXFP4 ends at 1.5 * 2^127, and takes larger values as that. */
static float most_value(ga_dtype dtype) {
  if (dtype == GA_BF16) return 0x1.FEp127f;
  return dtype == GA_F32 || dtype == GA_MXFP4 ? FLT_MAX : QUANT_MOST_VALUE;
}

static void tell_bad(row_job *job, int64_t at) {
  int64_t first = atomic_load(&job->bad);
  while (at < first && !atomic_compare_exchange_weak(&job->bad, &first, at)) continue;
}

static GA_CLONES bool all_within(const float *x, int64_t n, float most) {
  int beyond = 0;
  for (int64_t i = 0; i < n; i++) beyond |= !(fabsf(x[i]) <= most);
  return !beyond;
}

static bool row_is_sound(row_job *job, int64_t row) {
  const float *x = job->x + row * job->cols, most = most_value(job->dtype);
  if (all_within(x, job->cols, most)) return true;
  for (int64_t i = 0; i < job->cols; i++)
    if (!(fabsf(x[i]) <= most)) {
      tell_bad(job, row * job->cols + i);
      return false;
    }
  return true;
}

static void put_row(const row_job *job, int64_t row) {
  const float *x = job->x + row * job->cols;
  uint8_t *y = job->y + (uint64_t)row * job->row_bytes;
  switch (job->dtype) {
  case GA_F32: memcpy(y, x, (size_t)job->cols * sizeof *x); break;
  case GA_F16: quant_floats_to_f16(x, job->cols, y); break;
  case GA_BF16: quant_floats_to_bf16(x, job->cols, y); break;
  default: quant_fit_blocks(job->dtype, x, job->w, job->cols / ga_dtype_info(job->dtype)->block_elems, y);
  }
}

static void fit_rows(void *arg, int64_t begin, int64_t end, int thread) {
  row_job *job = arg;
  (void)thread;
  for (int64_t row = begin; row < end; row++)
    if (row_is_sound(job, row)) put_row(job, row);
}

/* Weights around 1. A little is added to each, so that no block has none. *out: ga_mem_free. */
static ga_status even_out(const float *importance, int64_t cols, float **out) {
  double sum = 0;
  void *p;
  for (int64_t i = 0; i < cols; i++) {
    GA_REQUIRE(importance[i] >= 0 && isfinite(importance[i]), GA_ERR_ARG,
               "quantize: importance of column %lld is %g; must be finite and at least 0", (long long)i,
               (double)importance[i]);
    sum += (double)importance[i];
  }
  GA_TRY(ga_mem_alloc((size_t)cols * sizeof(float), "quantize", &p));
  const double scale = sum > 0 ? (double)cols / sum : 0;
  for (int64_t i = 0; i < cols; i++) ((float *)p)[i] = (float)(scale * (double)importance[i]) + 1e-6f;
  *out = p;
  return GA_OK;
}

ga_status ga_quantize_rows(ga_quantizer *q, const ga_quantize_desc *desc, const float *x, const float *importance,
                           void *y) {
  ga_quantize_desc d;
  uint64_t bytes;
  float *w = NULL;
  GA_REQUIRE(q && desc && x && y, GA_ERR_ARG, "quantize: q, desc, x or y is NULL");
  GA_TRY(check_rows_desc(desc, &d, &bytes));
  const bool is_quant = ga_dtype_info((ga_dtype)d.dtype)->is_quant;
  if (importance && is_quant) GA_TRY(even_out(importance, d.cols, &w));
  row_job job = {.dtype = (ga_dtype)d.dtype,
                 .cols = d.cols,
                 .row_bytes = bytes / (uint64_t)d.rows,
                 .x = x,
                 .w = w,
                 .y = y,
                 .bad = INT64_MAX};
  ga_pool_run_ranges(q->pool, d.rows, 1, fit_rows, &job);
  ga_mem_free(w);
  const int64_t bad = atomic_load(&job.bad);
  if (bad == INT64_MAX) return GA_OK;
  memset(y, 0, bytes);
  return ga_fail(GA_ERR_FORMAT, "row %lld, column %lld is %g; %s holds finite values of at most %g",
                 (long long)(bad / d.cols), (long long)(bad % d.cols), (double)x[bad], ga_dtype_name(job.dtype),
                 (double)most_value(job.dtype));
}

typedef struct back_job {
  ga_dtype dtype;
  int64_t cols;
  uint64_t row_bytes;
  const uint8_t *x;
  float *y;
} back_job;

static void read_rows(void *arg, int64_t begin, int64_t end, int thread) {
  const back_job *job = arg;
  (void)thread;
  ga_cpu_dequantise(job->dtype, job->x + (uint64_t)begin * job->row_bytes, (end - begin) * job->cols,
                    job->y + begin * job->cols);
}

ga_status ga_dequantize_rows(ga_quantizer *q, const ga_quantize_desc *desc, const void *x, float *y) {
  ga_quantize_desc d;
  uint64_t bytes;
  GA_REQUIRE(q && desc && x && y, GA_ERR_ARG, "dequantize: q, desc, x or y is NULL");
  GA_TRY(check_rows_desc(desc, &d, &bytes));
  back_job job = {(ga_dtype)d.dtype, d.cols, bytes / (uint64_t)d.rows, x, y};
  ga_pool_run_ranges(q->pool, d.rows, 1, read_rows, &job);
  return GA_OK;
}
