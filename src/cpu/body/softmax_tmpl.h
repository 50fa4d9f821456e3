/* KERNEL    softmax, log-softmax: f32 rows, three passes (largest, exponentials and their sum, scaling)
 * ACCURACY  a lane sums 64 numbers in f32, further sums are double: relative error at most 1e-5, mostly 1e-7 */
#include <math.h>

#define SUM_BLOCK (64 * VN)

static float scaled_max(const float *x, int64_t n, float scale) {
  vf m = vf_set(-INFINITY), s = vf_set(scale);
  int64_t i = 0;
  for (; i + VN <= n; i += VN) m = vf_max(m, vf_mul(vf_load(x + i), s));
  float most = vf_hmax(m);
  for (; i < n; i++) most = scale * x[i] > most || isnan(scale * x[i]) ? scale * x[i] : most;
  return most;
}

/* Computes y = e^(scale x - m), y may be NULL; returns the sum. */
static double exp_row(const float *x, float *y, int64_t n, float scale, float m) {
  const vf s = vf_set(scale), shift = vf_set(m);
  double total = 0;
  for (int64_t from = 0; from < n; from += SUM_BLOCK) {
    const int64_t end = n - from < SUM_BLOCK ? n : from + SUM_BLOCK;
    vf sum = vf_set(0.0f);
    int64_t i = from;
    for (; i + VN <= end; i += VN) {
      vf e = vf_exp(vf_sub(vf_mul(vf_load(x + i), s), shift));
      sum = vf_add(sum, e);
      if (y) vf_store(y + i, e);
    }
    total += (double)vf_sum(sum);
    float tail[VN];
    vf_store(tail, vf_exp(vf_sub(vf_mul(vf_load_n(x + i, (int)(end - i)), s), shift)));
    for (int64_t k = i; k < end; k++) {
      total += (double)tail[k - i];
      if (y) y[k] = tail[k - i];
    }
  }
  return total;
}

static void scale_row(float *y, int64_t n, float factor) {
  const vf f = vf_set(factor);
  int64_t i = 0;
  for (; i + VN <= n; i += VN) vf_store(y + i, vf_mul(vf_load(y + i), f));
  for (; i < n; i++) y[i] *= factor;
}

/* Writes a row whose largest element is -infinity: all elements are -infinity, or some are NaN. */
static void softmax_row_none(const ga_softmax_desc *d, const float *x, float *y) {
  float fill = d->log ? -INFINITY : 0.0f;
  for (int64_t i = 0; i < d->width; i++)
    if (isnan(d->scale * x[i])) fill = NAN;
  for (int64_t i = 0; i < d->width; i++) y[i] = fill;
}

static void softmax_row(const ga_softmax_desc *d, const float *x, float *y) {
  const float m = scaled_max(x, d->width, d->scale);
  if (m == -INFINITY) {
    softmax_row_none(d, x, y);
  } else if (d->log) {
    const float lse = (float)log(exp_row(x, NULL, d->width, d->scale, m));
    for (int64_t i = 0; i < d->width; i++) y[i] = (d->scale * x[i] - m) - lse;
  } else {
    scale_row(y, d->width, (float)(1 / exp_row(x, y, d->width, d->scale, m)));
  }
}

typedef struct softmax_job {
  const ga_softmax_desc *d;
  const ga_softmax_io *a;
} softmax_job;

static void softmax_rows(const void *job, int64_t begin, int64_t end) {
  const softmax_job *j = job;
  for (int64_t r = begin; r < end; r++) softmax_row(j->d, j->a->x + r * j->d->x_stride, j->a->y + r * j->d->y_stride);
}

ga_status ISA(ga_cpu_softmax)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                              ga_stream *stream) {
  (void)kernel, (void)workspace;
  softmax_job job = {.d = desc, .a = io};
  cpu_rows_run(stream, job.d->rows, job.d->width * 4, softmax_rows, &job);
  return GA_OK;
}
