/* Products by experts. Who chose whom is a function of c->bits: at random, all the same expert, or few of many, so that
 * most experts have no rows. Their weights, and rows between matrices, are NaN where types have one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "ga/experts.h"
#include "ref/ref.h"
#include "verify/check/check.h"
#include "verify/check/error.h"
#include "verify/check/packed.h"

#define MAX_WORK     60000  /* multiply-adds of a draw: the oracle is slow */
#define MAX_WEIGHTS  400000 /* elements of a stack */
#define MOST_EXPERTS 1024

#define KIND_OF_CHOICE (c->bits & 3)
#define Y_IS_RESIDUAL  (c->bits >> 2 & 1)
#define BAD_NUMBER     ((c->bits >> 3 & 15) == 0)

static const ga_dtype weights[] = {GA_F32,    GA_F16,    GA_BF16,  GA_E4M3,  GA_Q4_0,    GA_Q4_1, GA_Q5_0,
                                   GA_Q5_1,   GA_Q8_0,   GA_Q2_K,  GA_Q3_K,  GA_Q4_K,    GA_Q5_K, GA_Q6_K,
                                   GA_IQ4_NL, GA_IQ4_XS, GA_MXFP4, GA_NVFP4, GA_E4M3_128};

static bool rounds_x(const ga_kernel *kernel) { return kernel->op_flags & GA_EXPERT_GEMM_ROW_Q15_ACT; }
static bool takes_bf16(const ga_kernel *kernel) { return kernel->op_flags & GA_EXPERT_GEMM_ROW_BF16; }
static int64_t drawn_slots(const ga_expert_gemm_desc *d) { return d->tokens * d->top_k; }

/* --- the draw --- */

static void draw_expert_shape(check_case *c, ga_expert_gemm_desc *d) {
  const int64_t block = ga_dtype_info((ga_dtype)d->w_dtype)->block_elems, step = d->w_layout ? 16 : 1;
  d->tokens = check_extent(c, 0, 24);
  d->top_k = 1 + check_pick(c, check_pick(c, 4) ? 4 : 16);
  d->n_experts = (int32_t)check_dim(c, 1, check_pick(c, 4) ? 12 : 200);
  d->n = check_dim(c, 0, 70);
  d->k = check_dim_step(c, 0, 800, block);
  if (c->kernel->rows_min && check_pick(c, 8)) { /* rows an expert, on average */
    d->n_experts = 1 + check_pick(c, 4);
    d->top_k = 1 + check_pick(c, 8);
    d->tokens = ga_div_up(c->kernel->rows_min * d->n_experts, d->top_k) + check_pick(c, 20);
    d->k = ga_min_i64(d->k, ga_max_i64(block, 256));
    d->n = ga_min_i64(d->n, 40);
  }
  const int64_t work = c->kernel->rows_min ? 3 * MAX_WORK : MAX_WORK;
  while (drawn_slots(d) * d->n * d->k > work && d->k > block) d->k = d->k / 2 / block * block;
  while (drawn_slots(d) * d->n * d->k > work && d->n > 1) d->n /= 2;
  d->expert_rows = step * ga_div_up(check_pick(c, 3) ? d->n : 2 * d->n + check_pick(c, 3), step);
  while (d->n_experts * d->expert_rows * d->k > MAX_WEIGHTS && d->n_experts > 1) d->n_experts /= 2;
}

static void draw_activation(check_case *c, ga_expert_gemm_desc *d) {
  d->act = c->mode == CHECK_EXACT ? GA_ACT_NONE : check_pick(c, GA_ACT_RELU2 + 1);
  if (d->act == GA_ACT_SILU && check_pick(c, 2)) d->act_alpha = check_pick(c, 2) ? 1.702f : 0.5f;
  if (check_pick(c, 3) == 0) {
    if (c->mode == CHECK_EXACT && check_pick(c, 2)) d->act = GA_ACT_RELU2; /* one rounding: without a gate alone */
    return;
  }
  d->flags |= GA_EXPERT_GATED;
  d->clamp = check_pick(c, 3);
  if (d->clamp) d->limit = c->mode == CHECK_EXACT ? 7 : 0.5f + 4 * (float)ga_rng_unit(&c->rng);
  if (check_pick(c, 2)) d->up_offset = 1;
}

static void draw(check_case *c) {
  ga_expert_gemm_desc *d = c->desc;
  *d = (ga_expert_gemm_desc)GA_EXPERT_GEMM_DESC_INIT;
  d->w_dtype = check_dtype_of(c, 0, weights, (int)GA_COUNT_OF(weights));
  d->x_dtype = check_dtype(c, 1);
  d->y_dtype = check_dtype(c, 2);
  d->w_layout = (int32_t)(check_pick(c, 8) ? c->kernel->layout : GA_LAYOUT_NATIVE);
  draw_expert_shape(c, d);
  d->form = check_pick(c, 2);
  d->flags = (GA_EXPERT_BIAS * (uint32_t)check_pick(c, 2)) | (GA_EXPERT_SORTED * (uint32_t)check_pick(c, 2)) |
             (GA_EXPERT_WEIGHTS * (uint32_t)check_pick(c, 2));
  if (d->form == GA_EXPERT_IN)
    draw_activation(c, d);
  else
    d->flags |= GA_EXPERT_RESIDUAL * (uint32_t)check_pick(c, 2);
  d->x_stride = check_stride(c, d->k, 1);
  d->y_stride = check_stride(c, d->n, 1);
  if (d->form == GA_EXPERT_IN && !(d->flags & GA_EXPERT_SORTED) && check_pick(c, 3) == 0) {
    d->flags |= GA_EXPERT_IN_TURN;
    d->tokens = ga_min_i64(d->tokens * d->top_k, 60);
    d->top_k = 1;
  }
  if (check_pick(c, 3) == 0) d->n_matrices = 1 + check_pick(c, 2 * d->n_experts);
  while (d->n_matrices * d->expert_rows * d->k > MAX_WEIGHTS && d->n_matrices > 1) d->n_matrices /= 2;
  if (d->form == GA_EXPERT_IN && !(d->flags & GA_EXPERT_SORTED) && check_pick(c, 3) == 0) {
    d->flags |= GA_EXPERT_IN_TURN;
    d->tokens = ga_min_i64(d->tokens * d->top_k, 60);
    d->top_k = 1;
  }
  if (d->act || d->clamp) c->specials &= ~(uint32_t)CHECK_INF;     /* formulas give NaN, or the limit */
  if (rounds_x(c->kernel)) c->specials &= ~(uint32_t)CHECK_INF;    /* which has no scale */
  if (takes_bf16(c->kernel)) c->specials &= ~(uint32_t)CHECK_TINY; /* which bf16 units take for zero */
}

static const char *must_refuse(const check_case *c) {
  const ga_expert_gemm_desc *d = c->desc;
  if (d->w_layout != (int32_t)c->kernel->layout) return "another layout of the weights";
  return drawn_slots(d) < (int64_t)c->kernel->rows_min * d->n_experts ? "too few rows for each expert" : NULL;
}

/* --- who chose whom --- */

static int32_t expert_of(const check_case *c, int64_t slot) {
  const ga_expert_gemm_desc *d = c->desc;
  if (d->flags & GA_EXPERT_IN_TURN) return (int32_t)(slot % d->n_experts);
  uint64_t seed = (uint64_t)c->bits * 0x9e3779b97f4a7c15u, x = seed + (uint64_t)slot;
  const uint64_t first = ga_splitmix64(&seed), one = ga_splitmix64(&x), n = (uint64_t)d->n_experts;
  if (KIND_OF_CHOICE == 1) return (int32_t)(first % n);             /* all tokens, all slots */
  if (KIND_OF_CHOICE == 2) return (int32_t)((first + one % 3) % n); /* three neighbours */
  return (int32_t)(one % n);
}

/* Matrix of an expert; -1: it has none. */
static int32_t matrix_of_expert(const check_case *c, int32_t expert) {
  const ga_expert_gemm_desc *d = c->desc;
  uint64_t x = ((uint64_t)c->bits << 20) + (uint64_t)expert;
  const uint64_t one = ga_splitmix64(&x);
  if (!d->n_matrices) return expert;
  return one % 3 ? (int32_t)(one / 3 % (uint64_t)d->n_matrices) : -1;
}

static int64_t drawn_matrices(const ga_expert_gemm_desc *d) { return d->n_matrices ? d->n_matrices : d->n_experts; }

static bool is_chosen(const check_case *c, int32_t expert) {
  for (int64_t i = 0; i < drawn_slots(c->desc); i++)
    if (expert_of(c, i) == expert) return true;
  return false;
}

/* Returns whether a slot reads the matrix. */
static bool is_matrix_read(const check_case *c, int32_t matrix) {
  for (int64_t i = 0; i < drawn_slots(c->desc); i++)
    if (matrix_of_expert(c, expert_of(c, i)) == matrix) return true;
  return false;
}

/* Number of slots of lower experts, and of this one's before `slot`. */
static int64_t drawn_place(const check_case *c, int64_t slot) {
  const int32_t expert = expert_of(c, slot);
  int64_t place = 0;
  for (int64_t i = 0; i < drawn_slots(c->desc); i++) {
    const int32_t e = expert_of(c, i);
    place += e < expert || (e == expert && i < slot);
  }
  return place;
}

static void fill_offsets(const check_case *c, double *values, int64_t n) {
  memset(values, 0, (size_t)n * sizeof *values);
  for (int64_t i = 0; i < drawn_slots(c->desc); i++) values[expert_of(c, i) + 1]++;
  for (int64_t e = 1; e < n; e++) values[e] += values[e - 1];
}

/* Sorted row of each slot, or slot of each sorted row: drawn_place for all slots at once. */
static void fill_order(const check_case *c, bool is_order, double *values, int64_t n) {
  const ga_expert_gemm_desc *d = c->desc;
  int64_t next[MOST_EXPERTS + 1] = {0};
  for (int64_t i = 0; i < n; i++) next[expert_of(c, i) + 1]++;
  for (int32_t e = 0; e < d->n_experts; e++) next[e + 1] += next[e];
  for (int64_t i = 0; i < n; i++) {
    const int64_t place = next[expert_of(c, i)]++;
    values[is_order ? place : i] = (double)(is_order ? i : place);
  }
}

/* A number out of range, which CPU contexts must refuse. */
static void spoil_number(check_case *c, double *values, int64_t n) {
  const ga_expert_gemm_desc *d = c->desc;
  if (n == 0 || d->n == 0 || !BAD_NUMBER || c->timing || !ga_device_works_in_calls(c->ctx->device)) return;
  values[check_pick(c, (int32_t)n)] = check_pick(c, 2) ? -1 : 100000;
  c->expect = GA_ERR_ARG;
}

static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  if (!strcmp(arg->name, "offsets")) {
    fill_offsets(c, values, n);
    return;
  }
  if (!strcmp(arg->name, "matrices")) {
    for (int64_t i = 0; i < n; i++) values[i] = matrix_of_expert(c, (int32_t)i);
    return;
  }
  if (!strcmp(arg->name, "experts"))
    for (int64_t i = 0; i < n; i++) values[i] = expert_of(c, i);
  else
    fill_order(c, !strcmp(arg->name, "order"), values, n);
  if (strcmp(arg->name, "place")) spoil_number(c, values, n);
}

/* Rows of X in OUT of slots whose expert has no matrix. */
static void unread_slots(const check_case *c, bool *unread) {
  const ga_expert_gemm_desc *d = c->desc;
  for (int64_t slot = 0; d->form == GA_EXPERT_OUT && slot < drawn_slots(d); slot++) {
    if (matrix_of_expert(c, expert_of(c, slot)) >= 0) continue;
    const int64_t row = d->flags & GA_EXPERT_SORTED ? drawn_place(c, slot) : slot;
    for (int64_t i = 0; i < d->k; i++) unread[row * d->k + i] = true;
  }
}

/* Rows of matrices that no slot reads, biases of experts that nobody chose, and rows between matrices. */
static void unread(const check_case *c, const check_arg *arg, bool *unread, int64_t n) {
  const ga_expert_gemm_desc *d = c->desc;
  if (!strcmp(arg->name, "x")) unread_slots(c, unread);
  const bool is_w = arg->name[0] == 'w' && strcmp(arg->name, "weights");
  if ((!is_w && strncmp(arg->name, "bias", 4)) || ga_dtype_info(arg->dtype)->is_quant) return;
  const int64_t width = is_w ? d->k : 1;
  for (int64_t row = 0; row < (width ? n / width : 0); row++) {
    const int32_t number = (int32_t)(row / d->expert_rows);
    const bool used = is_w ? is_matrix_read(c, number) : is_chosen(c, number) && matrix_of_expert(c, number) >= 0;
    if (row % d->expert_rows < d->n && used) continue;
    for (int64_t i = 0; i < width; i++) unread[row * width + i] = true;
  }
}

/* --- arguments --- */

static ga_pack_desc pack_desc_of_stack(const ga_expert_gemm_desc *d) {
  ga_pack_desc p = GA_PACK_DESC_INIT;
  p.n = drawn_matrices(d) * d->expert_rows;
  p.k = d->k;
  p.w_dtype = d->w_dtype;
  p.w_layout = d->w_layout;
  return p;
}

static ga_status derive(check_case *c, int i) {
  const ga_pack_desc p = pack_desc_of_stack(c->desc);
  return check_pack_weights(c, i, &p);
}

static void args_of_stack(const check_case *c, const ga_expert_gemm_desc *d, check_args *a, const char *name,
                          size_t io_at) {
  check_arg *w = check_in(a, name, io_at, d->w_dtype, drawn_matrices(d) * d->expert_rows, d->k, d->k);
  if (((const ga_expert_gemm_desc *)c->desc)->w_layout == GA_LAYOUT_NATIVE) return;
  w->derived = true;
  if (d->w_layout == GA_LAYOUT_NATIVE) return;
  const ga_pack_desc p = pack_desc_of_stack(d);
  check_packed_arg(c, w, &p);
}

static void args_of_order(const ga_expert_gemm_desc *d, check_args *a) {
  const int64_t slots = drawn_slots(d);
  if (d->n_matrices)
    check_index(a, "matrices", offsetof(ga_expert_gemm_io, matrices), d->n_experts, 0, 1)->fill = CHECK_FILL_OP;
  if (d->flags & GA_EXPERT_IN_TURN) return;
  if (!(d->flags & GA_EXPERT_SORTED)) {
    check_index(a, "experts", offsetof(ga_expert_gemm_io, experts), slots, 0, 1)->fill = CHECK_FILL_OP;
    return;
  }
  check_index(a, "offsets", offsetof(ga_expert_gemm_io, offsets), d->n_experts + 1, 0, 1)->fill = CHECK_FILL_OP;
  check_index(a, "order", offsetof(ga_expert_gemm_io, order), slots, 0, 1)->fill = CHECK_FILL_OP;
  check_index(a, "place", offsetof(ga_expert_gemm_io, place), slots, 0, 1)->fill = CHECK_FILL_OP;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_expert_gemm_desc *d = desc;
  const bool in = d->form == GA_EXPERT_IN, gated = d->flags & GA_EXPERT_GATED;
  const int64_t x_rows = in ? d->tokens : drawn_slots(d), y_rows = in ? drawn_slots(d) : d->tokens,
                biases = d->n_experts * d->expert_rows;
  check_arg *y = check_out(a, "y", offsetof(ga_expert_gemm_io, y), d->y_dtype, y_rows, d->n, d->y_stride);
  if (in && d->n_matrices) y->role = CHECK_INOUT; /* rows of slots without a matrix stay */
  check_in(a, "x", offsetof(ga_expert_gemm_io, x), d->x_dtype, x_rows, d->k, d->x_stride);
  args_of_stack(c, d, a, "w", offsetof(ga_expert_gemm_io, w));
  if (gated) args_of_stack(c, d, a, "w_gate", offsetof(ga_expert_gemm_io, w_gate));
  if (d->flags & GA_EXPERT_BIAS) check_in(a, "bias", offsetof(ga_expert_gemm_io, bias), GA_F32, 1, biases, biases);
  if (d->flags & GA_EXPERT_BIAS && gated)
    check_in(a, "bias_gate", offsetof(ga_expert_gemm_io, bias_gate), GA_F32, 1, biases, biases);
  if (d->flags & GA_EXPERT_WEIGHTS)
    check_in(a, "weights", offsetof(ga_expert_gemm_io, weights), GA_F32, d->tokens, d->top_k, d->top_k);
  args_of_order(d, a);
  if (!(d->flags & GA_EXPERT_RESIDUAL)) return;
  check_in(a, "residual", offsetof(ga_expert_gemm_io, residual), d->y_dtype, d->tokens, d->n, d->y_stride);
  if (Y_IS_RESIDUAL) y->alias = a->n - 1;
}

static void oracle_types(void *desc) {
  ga_expert_gemm_desc *d = desc;
  d->y_dtype = GA_F64;
  d->w_layout = GA_LAYOUT_NATIVE;
}

/* --- the plain evaluation --- */

static int64_t slot_row(const check_case *c, int64_t slot) {
  return ((const ga_expert_gemm_desc *)c->desc)->flags & GA_EXPERT_SORTED ? drawn_place(c, slot) : slot;
}

/* Expert and row of a slot, from the arguments of a call. */
static int32_t called_expert(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a, int64_t slot, int64_t *row) {
  int32_t e = 0;
  *row = slot;
  if (d->flags & GA_EXPERT_IN_TURN) return (int32_t)(slot % d->n_experts);
  if (!(d->flags & GA_EXPERT_SORTED)) return a->experts[slot];
  *row = a->place[slot];
  while (a->offsets[e + 1] <= *row) e++;
  return e;
}

static float bound(float x, float limit, bool both) {
  x = x > limit ? limit : x;
  return both && x < -limit ? -limit : x;
}

static float activate(const ga_expert_gemm_desc *d, float x) {
  switch (d->act) {
  case GA_ACT_SILU: return x / (1.0f + expf(-d->act_alpha * x));
  case GA_ACT_GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.797884561f /* sqrt(2/pi) */ * (x + 0.044715f * x * x * x)));
  case GA_ACT_GELU_ERF: return 0.5f * x * (1.0f + erff(x * 0.707106781f /* sqrt(1/2) */));
  case GA_ACT_RELU2: return x < 0 ? 0 : x * x;
  default: return x;
  }
}

/* An element of X or W as the kernel multiplies it. */
static float taken_as(const ga_kernel *kernel, int32_t dtype, const void *data, int64_t at) {
  const double x = ga_ref_load((ga_dtype)dtype, data, at);
  return (float)(takes_bf16(kernel) ? check_round(GA_BF16, x) : x);
}

/* A row of X, rounded as the kernel rounds it: in blocks of 32 to 127 * 128 steps each way, or to bf16. */
static void load_expert_x(const ga_kernel *kernel, const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a,
                          int64_t row, float *x) {
  for (int64_t i = 0; i < d->k; i++) x[i] = taken_as(kernel, d->x_dtype, a->x, row * d->x_stride + i);
  for (int64_t b = 0; rounds_x(kernel) && b < d->k; b += 32) {
    const int64_t end = ga_min_i64(b + 32, d->k);
    float most = 0;
    for (int64_t i = b; i < end; i++) most = fmaxf(most, fabsf(x[i]));
    const float step = most / (127 * 128);
    for (int64_t i = b; i < end; i++) x[i] = step > 0 || isnan(x[i]) ? step * rintf(x[i] / step) : 0.0f;
  }
}

static float plain_expert_product(const ga_kernel *kernel, const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a,
                                  const void *w, const float *bias, const float *x, int64_t slot, int32_t e,
                                  int64_t col) {
  const int64_t matrix = d->n_matrices ? a->matrices[e] : e;
  if (matrix < 0) return 0;
  const float weight = d->flags & GA_EXPERT_WEIGHTS ? a->weights[slot] : 1;
  float dot = 0;
  for (int64_t i = 0; i < d->k; i++)
    dot += x[i] * taken_as(kernel, d->w_dtype, w, (matrix * d->expert_rows + col) * d->k + i);
  const float b = d->flags & GA_EXPERT_BIAS ? bias[e * d->expert_rows + col] : 0;
  return d->form == GA_EXPERT_IN ? weight * dot + b : weight * (dot + b);
}

static float plain_in(const ga_kernel *kernel, const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a, const float *x,
                      int64_t slot, int32_t e, int64_t col) {
  float u = plain_expert_product(kernel, d, a, a->w, a->bias, x, slot, e, col);
  if (!(d->flags & GA_EXPERT_GATED)) return activate(d, u);
  float g = plain_expert_product(kernel, d, a, a->w_gate, a->bias_gate, x, slot, e, col);
  if (d->clamp == GA_EXPERT_CLAMP_BEFORE) g = bound(g, d->limit, false);
  if (d->clamp) u = bound(u, d->limit, true);
  g = activate(d, g);
  if (d->clamp == GA_EXPERT_CLAMP_AFTER) g = bound(g, d->limit, false);
  return g * (u + d->up_offset);
}

/* y: sums of a token, of which this adds a slot's, or a slot's row. */
static void plain_slot(const ga_kernel *kernel, const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a, int64_t slot,
                       float *x) {
  const bool in = d->form == GA_EXPERT_IN;
  int64_t row;
  const int32_t e = called_expert(d, a, slot, &row);
  if (in && d->n_matrices && a->matrices[e] < 0) return;
  load_expert_x(kernel, d, a, in ? slot / d->top_k : row, x);
  for (int64_t c = 0; c < d->n; c++) {
    const int64_t at = (in ? row : slot / d->top_k) * d->y_stride + c;
    float t =
        in ? plain_in(kernel, d, a, x, slot, e, c) : plain_expert_product(kernel, d, a, a->w, a->bias, x, slot, e, c);
    if (!in && slot % d->top_k) t += (float)ga_ref_load((ga_dtype)d->y_dtype, a->y, at);
    if (!in && slot % d->top_k == 0 && d->flags & GA_EXPERT_RESIDUAL)
      t += (float)ga_ref_load((ga_dtype)d->y_dtype, a->residual, at);
    ga_ref_store((ga_dtype)d->y_dtype, a->y, at, (double)t);
  }
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  const ga_expert_gemm_desc *d = desc;
  void *x;
  GA_TRY(ga_mem_zalloc((size_t)d->k + 1, sizeof(float), "check", &x));
  for (int64_t i = 0; d->n && i < drawn_slots(d); i++) plain_slot(kernel, d, io, i, x);
  ga_mem_free(x);
  return GA_OK;
}

/* --- the unit of error --- */

/* A product as the oracle has it, and what its errors are in proportion to. */
typedef struct sized_product {
  double value;   /* with weight and bias */
  double terms;   /* sum of |weight x w|, + |bias| */
  double squares; /* expected, of the error that rounding X and W makes */
} sized_product;

static sized_product size_product(const check_case *c, const ga_expert_gemm_io *a, const void *w, const float *bias,
                                  int64_t slot, int64_t col) {
  const ga_expert_gemm_desc *d = c->oracle_desc;
  int64_t row;
  const int32_t e = called_expert(d, a, slot, &row);
  const int64_t x_row = d->form == GA_EXPERT_IN ? slot / d->top_k : row, matrix = d->n_matrices ? a->matrices[e] : e,
                of_w = (matrix * d->expert_rows + col) * d->k;
  if (matrix < 0) return (sized_product){0};
  const double weight = d->flags & GA_EXPERT_WEIGHTS ? (double)a->weights[slot] : 1,
               b = d->flags & GA_EXPERT_BIAS ? (double)bias[e * d->expert_rows + col] : 0,
               of_b = d->form == GA_EXPERT_IN ? 1 : weight;
  sized_product s = {.value = of_b * b, .terms = fabs(of_b * b)};
  double most = 0, w2 = 0;
  for (int64_t i = 0; i < d->k; i++) {
    const double x = ga_ref_load((ga_dtype)d->x_dtype, a->x, x_row * d->x_stride + i);
    const double v = ga_ref_load((ga_dtype)d->w_dtype, w, of_w + i);
    s.value += weight * x * v;
    s.terms += fabs(weight * x * v);
    if (takes_bf16(c->kernel) && x != check_round(GA_BF16, x))
      s.squares += weight * weight * v * v * check_bf16_rounding(x);
    if (takes_bf16(c->kernel) && d->w_dtype != GA_BF16) /* its parts are rounded, if not their sum */
      s.squares += weight * weight * x * x * check_bf16_rounding(v);
    most = fmax(most, fabs(x));
    w2 += v * v;
    if (!rounds_x(c->kernel) || (i % 32 != 31 && i + 1 < d->k)) continue;
    const double step = weight * most / (127 * 128);
    s.squares += step * step / 12 * w2; /* a step's uniform rounding has variance step^2 / 12 */
    most = w2 = 0;
  }
  return s;
}

/* A bound of the activation's slope near a product: 1.2, but for the square, which grows with the product's error. */
static double activation_slope(const ga_expert_gemm_desc *d, const sized_product *x) {
  if (d->act != GA_ACT_RELU2) return 1.2;
  return 2 * (fabs(x->value) + 2 * check_ulp(GA_F32, x->terms) + 6 * sqrt(x->squares));
}

/* Size of what IN adds and multiplies, in *rounding what rounding X makes. */
static double size_in(const check_case *c, const ga_expert_gemm_io *a, int64_t slot, int64_t col, double *rounding) {
  const ga_expert_gemm_desc *d = c->oracle_desc;
  const sized_product u = size_product(c, a, a->w, a->bias, slot, col);
  if (!(d->flags & GA_EXPERT_GATED)) {
    *rounding = activation_slope(d, &u) * sqrt(u.squares);
    return activation_slope(d, &u) * u.terms + (d->act == GA_ACT_RELU2 ? u.value * u.value : 0);
  }
  const sized_product g = size_product(c, a, a->w_gate, a->bias_gate, slot, col);
  const double t = fabs((double)activate(d, (float)g.value)), other = fabs(u.value) + fabs((double)d->up_offset);
  *rounding = hypot(t * sqrt(u.squares), other * activation_slope(d, &g) * sqrt(g.squares));
  return t * (u.terms + other) + other * activation_slope(d, &g) * g.terms;
}

static double size_out(const check_case *c, const ga_expert_gemm_io *a, int64_t token, int64_t col, double *rounding) {
  const ga_expert_gemm_desc *d = c->oracle_desc;
  double size = 0, squares = 0;
  for (int64_t i = token * d->top_k; i < (token + 1) * d->top_k; i++) {
    const sized_product s = size_product(c, a, a->w, a->bias, i, col);
    size += s.terms;
    squares += s.squares;
  }
  *rounding = sqrt(squares);
  if (d->flags & GA_EXPERT_RESIDUAL) size += fabs(ga_ref_load(GA_F64, a->residual, token * d->y_stride + col));
  return size;
}

/* Spacing of the larger of f32 at the size of the terms, and of the result's type; and the rounding of X. */
static void unit(const check_case *c, const check_arg *y, const void *io, double *unit, int64_t n) {
  const ga_expert_gemm_desc *d = c->oracle_desc;
  const ga_expert_gemm_io *a = io;
  const bool in = d->form == GA_EXPERT_IN;
  for (int64_t i = 0; i < n; i++) {
    const int64_t r = i / d->n, col = i % d->n, row = in ? slot_row(c, r) : r; /* r: slot or token */
    double rounding;
    const double size = in ? size_in(c, a, r, col, &rounding) : size_out(c, a, r, col, &rounding);
    const double type = check_ulp(y->dtype, ga_ref_load(GA_F64, a->y, row * d->y_stride + col));
    unit[row * d->n + col] = fmax(type, fmax(check_ulp(GA_F32, size), rounding));
  }
}

static void describe(const void *desc, char *text, size_t capacity) {
  const ga_expert_gemm_desc *d = desc;
  (void)snprintf(text, capacity,
                 "form=%d top_k=%d expert_rows=%lld act=%d alpha=%g clamp=%d limit=%g offset=%g flags=%u matrices=%lld",
                 d->form, d->top_k, (long long)d->expert_rows, d->act, (double)d->act_alpha, d->clamp, (double)d->limit,
                 (double)d->up_offset, d->flags, (long long)d->n_matrices);
}

const check_op check_expert_gemm = {
    .modes = CHECK_EXACT | CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_TINY,
    .ulps = 2,
    .draw = draw,
    .args = args,
    .oracle_types = oracle_types,
    .plain = plain,
    .unit = unit,
    .fill = fill,
    .unread = unread,
    .derive = derive,
    .must_refuse = must_refuse,
    .describe = describe,
};
