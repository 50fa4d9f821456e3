#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "opdef/gemm_at.h"
#include "ref/ref.h"

static double activate(int32_t act, double x) {
  switch (act) {
  case GA_ACT_SILU: return x / (1 + exp(-x));
  case GA_ACT_GELU_TANH:
    return 0.5 * x * (1 + tanh(0.79788456080286535588 /* sqrt(2/pi) */ * (x + 0.044715 * x * x * x)));
  case GA_ACT_GELU_ERF: return 0.5 * x * (1 + erf(x * 0.70710678118654752440 /* sqrt(1/2) */));
  default: return x;
  }
}

/* One of the matrices by which X is multiplied, and where its products go. */
typedef struct part {
  const void *w;
  void *y;
  const float *bias;
  int64_t n, stride;
} part;

static part part_of(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int i) {
  if (i == 0) return (part){a->plain.w, a->plain.y, a->plain.bias, d->plain.n, d->plain.y_stride};
  return (part){a->w_more[i - 1], a->y_more[i - 1], a->bias_more[i - 1], d->n_more[i - 1], d->y_more_stride[i - 1]};
}

/* By what the norms of a row multiply. */
typedef struct factors {
  double norm, add_norm;
} factors;

/* An element of X, before a norm. */
static double x_at(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int64_t row, int64_t i, double add_norm) {
  const double x = ga_ref_load((ga_dtype)d->plain.x_dtype, a->plain.x, ga_gemm_x_at(&d->plain, row, i)) *
                   (double)ga_gemm_x_scale(&d->plain, &a->plain, row, i);
  if (!(d->fused & GA_GEMM_FUSED_ADD_NORM)) return x;
  return (double)a->add[row * d->plain.x_stride + i] + x * add_norm * (double)a->add_norm[i];
}

static double factor_of(const ga_gemm_fused_desc *d, double squares) {
  return 1 / sqrt(squares / (double)d->plain.k + (double)d->norm_eps);
}

static factors factors_of(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int64_t row) {
  double x2 = 0, sum2 = 0, add_norm = 0;
  if (!(d->fused & GA_GEMM_FUSED_NORM)) return (factors){1, 1};
  for (int64_t i = 0; i < d->plain.k; i++)
    x2 += pow(ga_ref_load((ga_dtype)d->plain.x_dtype, a->plain.x, row * d->plain.x_stride + i), 2);
  if (!(d->fused & GA_GEMM_FUSED_ADD_NORM)) return (factors){factor_of(d, x2), 1};
  add_norm = factor_of(d, x2);
  for (int64_t i = 0; i < d->plain.k; i++) sum2 += pow(x_at(d, a, row, i, add_norm), 2);
  return (factors){factor_of(d, sum2), add_norm};
}

/* Operands of a block of rows of X, in double. Each element of X and W is converted once for the block. */
typedef struct operands {
  int64_t first, rows;     /* rows of X [first, first + rows) */
  double *x;               /* [rows, k], normed where the op has a norm */
  double *w[2], *scale[2]; /* [k]: a row of W and its scales; of the gate's matrix in GATED */
} operands;

static void widen_x(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, operands *o) {
  for (int64_t r = 0; r < o->rows; r++) {
    const factors f = factors_of(d, a, o->first + r);
    for (int64_t i = 0; i < d->plain.k; i++) {
      const double x = x_at(d, a, o->first + r, i, f.add_norm);
      o->x[r * d->plain.k + i] = d->fused & GA_GEMM_FUSED_NORM ? x * f.norm * (double)a->norm[i] : x;
      if (d->fused & GA_GEMM_FUSED_ADD_NORM && a->sum) a->sum[(o->first + r) * d->plain.x_stride + i] = (float)x;
    }
  }
}

static void widen_w(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, const void *w, int64_t col, int i,
                    operands *o) {
  for (int64_t k = 0; k < d->plain.k; k++) {
    o->w[i][k] = ga_ref_load((ga_dtype)d->plain.w_dtype, w, ga_gemm_w_at(&d->plain, col, k));
    o->scale[i][k] = (double)ga_gemm_w_scale(&d->plain, &a->plain, col, k);
  }
}

/* scale * (X W^T) of one element. */
static double product_of(const ga_gemm_fused_desc *d, const operands *o, int64_t row, int i) {
  const double *x = o->x + row * d->plain.k;
  double dot = 0;
  for (int64_t k = 0; k < d->plain.k; k++) dot += x[k] * o->w[i][k] * o->scale[i][k];
  return (double)d->plain.scale * dot;
}

/* t = scale * dot + bias; t = act(t), or act(gate) * t; t + residual. row: of the block. */
static double element(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, const part *p, int64_t row, int64_t col,
                      const operands *o) {
  const ga_dtype y = (ga_dtype)d->plain.y_dtype;
  const int64_t at = (o->first + row) * p->stride + col;
  double t = product_of(d, o, row, 0);
  if (d->plain.flags & GA_GEMM_BIAS) t += (double)p->bias[col];
  if (d->fused & GA_GEMM_FUSED_GATED) return activate(d->plain.act, product_of(d, o, row, 1)) * t;
  t = d->plain.flags & GA_GEMM_GLU ? activate(d->plain.act, ga_ref_load(y, a->plain.gate, at)) * t
                                   : activate(d->plain.act, t);
  return d->plain.flags & GA_GEMM_RESIDUAL ? t + ga_ref_load(y, a->plain.residual, at) : t;
}

static void multiply_part(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, const part *p, operands *o) {
  for (int64_t c = 0; c < p->n; c++) {
    widen_w(d, a, p->w, c, 0, o);
    if (d->fused & GA_GEMM_FUSED_GATED) widen_w(d, a, a->w_more[0], c, 1, o);
    for (int64_t r = 0; r < o->rows; r++)
      ga_ref_store((ga_dtype)d->plain.y_dtype, p->y, (o->first + r) * p->stride + c, element(d, a, p, r, c, o));
  }
}

void ga_ref_gemm_round_x(const ga_gemm_desc *d, const void *x, double *out) {
  for (int64_t r = 0; r < d->m; r++)
    for (int64_t b = 0; b < d->k; b += GA_GEMM_SCALE_BLOCK) {
      float of_x[GA_GEMM_SCALE_BLOCK], code[GA_GEMM_SCALE_BLOCK];
      const int64_t n = ga_min_i64(GA_GEMM_SCALE_BLOCK, d->k - b);
      for (int64_t i = 0; i < n; i++) of_x[i] = (float)ga_ref_load((ga_dtype)d->x_dtype, x, ga_gemm_x_at(d, r, b + i));
      const float scale = ga_gemm_x_codes(of_x, n, code);
      for (int64_t i = 0; i < n; i++) out[r * d->k + b + i] = (double)code[i] * (double)scale;
    }
}

/* The product by an X that has been rounded. */
static ga_status by_rounded_x(const ga_gemm_fused_desc *desc, const ga_gemm_fused_io *io) {
  ga_gemm_fused_desc d = *desc;
  ga_gemm_fused_io a = *io;
  void *x;
  GA_TRY(ga_mem_alloc((uint64_t)(d.plain.m * d.plain.k) * sizeof(double) + 1, "gemm", &x));
  ga_ref_gemm_round_x(&d.plain, a.plain.x, x);
  a.plain.x = x;
  d.plain.x_dtype = GA_F64;
  d.plain.x_stride = d.plain.k;
  d.plain.flags &= ~(uint32_t)GA_GEMM_X_E4M3;
  const ga_status status = ga_ref_gemm(NULL, &d, &a, NULL, NULL);
  ga_mem_free(x);
  return status;
}

enum { BLOCK_NUMBERS = 1 << 20 }; /* of X at most, but at least a row */

ga_status ga_ref_gemm(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_gemm_fused_desc *d = desc;
  const ga_gemm_fused_io *a = io;
  if (d->plain.flags & GA_GEMM_X_E4M3) return by_rounded_x(d, a);
  const int64_t k = d->plain.k, block = ga_max_i64(1, ga_min_i64(d->plain.m, BLOCK_NUMBERS / ga_max_i64(k, 1)));
  void *memory;
  GA_TRY(ga_mem_alloc((uint64_t)((block + 4) * k) * sizeof(double) + 1, "gemm", &memory));
  double *x = memory, *w = x + block * k;
  operands o = {.x = x, .w = {w, w + k}, .scale = {w + 2 * k, w + 3 * k}};
  for (; o.first < d->plain.m; o.first += block) {
    o.rows = ga_min_i64(block, d->plain.m - o.first);
    widen_x(d, a, &o);
    for (int i = 0; i <= GA_GEMM_MORE; i++) {
      const part p = part_of(d, a, i);
      multiply_part(d, a, &p, &o);
    }
  }
  ga_mem_free(memory);
  return GA_OK;
}
