/* KERNEL    softmax and log-softmax of f32 rows, in three passes: maximum, exponentials and their sum, scaling
 * ACCURACY  a lane sums 64 numbers in f32, and such sums are added in double: relative error at most 1e-5, mostly
 *           1e-7 */
#include <math.h>

#include "cpu/body/exp_row_tmpl.h"

static float scaled_max(const float *x, int64_t n, float scale) {
  vf m = vf_set(-INFINITY), s = vf_set(scale);
  int64_t i = 0;
  for (; i + VN <= n; i += VN) m = vf_max(m, vf_mul(vf_load(x + i), s));
  float most = vf_hmax(m);
  for (; i < n; i++) most = scale * x[i] > most || isnan(scale * x[i]) ? scale * x[i] : most;
  return most;
}

static void scale_row(float *y, int64_t n, float factor) {
  const vf f = vf_set(factor);
  int64_t i = 0;
  for (; i + VN <= n; i += VN) vf_store(y + i, vf_mul(vf_load(y + i), f));
  for (; i < n; i++) y[i] *= factor;
}

/* Writes the result for a row whose largest element is -infinity: 0, or -infinity for log-softmax. If x has a NaN, the
 * result is NaN. */
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
