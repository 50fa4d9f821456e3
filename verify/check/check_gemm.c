/* Y = epilogue(X W^T). Packed weights are made by the device's own pack row. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "opdef/gemm_at.h"
#include "ref/ref.h"
#include "verify/check/check.h"
#include "verify/check/error.h"
#include "verify/check/packed.h"
#include "verify/check/tensor_sum.h"

#define Y_IS_RESIDUAL 1u     /* bit of c->bits */
#define MAX_WORK      100000 /* multiply-adds of a draw: the oracle is slow */
#define TILED_WORK \
  (64 * MAX_WORK) /* of one in four of a row of tiles: several of them, or several rounds of its ring */
#define DEEP_WORK \
  (30 * MAX_WORK)               /* of one in eight of a row of packed weights: parts of k, which other blocks have \
                                 */
#define STRESS_WORK (1LL << 33) /* nothing multiplies it on a CPU */

static const ga_dtype weights[] = {GA_F32,    GA_F16,    GA_BF16,  GA_E4M3,  GA_Q4_0,    GA_Q4_1, GA_Q5_0,
                                   GA_Q5_1,   GA_Q8_0,   GA_Q2_K,  GA_Q3_K,  GA_Q4_K,    GA_Q5_K, GA_Q6_K,
                                   GA_IQ4_NL, GA_IQ4_XS, GA_MXFP4, GA_NVFP4, GA_E4M3_128};

/* Steps each way to which a row rounds activations in blocks of 32; 0 = it does not. */
static double rounding_steps_of(const ga_kernel *kernel) {
  return kernel->op_flags & GA_GEMM_ROW_Q8_ACT ? 127 : kernel->op_flags & GA_GEMM_ROW_Q15_ACT ? 127 * 128 : 0;
}

/* What strides of operands of at least so many bytes are multiples of: seldom something else, which the row must
 * refuse. */
static int64_t step_of(check_case *c, int32_t bytes) {
  return c->kernel->align && check_pick(c, 24) ? c->kernel->align / bytes : 1;
}
static bool is_plain_type(int32_t dtype) { return !ga_dtype_info((ga_dtype)dtype)->is_quant; }
static bool is_e4m3(const ga_gemm_desc *d) { return d->w_dtype == GA_E4M3 && d->x_dtype == GA_E4M3; }

static void draw_shape(check_case *c, ga_gemm_desc *d) {
  const int64_t block = ga_dtype_info((ga_dtype)d->w_dtype)->block_elems;
  const int64_t least = c->kernel->rows_min, most = c->kernel->rows_max ? c->kernel->rows_max : 70;
  const bool large = c->kernel->flags & GA_KERNEL_TENSOR && check_pick(c, 4) == 0;
  const bool deep = !c->large && c->kernel->layout == GA_LAYOUT_MMA_PACKED && check_pick(c, 8) == 0;
  const bool broad = !c->large && !deep && c->kernel->layout == GA_LAYOUT_MMA_PACKED &&
                     check_pick(c, 16) == 0; /* several tiles a block */
  const int64_t work = c->large ? STRESS_WORK : large ? TILED_WORK : deep || broad ? DEEP_WORK : MAX_WORK;
  d->m = c->kernel->rows_max ? check_dim(c, least, most)
                             : check_extent(c, least,
                                            large           ? 600
                                            : deep || broad ? ga_max_i64(8, least)
                                                            : most);
  d->n = check_extent(c, 0, large || broad ? 900 : deep ? 40 : 130);
  d->k = check_dim_step(c, 0, c->large || deep ? 8192 : 1600, block);
  while (d->m * d->n * d->k > work && d->k > block) d->k = d->k / 2 / block * block;
  while (d->m * d->n * d->k > work && d->m > 1 && d->m / 2 >= least) d->m /= 2;
}

/* One in four draws: a gate, further matrices, a norm. Values of a norm are not exact. */
static void draw_more(check_case *c, ga_gemm_fused_desc *d) {
  if (check_pick(c, 4) || d->plain.n == 0) return;
  d->plain.flags = 0;
  if (c->mode != CHECK_EXACT) d->fused = GA_GEMM_FUSED_NORM * (uint32_t)check_pick(c, 2);
  if (d->fused) d->norm_eps = 1e-5f;
  if (d->fused && d->plain.x_dtype == GA_F32 && check_pick(c, 2)) { /* rows take one row of X */
    d->fused |= GA_GEMM_FUSED_ADD_NORM;
    if (check_pick(c, 8)) d->plain.m = 1;
    if (d->plain.m == 1 && check_pick(c, 4) == 0)
      d->plain.k = check_dim_step(c, 2048, 4096, ga_dtype_info((ga_dtype)d->plain.w_dtype)->block_elems);
  }
  if (check_pick(c, 2)) {
    d->fused |= GA_GEMM_FUSED_GATED;
    return;
  }
  d->plain.flags |= GA_GEMM_BIAS * (uint32_t)check_pick(c, 2);
  for (int i = 0; i <= check_pick(c, 2); i++) {
    d->n_more[i] = 1 + check_pick(c, 100);
    d->y_more_stride[i] = check_stride(c, d->n_more[i], 1);
  }
}

static bool has_more(const ga_gemm_fused_desc *d) {
  return d->fused & (GA_GEMM_FUSED_NORM | GA_GEMM_FUSED_GATED) || d->n_more[0];
}

/* Which operands lie across, and the strides. Rows of tiles have one layout each, so that one draw in four or so suits
 * them. */
static void draw_layout(check_case *c, ga_gemm_fused_desc *d) {
  static const uint32_t across[] = {
      0, 0, 0, GA_GEMM_WT, GA_GEMM_WT, GA_GEMM_XT | GA_GEMM_WT, GA_GEMM_XT | GA_GEMM_WT, GA_GEMM_XT};
  const bool free = is_plain_type(d->plain.w_dtype) && d->plain.w_layout == GA_LAYOUT_NATIVE;
  const int64_t step = step_of(c, is_e4m3(&d->plain) ? 1 : 2);
  d->plain.w_layout = (int32_t)(check_pick(c, 8) ? c->kernel->layout : GA_LAYOUT_NATIVE);
  if (!has_more(d)) d->plain.flags |= across[check_pick(c, 8)];
  if (!free || d->plain.w_layout != GA_LAYOUT_NATIVE) d->plain.flags &= ~(uint32_t)GA_GEMM_WT;
  const int64_t xs = d->plain.flags & GA_GEMM_XT ? d->plain.m : d->plain.k,
                ws = d->plain.flags & GA_GEMM_WT ? d->plain.n : d->plain.k;
  d->plain.x_stride = step * ga_div_up(check_stride(c, xs, 1), step);
  d->plain.w_stride = ws;
  if (free && d->plain.w_layout == GA_LAYOUT_NATIVE && !has_more(d) && (c->kernel->align || check_pick(c, 2)))
    d->plain.w_stride = step * ga_div_up(check_stride(c, ws, 1), step);
  d->plain.y_stride = step * ga_div_up(check_stride(c, d->plain.n, 1), step);
}

static int32_t draw_x(check_case *c, int32_t w_dtype) {
  static const ga_dtype list[] = {GA_F32, GA_F16, GA_BF16, GA_E4M3, GA_E4M3};
  return check_dtype_of(c, 1, list, w_dtype == GA_E4M3 ? 5 : 3);
}

static bool rounds_x(const ga_gemm_desc *d) { return d->flags & GA_GEMM_X_E4M3; }

/* One in five draws of batch-invariant rows asks for that; packed ones take fewer rows of X then than they are for.
 * Those for few rows of X are for that alone. */
static void draw_invariant(const check_case *c, ga_gemm_desc *d) {
  if (!(c->kernel->op_flags & GA_GEMM_ROW_INVARIANT)) return;
  if (c->kernel->rows_max) d->flags |= GA_GEMM_INVARIANT;
  if (c->kernel->rows_max || c->bits % 5) return;
  d->flags |= GA_GEMM_INVARIANT;
  if (c->kernel->layout == GA_LAYOUT_MMA_PACKED && c->bits / 5 % 2) d->m = 1 + c->bits / 10 % 8;
}

static void draw(check_case *c) {
  ga_gemm_fused_desc *d = c->desc;
  *d = (ga_gemm_fused_desc)GA_GEMM_FUSED_DESC_INIT;
  d->plain.w_dtype = check_dtype_of(c, 0, weights, (int)GA_COUNT_OF(weights));
  d->plain.x_dtype = draw_x(c, d->plain.w_dtype);
  d->plain.y_dtype = check_dtype(c, 2);
  draw_shape(c, &d->plain);
  d->plain.flags = (uint32_t)check_pick(c, 8);
  d->plain.act = c->mode == CHECK_EXACT ? GA_ACT_NONE : check_pick(c, 4);
  d->plain.scale = check_factor(c);
  draw_more(c, d);
  if (!has_more(d)) draw_invariant(c, &d->plain);
  if (!has_more(d) && c->kernel->op_flags & GA_GEMM_ROW_X_E4M3 && d->plain.w_dtype == GA_E4M3_128 && check_pick(c, 8))
    d->plain.flags |= GA_GEMM_X_E4M3;
  draw_layout(c, d);
  if (is_e4m3(&d->plain) && !has_more(d)) d->plain.scales = check_pick(c, 3);
  if (is_e4m3(&d->plain) && check_pick(c, 3) && !has_more(d)) d->plain.flags |= GA_GEMM_FAST_SUM;
  if (rounds_x(&d->plain)) d->plain.flags &= ~(uint32_t)GA_GEMM_XT;
  /* A row's sum of squares spreads an infinity, and has no denormals. */
  if (d->fused & GA_GEMM_FUSED_NORM) c->specials &= ~(uint32_t)(CHECK_INF | CHECK_TINY);
  if (d->plain.act) c->specials &= ~(uint32_t)CHECK_INF;          /* at -infinity formulas give NaN, or 0, the limit */
  if (rounding_steps_of(c->kernel) > 0) c->specials = CHECK_TINY; /* infinity has no scale */
  /* bf16 units take denormals for zero, and so does f16 what is far below a row's largest. */
  if (c->kernel->op_flags & (GA_GEMM_ROW_BF16 | GA_GEMM_ROW_F16 | GA_GEMM_ROW_FLUSH))
    c->specials &= ~(uint32_t)CHECK_TINY;
}

/* Integers up to 7, which each 128 of k of X have: codes are then exactly 64 times as large. */
static void fill_exact_x(check_case *c, int64_t k, double *values, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    values[i] = i % k % GA_GEMM_SCALE_BLOCK ? check_pick(c, 15) - 7 : check_pick(c, 2) ? 7 : -7;
}

/* Scales: powers of two where results are exact. */
static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  if (!strcmp(arg->name, "x")) {
    fill_exact_x(c, ((const ga_gemm_fused_desc *)c->desc)->plain.k, values, n);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    values[i] = c->mode == CHECK_EXACT ? exp2(check_pick(c, 3) - 1) : exp2(4 * ga_rng_unit(&c->rng) - 3);
}

static const char *must_refuse(const check_case *c) {
  const ga_gemm_fused_desc *d = c->desc;
  if (d->plain.w_layout != (int32_t)c->kernel->layout) return "another layout of the weights";
  if (c->kernel->op_flags & GA_GEMM_ROW_X_E4M3 && c->kernel->flags & GA_KERNEL_TENSOR && !rounds_x(&d->plain))
    return "rounding of X was not asked for";
  if (c->kernel->op_flags & GA_GEMM_ROW_FAST_SUM && !(d->plain.flags & GA_GEMM_FAST_SUM))
    return "sums in the tensor cores were not asked for";
  if ((d->plain.m < c->kernel->rows_min && !(d->plain.flags & GA_GEMM_INVARIANT)) ||
      (c->kernel->rows_max && d->plain.m > c->kernel->rows_max))
    return "m out of its range";
  return NULL;
}

/* --- packed weights --- */

/* Matrix i, 0 to GA_GEMM_MORE: the first, or a further one. */
typedef struct check_part {
  const void *w;
  void *y;
  const float *bias;
  int64_t n, stride;
} check_part;

static check_part check_part_of(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int i) {
  if (i == 0) return (check_part){a->plain.w, a->plain.y, a->plain.bias, d->plain.n, d->plain.y_stride};
  return (check_part){a->w_more[i - 1], a->y_more[i - 1], a->bias_more[i - 1], d->n_more[i - 1],
                      d->y_more_stride[i - 1]};
}

/* w, w1, w2; y, y1, y2: the number behind the letter */
static int part_number(const check_arg *arg) { return arg->name[1] ? arg->name[1] - '0' : 0; }

static int64_t rows_of_part(const ga_gemm_fused_desc *d, int i) {
  return i == 0 || d->fused & GA_GEMM_FUSED_GATED ? d->plain.n : d->n_more[i - 1];
}

static ga_pack_desc pack_desc_of(const check_case *c, int part) {
  const ga_gemm_fused_desc *d = c->desc;
  ga_pack_desc p = GA_PACK_DESC_INIT;
  p.n = rows_of_part(d, part);
  p.k = d->plain.k;
  p.w_dtype = d->plain.w_dtype;
  p.w_layout = d->plain.w_layout;
  return p;
}

static ga_status derive(check_case *c, int i) {
  const ga_pack_desc p = pack_desc_of(c, part_number(&c->row.arg[i]));
  return check_pack_weights(c, i, &p);
}

static void args_of_w(const check_case *c, const ga_gemm_fused_desc *d, check_args *a, const char *name, size_t io_at,
                      int part) {
  const bool across = d->plain.flags & GA_GEMM_WT;
  check_arg *w = check_in(a, name, io_at, d->plain.w_dtype, across ? d->plain.k : rows_of_part(d, part),
                          across ? d->plain.n : d->plain.k, d->plain.w_stride);
  w->align = (size_t)c->kernel->align;
  if (((const ga_gemm_fused_desc *)c->desc)->plain.w_layout == GA_LAYOUT_NATIVE) return;
  w->derived = true;
  if (d->plain.w_layout == GA_LAYOUT_NATIVE) return;
  const ga_pack_desc p = pack_desc_of(c, part);
  check_packed_arg(c, w, &p);
}

/* Rows that add a norm read 16 bytes at a time. */
static size_t sum_align(const ga_gemm_fused_desc *d) { return d->fused & GA_GEMM_FUSED_ADD_NORM ? 16 : 0; }

static void args_more(const check_case *c, const ga_gemm_fused_desc *d, check_args *a) {
  static const char *const ws[] = {"w1", "w2"}, *const ys[] = {"y1", "y2"}, *const biases[] = {"bias1", "bias2"};
  if (d->fused & GA_GEMM_FUSED_NORM)
    check_in(a, "norm", offsetof(ga_gemm_fused_io, norm), GA_F32, 1, d->plain.k, d->plain.k)->align = sum_align(d);
  if (d->fused & GA_GEMM_FUSED_ADD_NORM) {
    check_in(a, "add", offsetof(ga_gemm_fused_io, add), GA_F32, d->plain.m, d->plain.k, d->plain.x_stride)->align =
        sum_align(d);
    check_in(a, "add_norm", offsetof(ga_gemm_fused_io, add_norm), GA_F32, 1, d->plain.k, d->plain.k)->align =
        sum_align(d);
    check_out(a, "sum", offsetof(ga_gemm_fused_io, sum), GA_F32, d->plain.m, d->plain.k, d->plain.x_stride)->align =
        sum_align(d);
  }
  if (d->fused & GA_GEMM_FUSED_GATED) args_of_w(c, d, a, ws[0], offsetof(ga_gemm_fused_io, w_more), 1);
  for (size_t i = 0; i < GA_GEMM_MORE && d->n_more[i]; i++) {
    const size_t at = i * sizeof(void *);
    args_of_w(c, d, a, ws[i], offsetof(ga_gemm_fused_io, w_more) + at, (int)i + 1);
    check_out(a, ys[i], offsetof(ga_gemm_fused_io, y_more) + at, d->plain.y_dtype, d->plain.m, d->n_more[i],
              d->y_more_stride[i]);
    if (d->plain.flags & GA_GEMM_BIAS)
      check_in(a, biases[i], offsetof(ga_gemm_fused_io, bias_more) + at, GA_F32, 1, d->n_more[i], d->n_more[i]);
  }
}

static void args_of_scales(const ga_gemm_desc *d, check_args *a) {
  const bool blocks = d->scales == GA_GEMM_SCALES_BLOCK;
  const int64_t xs = blocks ? ga_gemm_blocks(d->k) * d->m : 1,
                ws = blocks ? ga_gemm_blocks(d->n) * ga_gemm_blocks(d->k) : 1;
  if (!d->scales) return;
  check_in(a, "x_scale", offsetof(ga_gemm_fused_io, plain.x_scale), GA_F32, 1, xs, xs)->fill = CHECK_FILL_OP;
  check_in(a, "w_scale", offsetof(ga_gemm_fused_io, plain.w_scale), GA_F32, 1, ws, ws)->fill = CHECK_FILL_OP;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_gemm_fused_desc *d = desc;
  const size_t align = (size_t)c->kernel->align;
  check_arg *y = check_out(a, "y", offsetof(ga_gemm_fused_io, plain.y), d->plain.y_dtype, d->plain.m, d->plain.n,
                           d->plain.y_stride);
  y->align = align;
  args_of_w(c, d, a, "w", offsetof(ga_gemm_fused_io, plain.w), 0);
  const bool xt = d->plain.flags & GA_GEMM_XT;
  check_arg *x = check_in(a, "x", offsetof(ga_gemm_fused_io, plain.x), d->plain.x_dtype, xt ? d->plain.k : d->plain.m,
                          xt ? d->plain.m : d->plain.k, d->plain.x_stride);
  x->align = align > sum_align(d) ? align : sum_align(d);
  if (rounds_x(&d->plain) && c->mode == CHECK_EXACT) x->fill = CHECK_FILL_OP;
  args_more(c, d, a);
  args_of_scales(&d->plain, a);
  if (d->plain.flags & GA_GEMM_BIAS)
    check_in(a, "bias", offsetof(ga_gemm_fused_io, plain.bias), GA_F32, 1, d->plain.n, d->plain.n);
  if (d->plain.flags & GA_GEMM_GLU)
    check_in(a, "gate", offsetof(ga_gemm_fused_io, plain.gate), d->plain.y_dtype, d->plain.m, d->plain.n,
             d->plain.y_stride)
        ->align = align;
  if (!(d->plain.flags & GA_GEMM_RESIDUAL)) return;
  check_in(a, "residual", offsetof(ga_gemm_fused_io, plain.residual), d->plain.y_dtype, d->plain.m, d->plain.n,
           d->plain.y_stride)
      ->align = align;
  if (c->bits & Y_IS_RESIDUAL) y->alias = a->n - 1;
}

static void oracle_types(void *desc) {
  ga_gemm_fused_desc *d = desc;
  d->plain.y_dtype = GA_F64;
  d->plain.w_layout = GA_LAYOUT_NATIVE;
}

/* --- the plain evaluation --- */

static float activate(int32_t act, float x) {
  switch (act) {
  case GA_ACT_SILU: return x / (1.0f + expf(-x));
  case GA_ACT_GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.797884561f /* sqrt(2/pi) */ * (x + 0.044715f * x * x * x)));
  case GA_ACT_GELU_ERF: return 0.5f * x * (1.0f + erff(x * 0.707106781f /* sqrt(1/2) */));
  default: return x;
  }
}

/* n elements from `at` on, `stride` apart, as the kernel multiplies them. */
static void load_values(const ga_kernel *kernel, int32_t dtype, const void *data, int64_t at, int64_t stride, int64_t n,
                        float *out) {
  for (int64_t i = 0; i < n; i++) {
    double v = ga_ref_load((ga_dtype)dtype, data, at + i * stride);
    out[i] = (float)(kernel->op_flags & GA_GEMM_ROW_BF16 ? check_round(GA_BF16, v) : v);
  }
}

/* The codes of a row of e4m3_128, and behind them their scales. */
static void load_codes(const void *matrix, int64_t row, int64_t k, float *out) {
  enum { SCALE = sizeof(float), BYTES = SCALE + GA_GEMM_SCALE_BLOCK };
  const uint8_t *block = (const uint8_t *)matrix + row * (k / GA_GEMM_SCALE_BLOCK) * BYTES;
  for (int64_t i = 0; i < k; i += GA_GEMM_SCALE_BLOCK, block += BYTES) {
    memcpy(out + k + i / GA_GEMM_SCALE_BLOCK, block, SCALE);
    for (int64_t e = 0; e < GA_GEMM_SCALE_BLOCK; e++) out[i + e] = ga_e4m3_to_f32(block[SCALE + e]);
  }
}

static void norm_x_row(const ga_gemm_fused_desc *d, const float *weight, float *x) {
  float sum = 0;
  for (int64_t i = 0; i < d->plain.k; i++) sum += x[i] * x[i];
  const float factor = 1.0f / sqrtf(sum / (float)d->plain.k + d->norm_eps);
  for (int64_t i = 0; i < d->plain.k; i++) x[i] = x[i] * factor * weight[i];
}

/* To f16, times the power of two that brings the largest finite element between 2^14 and 2^15. */
static void round_f16(const ga_gemm_desc *d, float *x) {
  float most = 0;
  int exponent;
  for (int64_t i = 0; i < d->k; i++)
    if (isfinite(x[i])) most = fmaxf(most, fabsf(x[i]));
  (void)frexpf(most, &exponent);
  const int up = 15 - (exponent > -99 ? exponent : -99);
  for (int64_t i = 0; i < d->k; i++) x[i] = ldexpf((float)check_round(GA_F16, (double)ldexpf(x[i], up)), -up);
}

/* A row of X, normed and rounded as the kernel rounds it. */
static void load_x(const ga_kernel *kernel, const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int64_t row,
                   float *out) {
  load_values(kernel, d->plain.x_dtype, a->plain.x, ga_gemm_x_at(&d->plain, row, 0), ga_gemm_x_at(&d->plain, 0, 1),
              d->plain.k, out);
  if (d->fused & GA_GEMM_FUSED_ADD_NORM) {
    norm_x_row(d, a->add_norm, out);
    for (int64_t i = 0; i < d->plain.k; i++)
      a->sum[row * d->plain.x_stride + i] = out[i] += a->add[row * d->plain.x_stride + i];
  }
  if (d->fused & GA_GEMM_FUSED_NORM) norm_x_row(d, a->norm, out);
  if (kernel->op_flags & GA_GEMM_ROW_F16) round_f16(&d->plain, out);
  for (int64_t b = 0; rounds_x(&d->plain) && b < d->plain.k; b += GA_GEMM_SCALE_BLOCK)
    out[d->plain.k + b / GA_GEMM_SCALE_BLOCK] = ga_gemm_x_codes(out + b, GA_GEMM_SCALE_BLOCK, out + b);
  const float steps = (float)rounding_steps_of(kernel);
  for (int64_t b = 0; steps > 0 && b < d->plain.k; b += 32) {
    const int64_t end = ga_min_i64(b + 32, d->plain.k);
    float most = 0;
    for (int64_t i = b; i < end; i++) most = fmaxf(most, fabsf(out[i]));
    float step = most / steps;
    for (int64_t i = b; i < end; i++) out[i] = step > 0 ? step * rintf(out[i] / step) : 0.0f;
  }
}

static float float_dot(const float *x, const float *w, int64_t k) {
  float dot = 0;
  for (int64_t i = 0; i < k; i++) dot += x[i] * w[i];
  return dot;
}

/* Scales of the operands at element i of row `row` of X and row `col` of W. Where X is rounded, they stand behind x and
 * w. */
static float e4m3_factor(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, const float *x, const float *w,
                         int64_t row, int64_t col, int64_t i) {
  const int64_t at = d->plain.k + i / GA_GEMM_SCALE_BLOCK;
  if (rounds_x(&d->plain)) return x[at] * w[at];
  return ga_gemm_x_scale(&d->plain, &a->plain, row, i) * ga_gemm_w_scale(&d->plain, &a->plain, col, i);
}

/* e4m3 by e4m3 in blocks of 128 of k, each times its scales: in f32, or on tensor cores. */
static float e4m3_dot(const ga_kernel *kernel, const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, const float *x,
                      const float *w, int64_t row, int64_t col) {
  const bool fast = kernel->op_flags & GA_GEMM_ROW_FAST_SUM;
  float dot = 0, sum = 0;
  for (int64_t b = 0; b < d->plain.k; b += GA_GEMM_SCALE_BLOCK) {
    const int64_t n = ga_min_i64(GA_GEMM_SCALE_BLOCK, d->plain.k - b);
    for (int64_t i = b; kernel->flags & GA_KERNEL_TENSOR && i < b + n; i += CHECK_E4M3_STEP) {
      check_e4m3 u, v;
      for (int e = 0; e < CHECK_E4M3_STEP; e++) {
        check_e4m3_set(&u, e, i + e < d->plain.k ? (double)x[i + e] : 0);
        check_e4m3_set(&v, e, i + e < d->plain.k ? (double)w[i + e] : 0);
      }
      sum = check_e4m3_add(sum, &u, &v);
    }
    if (!(kernel->flags & GA_KERNEL_TENSOR)) sum = float_dot(x + b, w + b, n);
    if (fast && b + n < d->plain.k) continue;
    dot = fmaf(sum, e4m3_factor(d, a, x, w, row, col, b), dot);
    sum = 0;
  }
  return dot;
}

static float dot_of(const ga_kernel *kernel, const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, const float *x,
                    const float *w, int64_t row, int64_t col) {
  if (is_e4m3(&d->plain) || rounds_x(&d->plain)) return e4m3_dot(kernel, d, a, x, w, row, col);
  return (kernel->flags & GA_KERNEL_TENSOR ? check_tensor_dot : float_dot)(x, w, d->plain.k);
}

/* Element col of a row: x, its row of X; w, its row of the matrix. */
static float finish_plain(const ga_kernel *kernel, const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a,
                          const check_part *p, const float *x, const float *w, int64_t row, int64_t col) {
  const int64_t at = row * p->stride + col;
  float t = d->plain.scale * dot_of(kernel, d, a, x, w, row, col);
  if (d->plain.flags & GA_GEMM_BIAS) t += p->bias[col];
  if (d->plain.flags & GA_GEMM_GLU)
    t *= activate(d->plain.act, (float)ga_ref_load((ga_dtype)d->plain.y_dtype, a->plain.gate, at));
  else if (!(d->fused & GA_GEMM_FUSED_GATED))
    t = activate(d->plain.act, t);
  return d->plain.flags & GA_GEMM_RESIDUAL ? t + (float)ga_ref_load((ga_dtype)d->plain.y_dtype, a->plain.residual, at)
                                           : t;
}

/* Floats of a row of X or W, with scales behind it. */
static int64_t row_floats(const ga_gemm_desc *d) { return d->k + ga_gemm_blocks(d->k); }

/* x: all rows of X; w: room for two rows of weights. */
static void plain_part(const ga_kernel *kernel, const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int i,
                       const float *x, float *w) {
  const check_part p = check_part_of(d, a, i);
  float *gate = w + row_floats(&d->plain);
  for (int64_t c = 0; c < p.n; c++) {
    if (rounds_x(&d->plain))
      load_codes(p.w, c, d->plain.k, w);
    else
      load_values(kernel, d->plain.w_dtype, p.w, ga_gemm_w_at(&d->plain, c, 0), ga_gemm_w_at(&d->plain, 0, 1),
                  d->plain.k, w);
    if (d->fused & GA_GEMM_FUSED_GATED)
      load_values(kernel, d->plain.w_dtype, a->w_more[0], c * d->plain.k, 1, d->plain.k, gate);
    for (int64_t r = 0; r < d->plain.m; r++) {
      const float *row = x + r * row_floats(&d->plain);
      float t = finish_plain(kernel, d, a, &p, row, w, r, c);
      if (d->fused & GA_GEMM_FUSED_GATED)
        t *= activate(d->plain.act, d->plain.scale * dot_of(kernel, d, a, row, gate, r, c));
      ga_ref_store((ga_dtype)d->plain.y_dtype, p.y, r * p.stride + c, (double)t);
    }
  }
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  const ga_gemm_fused_desc *d = desc;
  void *p;
  const int64_t floats = row_floats(&d->plain);
  GA_TRY(ga_mem_zalloc((size_t)(floats * (d->plain.m + 2)), sizeof(float), "check", &p));
  float *x = p;
  for (int64_t r = 0; r < d->plain.m; r++) load_x(kernel, d, io, r, x + r * floats);
  for (int i = 0; i <= GA_GEMM_MORE; i++) plain_part(kernel, d, io, i, x, x + d->plain.m * floats);
  ga_mem_free(p);
  return GA_OK;
}

/* --- the unit of error --- */

typedef struct sums {
  double terms;   /* sum of |x w| */
  double squares; /* expected, of the error that rounding the factors makes */
} sums;

/* An element of X, before a norm; a sum as the oracle left it. */
static double x_at(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int64_t row, int64_t i) {
  if (d->fused & GA_GEMM_FUSED_ADD_NORM) return (double)a->sum[row * d->plain.x_stride + i];
  return ga_ref_load((ga_dtype)d->plain.x_dtype, a->plain.x, ga_gemm_x_at(&d->plain, row, i)) *
         (double)ga_gemm_x_scale(&d->plain, &a->plain, row, i);
}

/* What it has errors in proportion to: of a sum, both of its parts. */
static double x_size(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int64_t row, int64_t i) {
  const double x = fabs(x_at(d, a, row, i));
  return d->fused & GA_GEMM_FUSED_ADD_NORM ? x + 2 * fabs((double)a->add[row * d->plain.x_stride + i]) : x;
}

/* Of the norm that is added. */
static double factor_of(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int64_t row) {
  double squares = 0;
  for (int64_t i = 0; i < d->plain.k; i++)
    squares += pow(ga_ref_load((ga_dtype)d->plain.x_dtype, a->plain.x, row * d->plain.x_stride + i), 2);
  return 1 / sqrt(squares / (double)d->plain.k + (double)d->norm_eps);
}

static double norm_factor(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int64_t row) {
  double sum = 0;
  if (!(d->fused & GA_GEMM_FUSED_NORM)) return 1;
  for (int64_t i = 0; i < d->plain.k; i++) sum += pow(x_at(d, a, row, i), 2);
  return 1 / sqrt(sum / (double)d->plain.k + (double)d->norm_eps);
}

/* Of row `row` of X, which `factor` norms, by row col of w. */
static sums sum_up(const check_case *c, const ga_gemm_fused_io *a, const void *matrix, int64_t row, int64_t col,
                   double factor) {
  const ga_gemm_fused_desc *d = c->oracle_desc;
  const uint32_t flags = c->kernel->op_flags;
  const double steps = rounding_steps_of(c->kernel);
  sums s = {0, 0};
  double most = 0, w2 = 0, row_most = 0, row_w2 = 0;
  for (int64_t i = 0; i < d->plain.k; i++) {
    double x = x_size(d, a, row, i);
    double w = ga_ref_load((ga_dtype)d->plain.w_dtype, matrix, ga_gemm_w_at(&d->plain, col, i)) *
               (double)ga_gemm_w_scale(&d->plain, &a->plain, col, i);
    if (d->fused & GA_GEMM_FUSED_NORM) x *= factor * (double)a->norm[i];
    s.terms += fabs(x * w);
    most = fmax(most, fabs(x));
    w2 += w * w;
    if (flags & GA_GEMM_ROW_BF16) {
      if (x != check_round(GA_BF16, x)) s.squares += w * w * check_bf16_rounding(x);
      if (d->plain.w_dtype != GA_BF16)
        s.squares += x * x * check_bf16_rounding(w); /* its parts are rounded, if not their sum */
    }
    if (flags & GA_GEMM_ROW_F16) s.squares += x * w * x * w * 0x1p-24 / 3; /* one factor, by up to 2^-12 of its size */
    row_most = fmax(row_most, isfinite(x) ? fabs(x) : 0);
    row_w2 += w * w;
    if (!(steps > 0) || (i % 32 != 31 && i + 1 < d->plain.k)) continue;
    s.squares += most / steps * most / steps / 12 * w2; /* a step's uniform rounding has variance step^2 / 12 */
    most = w2 = 0;
  }
  /* Small elements of a row in f16 have the step of its smallest normal number. */
  if (flags & GA_GEMM_ROW_F16) s.squares += row_most * 0x1p-38 * row_most * 0x1p-38 / 12 * row_w2;
  return s;
}

/* Sizes of the product beside the gate, by which an error of the gate is multiplied, and of the activated gate. */
static double beside_gate(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int64_t row, int64_t col,
                          double factor, double *gate) {
  double t = 0, g = 0;
  for (int64_t i = 0; i < d->plain.k; i++) {
    const double x = x_at(d, a, row, i) * (d->fused & GA_GEMM_FUSED_NORM ? factor * (double)a->norm[i] : 1);
    t += x * ga_ref_load((ga_dtype)d->plain.w_dtype, a->plain.w, col * d->plain.k + i);
    g += x * ga_ref_load((ga_dtype)d->plain.w_dtype, a->w_more[0], col * d->plain.k + i);
  }
  *gate = fabs((double)activate(d->plain.act, (float)((double)d->plain.scale * g)));
  return fabs((double)d->plain.scale * t);
}

/* Spacing of the larger of f32 at the size of the terms, and of the result's type; and the rounding of factors. */
static void unit(const check_case *c, const check_arg *y, const void *io, double *unit, int64_t n) {
  const ga_gemm_fused_desc *d = c->oracle_desc;
  const ga_gemm_fused_io *a = io;
  if (!strcmp(y->name, "sum")) {
    /* x times a weight may be denormal before the factor multiplies it. */
    for (int64_t i = 0; i < n; i++)
      unit[i] =
          check_ulp(GA_F32, x_size(d, a, i / d->plain.k, i % d->plain.k)) + 0x1p-149 * factor_of(d, a, i / d->plain.k);
    return;
  }
  const check_part p = check_part_of(d, a, part_number(y));
  const double scale = fabs((double)d->plain.scale);
  for (int64_t i = 0; i < n; i++) {
    int64_t r = i / p.n, col = i % p.n, at = r * p.stride + col;
    const double factor = norm_factor(d, a, r);
    sums s = sum_up(c, a, p.w, r, col, factor);
    /* |act'| < 1.2. A gate counts with its own size: act(gate) may be a small difference of large terms. */
    double slope = d->plain.flags & GA_GEMM_GLU ? fabs(ga_ref_load(GA_F64, a->plain.gate, at)) : 1.2, other = 0;
    if (d->fused & GA_GEMM_FUSED_GATED) other = 1.2 * beside_gate(d, a, r, col, factor, &slope);
    double size = s.terms * scale + (d->plain.flags & GA_GEMM_BIAS ? fabs((double)p.bias[col]) : 0);
    double rounding = scale * sqrt(s.squares) * slope;
    size *= slope;
    if (d->fused & GA_GEMM_FUSED_GATED) { /* the gate's own sum has errors, too */
      const sums gate = sum_up(c, a, a->w_more[0], r, col, factor);
      size += other * scale * gate.terms;
      rounding = hypot(rounding, other * scale * sqrt(gate.squares));
    }
    if (d->plain.flags & GA_GEMM_RESIDUAL) size += fabs(ga_ref_load(GA_F64, a->plain.residual, at));
    double type = check_ulp(y->dtype, ga_ref_load(GA_F64, p.y, at));
    unit[i] = fmax(type, fmax(check_ulp(GA_F32, size), rounding));
  }
}

/* A sum's one row has one factor: the root halves what the quotient by k and the addition of eps round off, and rounds,
 * as the inverse does. The plain evaluation may be luckier. */
static double shared(const check_case *c, const check_arg *arg) {
  (void)c;
  return strcmp(arg->name, "sum") ? 0 : 3 * 0x1p-24;
}

static void describe(const void *desc, char *text, size_t capacity) {
  const ga_gemm_fused_desc *d = desc;
  (void)snprintf(text, capacity, "act=%d flags=%u fused=%u scale=%g more=%lld+%lld scales=%d", d->plain.act,
                 d->plain.flags, d->fused, (double)d->plain.scale, (long long)d->n_more[0], (long long)d->n_more[1],
                 d->plain.scales);
}

const check_op check_gemm = {
    .modes = CHECK_EXACT | CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_TINY,
    .ulps = 2,
    .draw = draw,
    .args = args,
    .oracle_types = oracle_types,
    .plain = plain,
    .unit = unit,
    .shared = shared,
    .fill = fill,
    .derive = derive,
    .must_refuse = must_refuse,
    .describe = describe,
};
