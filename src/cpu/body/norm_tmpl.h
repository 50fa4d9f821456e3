/* KERNEL    norm, f32 rows
 * COMPUTES  y = residual + (x - shift) * scale * weight + bias; shift is the row's mean (GA_NORM_LAYER) or 0; scale
 *           follows from the sum of squares, as the kind of norm says
 * ACCURACY  sums are kept in 4 vectors; rows whose sum of squares leaves the safe range of f32 are summed in double */
#include <math.h>

/* Between these bounds a sum of squares, of a row of any width, has only rounding errors: no overflow, and no underflow
 * that matters. */
#define SQUARES_MIN 1e-28f
#define SQUARES_MAX 1e37f

static float row_sum(const float *x, int64_t n) {
  vf s[4];
  for (int k = 0; k < 4; k++) s[k] = vf_set(0.0f);
  int64_t i = 0;
  for (; i + 4 * VN <= n; i += 4 * VN)
    for (int k = 0; k < 4; k++) s[k] = vf_add(s[k], vf_load(x + i + k * VN));
  for (; i + VN <= n; i += VN) s[0] = vf_add(s[0], vf_load(x + i));
  s[1] = vf_add(s[1], vf_load_n(x + i, (int)(n - i)));
  return vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
}

/* Returns the sum of (x - shift)^2 over n elements. */
static float row_squares(const float *x, int64_t n, float shift) {
  vf s[4], m = vf_set(shift);
  for (int k = 0; k < 4; k++) s[k] = vf_set(0.0f);
  int64_t i = 0;
  for (; i + 4 * VN <= n; i += 4 * VN)
    for (int k = 0; k < 4; k++) {
      vf v = vf_sub(vf_load(x + i + k * VN), m);
      s[k] = vf_fma(v, v, s[k]);
    }
  for (; i + VN <= n; i += VN) {
    vf v = vf_sub(vf_load(x + i), m);
    s[0] = vf_fma(v, v, s[0]);
  }
  float sum = vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
  for (; i < n; i++) sum += (x[i] - shift) * (x[i] - shift);
  return sum;
}

static double norm_scale(const ga_norm_desc *d, double squares) {
  if (d->kind == GA_NORM_L2) return 1 / fmax(sqrt(squares), (double)d->eps);
  return 1 / sqrt(squares / (double)d->width + (double)d->eps);
}

/* Computes a row whose sum of squares is not between SQUARES_MIN and SQUARES_MAX, in double. NaN and infinities
 * propagate. */
static void norm_row_double(const ga_norm_desc *d, const float *x, float *y, const float *w, const float *b,
                            const float *r) {
  double mean = 0, squares = 0;
  if (d->kind == GA_NORM_LAYER)
    for (int64_t i = 0; i < d->width; i++) mean += (double)x[i] / (double)d->width;
  for (int64_t i = 0; i < d->width; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
  double scale = norm_scale(d, squares);
  for (int64_t i = 0; i < d->width; i++)
    y[i] = (float)(((double)x[i] - mean) * scale * (w ? (double)w[i] : 1) + (b ? (double)b[i] : 0) +
                   (r ? (double)r[i] : 0));
}

GA_INLINE vf norm_lanes(vf x, vf shift, vf scale, const float *w, const float *b, const float *r, int n) {
  vf y = vf_mul(vf_sub(x, shift), scale);
  if (w) y = vf_mul(y, n == VN ? vf_load(w) : vf_load_n(w, n));
  if (b) y = vf_add(y, n == VN ? vf_load(b) : vf_load_n(b, n));
  if (r) y = vf_add(y, n == VN ? vf_load(r) : vf_load_n(r, n));
  return y;
}

static void norm_row(const ga_norm_desc *d, const float *x, float *y, const float *w, const float *b, const float *r) {
  const int64_t n = d->width;
  const float shift = d->kind == GA_NORM_LAYER ? row_sum(x, n) / (float)n : 0.0f, squares = row_squares(x, n, shift);
  if (!(squares > SQUARES_MIN && squares < SQUARES_MAX)) {
    norm_row_double(d, x, y, w, b, r);
    return;
  }
  vf sh = vf_set(shift), sc = vf_set((float)norm_scale(d, (double)squares));
  int64_t i = 0;
  for (; i + VN <= n; i += VN)
    vf_store(y + i, norm_lanes(vf_load(x + i), sh, sc, w ? w + i : NULL, b ? b + i : NULL, r ? r + i : NULL, VN));
  int rest = (int)(n - i);
  if (rest)
    vf_store_n(y + i,
               norm_lanes(vf_load_n(x + i, rest), sh, sc, w ? w + i : NULL, b ? b + i : NULL, r ? r + i : NULL, rest),
               rest);
}

typedef struct norm_job {
  const ga_norm_desc *d;
  const ga_norm_io *a;
} norm_job;

static void norm_rows(const void *job, int64_t begin, int64_t end) {
  const norm_job *j = job;
  for (int64_t i = begin; i < end; i++)
    norm_row(j->d, (const float *)j->a->x + i * j->d->x_stride, (float *)j->a->y + i * j->d->y_stride, j->a->weight,
             j->a->bias, j->a->residual ? (const float *)j->a->residual + i * j->d->residual_stride : NULL);
}

ga_status ISA(ga_cpu_norm)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream) {
  (void)kernel, (void)workspace;
  norm_job job = {.d = desc, .a = io};
  cpu_rows_run(stream, job.d->rows, job.d->width, norm_rows, &job);
  return GA_OK;
}
