/* Q, K or V in 8 bits (ga/attn_quant.h): a row is turned and transformed as its definitions say, a block's scale is its
 * largest magnitude. */
#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/layer.h"
#include "opdef/attn_fp8.h"
#include "ref/ref.h"

static void rope(const ga_attn_quant_desc *d, const ga_attn_quant_io *a, int64_t token, double *x) {
  const int half = d->rot_dim / 2;
  for (int p = 0; p < half; p++) {
    const double angle = (double)a->positions[token] * (double)a->inv_freq[p], m = (double)d->magnitude;
    const int at0 = d->pairs == GA_ROPE_NEOX ? p : 2 * p, at1 = d->pairs == GA_ROPE_NEOX ? p + half : 2 * p + 1;
    const double x0 = x[at0], x1 = x[at1];
    x[at0] = m * (x0 * cos(angle) - x1 * sin(angle));
    x[at1] = m * (x0 * sin(angle) + x1 * cos(angle));
  }
}

/* H has a minus where i & j has an odd number of bits (Sylvester). */
static void hadamard(const ga_attn_quant_desc *d, double *x) {
  uint64_t sign[GA_ATTN_FP8_DIM_MAX / 64];
  ga_attn_quant_signs(d->seed, sign);
  for (int i = 0; i < d->dim; i++)
    if (sign[i / 64] >> i % 64 & 1) x[i] = -x[i];
  for (int step = 1; step < d->dim; step *= 2)
    for (int i = 0; i < d->dim; i++) {
      if (i & step) continue;
      const double a = x[i], b = x[i + step];
      x[i] = a + b;
      x[i + step] = a - b;
    }
  for (int i = 0; i < d->dim; i++) x[i] /= sqrt((double)d->dim);
}

static void load_row(const ga_attn_quant_desc *d, const ga_attn_quant_io *a, int64_t b, int64_t t, int h, double *x) {
  for (int i = 0; i < d->dim; i++)
    x[i] = ga_ref_load((ga_dtype)d->x_dtype, a->x,
                       b * a->x_stride.batch + t * a->x_stride.token + h * a->x_stride.head + i);
  if (d->rot_dim) rope(d, a, b * d->tokens + t, x);
  if (d->hadamard) hadamard(d, x);
}

/* Of each column of a head; 0 without centre. */
static void means(const ga_attn_quant_desc *d, const ga_attn_quant_io *a, int64_t b, int h, double *mean) {
  double x[GA_ATTN_FP8_DIM_MAX];
  for (int i = 0; i < d->dim; i++) mean[i] = 0;
  for (int64_t t = 0; t < d->tokens && d->centre; t++) {
    load_row(d, a, b, t, h, x);
    for (int i = 0; i < d->dim; i++) mean[i] += x[i];
  }
  for (int i = 0; i < d->dim && d->centre; i++)
    a->mean[(b * d->heads + h) * d->dim + i] = (float)(mean[i] /= (double)d->tokens);
}

static void store_quantised(const ga_attn_quant_desc *d, const ga_attn_quant_io *a, int64_t b, int64_t t, int h, int i,
                            double x) {
  const int64_t base = b * a->y_stride.batch + h * a->y_stride.head;
  const int64_t at =
      d->kind == GA_ATTN_QUANT_ROWS ? t * a->y_stride.token + i : i * a->y_stride.token + ga_attn_fp8_slot(t);
  ga_ref_store((ga_dtype)d->y_dtype, a->y, base + at, x);
}

/* A NaN is the largest of all for i8, which cannot hold it, and none for e4m3. */
static double larger(const ga_attn_quant_desc *d, double a, double b) {
  return ga_attn_quant_is_i8(d->y_dtype) && (isnan(a) || isnan(b)) ? (double)NAN : fmax(a, b);
}

/* A block of tokens [begin, end) of one head; behind the last token V is 0. */
static void block(const ga_attn_quant_desc *d, const ga_attn_quant_io *a, int64_t b, int h, int64_t begin, int64_t end,
                  const double *mean, double *x) {
  const int64_t last = ga_min_i64(end, d->tokens), blocks = ga_div_up(d->tokens, end - begin);
  double most = 0, scale;
  for (int64_t t = begin; t < last; t++) {
    load_row(d, a, b, t, h, x + (t - begin) * d->dim);
    for (int i = 0; i < d->dim; i++) most = larger(d, most, fabs(x[(t - begin) * d->dim + i] -= mean[i]));
  }
  if (d->scale_tokens) {
    scale = most > 0 || isnan(most) ? most / ga_attn_quant_largest(d->y_dtype) : 1;
    a->scale[(b * d->heads + h) * blocks + begin / (end - begin)] = (float)scale;
  } else {
    scale = (double)a->given.data[b * a->given.batch + h * a->given.head];
  }
  for (int64_t t = begin; t < end; t++)
    for (int i = 0; i < d->dim && (t < last || d->kind == GA_ATTN_QUANT_VALUES); i++)
      store_quantised(d, a, b, t, h, i, t < last ? x[(t - begin) * d->dim + i] / scale : 0);
}

ga_status ga_ref_attn_quant(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_attn_quant_desc *d = desc;
  const int64_t step = d->scale_tokens ? d->scale_tokens : GA_ATTN_FP8_BLOCK;
  const int64_t end = d->kind == GA_ATTN_QUANT_VALUES ? ga_attn_fp8_padded(d->tokens) : d->tokens;
  void *x;
  GA_TRY(ga_mem_alloc((size_t)step * (size_t)d->dim * sizeof(double), "a block of attention's input", &x));
  for (int64_t b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++) {
      double mean[GA_ATTN_FP8_DIM_MAX];
      if (d->tokens) means(d, io, b, h, mean);
      for (int64_t t = 0; t < end; t += step) {
        if (t < d->tokens)
          block(d, io, b, h, t, t + step, mean, x);
        else
          for (int64_t i = t; i < end; i++)
            for (int c = 0; c < d->dim; c++) store_quantised(d, io, b, i, h, c, 0);
      }
    }
  ga_mem_free(x);
  return GA_OK;
}
