#include "model/promote.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/quant.h"
#include "base/quant_grid.h"
#include "base/status.h"
#include "ga/gemm.h"
#include "model/weight_spec.h"
#include "opdef/ops.h"

/* Of a matrix in q8_0: as many more bits as an H200 reads in half a microsecond. docs/log/models.md. */
#define PROMOTE_BYTES ((uint64_t)6 << 20)

enum { BLOCK = 32, HALF = BLOCK / 2, Q8_BYTES = 34, SCALE_BYTES = 2 };
enum { BLOCKS_AT_ONCE = 64 /* the least that a thread takes */ };
enum { SCALED = 128 /* rows and columns of an e4m3 matrix that share a scale; codes of a block of e4m3_128 */ };

static bool of_layer(const ga_model_tensor *t) { return !strncmp(t->name, "blk.", 4) && t->view.n_dims == 2; }

static bool layers_have_q8_0(const ga_model_file *file) {
  for (int64_t i = 0; i < ga_model_file_tensor_count(file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(file, i);
    if (of_layer(t) && t->view.dtype == GA_Q8_0) return true;
  }
  return false;
}

/* Of t as q8_0. By its bytes: a plan is made before anyone has looked at its dimensions. */
static uint64_t promoted_bytes(const ga_model_tensor *t) {
  const ga_dtype_traits *traits = ga_dtype_info(t->view.dtype);
  return t->bytes / (uint64_t)traits->block_bytes * (uint64_t)traits->block_elems / BLOCK * Q8_BYTES;
}

/* Whose size decides: of q, k and v, which are to stay alike, q's. */
static const ga_model_tensor *largest_beside(const ga_model_file *file, const ga_model_tensor *t) {
  char name[80];
  const char *end = strstr(t->name, ".attn_k.");
  if (!end) end = strstr(t->name, ".attn_v.");
  if (!end) return t;
  (void)snprintf(name, sizeof name, "%.*s.attn_q.weight", (int)(end - t->name), t->name);
  const ga_model_tensor *q = ga_model_file_find(file, name);
  return q ? q : t;
}

/* Is there a row for several matrices of that type by one normed X? Else there is nothing to gain. */
static bool joins_products(ga_ctx *ctx, ga_dtype type) {
  enum { ROWS = 1024 };
  ga_gemm_fused_desc d = GA_GEMM_FUSED_DESC_INIT;
  uint64_t packed;
  ga_layout layout;
  d.plain.m = 1;
  d.plain.n = d.plain.k = d.n_more[0] = ROWS;
  d.plain.x_stride = d.plain.w_stride = d.plain.y_stride = d.y_more_stride[0] = ROWS;
  d.plain.w_dtype = (int32_t)type;
  d.fused = GA_GEMM_FUSED_NORM;
  if (ga_pack_choose(ctx, type, ROWS, ROWS, &layout, &packed) != GA_OK) return false;
  if (layout == GA_LAYOUT_NATIVE) return false; /* the oracle's */
  d.plain.w_layout = (int32_t)layout;
  return ga_kernel_choose(ctx->device, ctx->disable_kernels, GA_OP_gemm, &d) != NULL;
}

ga_dtype ga_table_dtype(const ga_model_tensor *t) {
  return ga_dtype_is_read_only(t->view.dtype) ? GA_Q8_0 : t->view.dtype;
}

/* Of an e4m3 matrix. */
static bool keeps_codes(ga_ctx *ctx, const ga_model_tensor *t) {
  return t->view.n_dims == 2 && t->view.dim[1] % SCALED == 0 && joins_products(ctx, GA_E4M3_128);
}

ga_dtype ga_stored_dtype(const ga_model *model, ga_ctx *ctx, const ga_model_tensor *t) {
  const ga_dtype own = t->view.dtype;
  if (own == GA_E4M3) return keeps_codes(ctx, t) ? GA_E4M3_128 : GA_BF16;
  if (ga_dtype_is_read_only(own)) return GA_Q8_0;
  if ((own != GA_Q4_0 && own != GA_Q5_0) || !of_layer(t)) return own;
  const bool is_small = promoted_bytes(largest_beside(model->file, t)) <= PROMOTE_BYTES;
  return is_small && layers_have_q8_0(model->file) && joins_products(ctx, GA_Q8_0) ? GA_Q8_0 : own;
}

/* Element e is less 8 in the low half of byte e of 16, element e + 16 in the high one. */
static void promote_q4_0(const uint8_t *from, int8_t *to) {
  for (int e = 0; e < HALF; e++) {
    to[e] = (int8_t)((from[e] & 15) - 8);
    to[e + HALF] = (int8_t)((from[e] >> 4) - 8);
  }
}
/* The same less 16, with fifth bits in 4 bytes ahead. */
static void promote_q5_0(const uint8_t *from, int8_t *to) {
  const uint32_t high = from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
  for (int e = 0; e < HALF; e++) {
    to[e] = (int8_t)(((from[4 + e] & 15) | (high >> e & 1) << 4) - 16);
    to[e + HALF] = (int8_t)(((from[4 + e] >> 4) | (high >> (e + HALF) & 1) << 4) - 16);
  }
}

/* A block of a grid. Runs of 16 that share a scale keep their codes; the others, of iq2_xs and iq2_s, are rounded. */
static void promote_grid(ga_dtype dtype, const uint8_t *from, uint8_t *to) {
  int8_t code[GA_GRID_BLOCK];
  float scale[GA_GRID_RUNS], x[BLOCK];
  ga_grid_codes(dtype, from, code, scale);
  for (int i = 0; i < GA_GRID_BLOCK; i += BLOCK, to += Q8_BYTES) {
    const float *s = scale + i / GA_GRID_RUN;
    if (s[0] == s[1]) {
      const ga_f16 h = ga_f32_to_f16(s[0]);
      memcpy(to, &h, SCALE_BYTES);
      memcpy(to + SCALE_BYTES, code + i, BLOCK);
      continue;
    }
    for (int e = 0; e < BLOCK; e++) x[e] = s[e / GA_GRID_RUN] * (float)code[i + e];
    ga_quantise_block(GA_Q8_0, x, to);
  }
}

static void promote_block(ga_dtype dtype, const uint8_t *from, uint8_t *to) {
  if (dtype != GA_Q4_0 && dtype != GA_Q5_0) {
    promote_grid(dtype, from, to);
    return;
  }
  memcpy(to, from, SCALE_BYTES);
  (dtype == GA_Q5_0 ? promote_q5_0 : promote_q4_0)(from + SCALE_BYTES, (int8_t *)to + SCALE_BYTES);
}

typedef struct promote_job {
  ga_dtype dtype;
  const uint8_t *from;
  uint8_t *to;
  uint64_t each, wide; /* bytes of a block before and after */
} promote_job;

static void promote_range(void *arg, int64_t begin, int64_t end, int thread) {
  const promote_job *job = arg;
  (void)thread;
  for (uint64_t i = (uint64_t)begin; i < (uint64_t)end; i++)
    promote_block(job->dtype, job->from + i * job->each, job->to + i * job->wide);
}

ga_status ga_promote_q8_0(ga_pool *pool, const ga_model_file *file, const ga_model_tensor *t, void **out,
                          uint64_t *bytes) {
  const ga_dtype_traits *traits = ga_dtype_info(t->view.dtype);
  const uint64_t each = (uint64_t)traits->block_bytes, wide = (uint64_t)traits->block_elems / BLOCK * Q8_BYTES,
                 blocks = t->bytes / each;
  void *p;
  *out = NULL;
  *bytes = blocks * wide;
  GA_TRY(ga_mem_alloc(*bytes + t->bytes, t->name, &p)); /* the file's behind the wide ones */
  uint8_t *to = p;
  promote_job job = {.dtype = t->view.dtype, .from = to + *bytes, .to = to, .each = each, .wide = wide};
  const ga_status status = ga_model_file_read(file, t, 0, to + *bytes, t->bytes);
  if (status == GA_OK) ga_pool_run_ranges(pool, (int64_t)blocks, BLOCKS_AT_ONCE, promote_range, &job);
  if (status == GA_OK)
    *out = p;
  else
    ga_mem_free(p);
  return status;
}

/* --- e4m3 --- */

/* Scales of an e4m3 matrix, and how they are spread: the scale of row r and column c is number
 * r / rows_each * stride + c / cols_each. */
typedef struct e4m3_scales {
  const ga_model_tensor *tensor; /* NULL: all are 1 */
  const uint8_t *bytes;          /* read by ga_promote_e4m3 */
  int64_t rows_each, cols_each, stride;
} e4m3_scales;

static float e4m3_scale_at(const e4m3_scales *s, int64_t i) {
  uint16_t h;
  float f;
  if (!s->tensor) return 1;
  if (s->tensor->view.dtype == GA_F32) {
    memcpy(&f, s->bytes + 4 * i, 4);
    return f;
  }
  memcpy(&h, s->bytes + 2 * i, 2);
  return s->tensor->view.dtype == GA_F16 ? ga_f16_to_f32(h) : ga_bf16_to_f32(h);
}

/* Of matrix t; *out = NULL where it has none. */
static ga_status find_scales(const ga_model_file *file, const ga_model_tensor *t, const ga_model_tensor **out) {
  char name[GA_WEIGHT_NAME_BYTES + sizeof "_scale_inv"];
  bool must;
  GA_TRY(ga_model_file_bool_or(file, "ga.fp8_scales", false, &must));
  (void)snprintf(name, sizeof name, "%s_scale", t->name);
  const ga_model_tensor *plain = ga_model_file_find(file, name);
  (void)snprintf(name, sizeof name, "%s_scale_inv", t->name);
  const ga_model_tensor *inverse = ga_model_file_find(file, name);
  GA_REQUIRE(!plain || !inverse, GA_ERR_FORMAT, "%s has both %s and %s; must have one of them", t->name, plain->name,
             inverse->name);
  GA_REQUIRE(plain || inverse || !must, GA_ERR_FORMAT,
             "%s is e4m3 and has no scale; quantization_config says fp8, so %s_scale or %s_scale_inv must be there",
             t->name, t->name, t->name);
  *out = plain ? plain : inverse;
  return GA_OK;
}

static ga_status scales_of(const ga_model_file *file, const ga_model_tensor *t, int64_t rows, int64_t cols,
                           e4m3_scales *out) {
  const ga_model_tensor *s = NULL;
  *out = (e4m3_scales){.rows_each = rows, .cols_each = cols};
  GA_TRY(find_scales(file, t, &s));
  if (!s) return GA_OK;
  const ga_tensor *v = &s->view;
  int64_t n = 1;
  for (int i = 0; i < v->n_dims; i++) n *= v->dim[i];
  const int64_t down = (rows + SCALED - 1) / SCALED, along = (cols + SCALED - 1) / SCALED;
  const bool by_row = n == rows && v->dim[0] == rows,
             by_block = v->n_dims == 2 && v->dim[0] == down && v->dim[1] == along;
  GA_REQUIRE(v->dtype == GA_F32 || v->dtype == GA_F16 || v->dtype == GA_BF16, GA_ERR_UNSUPPORTED,
             "%s is %s; scales must be f32, f16 or bf16", s->name, ga_dtype_name(v->dtype));
  GA_REQUIRE(n == 1 || by_row || by_block, GA_ERR_SHAPE,
             "%s has %d dimensions and %lld scales; must be [1], [%lld], or [%lld, %lld]", s->name, v->n_dims,
             (long long)n, (long long)rows, (long long)down, (long long)along);
  out->tensor = s;
  if (n == 1) return GA_OK;
  out->rows_each = by_block ? SCALED : 1;
  out->cols_each = by_block ? SCALED : cols;
  out->stride = by_block ? along : 1;
  return GA_OK;
}

typedef struct e4m3_job {
  e4m3_scales scales;
  float values[256]; /* of the codes */
  const uint8_t *from;
  void *to;
  int64_t cols;
  bool keeps; /* codes, in blocks of e4m3_128; else: bf16 */
} e4m3_job;

static float scale_of_element(const e4m3_scales *s, int64_t r, int64_t c) {
  return e4m3_scale_at(s, r / s->rows_each * s->stride + c / s->cols_each);
}

static void unscale_row(const e4m3_job *job, int64_t r) {
  const e4m3_scales *s = &job->scales;
  const uint8_t *from = job->from + r * job->cols;
  ga_bf16 *to = (ga_bf16 *)job->to + r * job->cols;
  for (int64_t c = 0; c < job->cols;) {
    const float scale = scale_of_element(s, r, c);
    const int64_t end = ga_min_i64(job->cols, (c / s->cols_each + 1) * s->cols_each);
    for (; c < end; c++) to[c] = ga_f32_to_bf16(job->values[from[c]] * scale);
  }
}

static bool has_nan(const uint8_t *codes, int n) {
  int found = 0;
  for (int i = 0; i < n; i++) found |= (codes[i] & 127) == 127;
  return found;
}

/* A row's blocks. Their codes have no NaN: a block with one gets a scale of NaN, so that all results of the row are NaN
 * as they were. */
static void put_blocks(const e4m3_job *job, int64_t r) {
  const uint8_t *from = job->from + r * job->cols;
  uint8_t *to = (uint8_t *)job->to + r * (job->cols / SCALED) * (SCALED + (int64_t)sizeof(float));
  for (int64_t c = 0; c < job->cols; c += SCALED, from += SCALED, to += SCALED + sizeof(float)) {
    const float scale = has_nan(from, SCALED) ? NAN : scale_of_element(&job->scales, r, c);
    memcpy(to, &scale, sizeof scale);
    memcpy(to + sizeof scale, from, SCALED);
  }
}

static void e4m3_rows(void *arg, int64_t begin, int64_t end, int thread) {
  const e4m3_job *job = arg;
  (void)thread;
  for (int64_t r = begin; r < end; r++) (job->keeps ? put_blocks : unscale_row)(job, r);
}

ga_status ga_promote_e4m3(ga_pool *pool, const ga_model_file *file, const ga_model_tensor *t, int64_t rows,
                          int64_t cols, ga_dtype to, void **out, uint64_t *bytes) {
  e4m3_job job = {.cols = cols, .keeps = to == GA_E4M3_128};
  void *p;
  *out = NULL;
  GA_REQUIRE((uint64_t)rows * (uint64_t)cols == t->bytes, GA_ERR_SHAPE, "%s has %llu elements; must be [%lld, %lld]",
             t->name, (unsigned long long)t->bytes, (long long)rows, (long long)cols);
  GA_TRY(ga_dtype_bytes(to, cols, bytes)); /* of a row */
  *bytes *= (uint64_t)rows;
  GA_TRY(scales_of(file, t, rows, cols, &job.scales));
  const uint64_t scale_bytes = job.scales.tensor ? job.scales.tensor->bytes : 0;
  GA_TRY(ga_mem_alloc(*bytes + t->bytes + scale_bytes, t->name, &p)); /* the file's behind them */
  uint8_t *from = (uint8_t *)p + *bytes, *scales = from + t->bytes;
  job.to = p;
  job.from = from;
  job.scales.bytes = scales;
  ga_status status = ga_model_file_read(file, t, 0, from, t->bytes);
  if (status == GA_OK && scale_bytes) status = ga_model_file_read(file, job.scales.tensor, 0, scales, scale_bytes);
  for (int i = 0; i < 256; i++) job.values[i] = ga_e4m3_to_f32((uint8_t)i);
  if (status == GA_OK) ga_pool_run_ranges(pool, rows, 1, e4m3_rows, &job);
  if (status == GA_OK)
    *out = p;
  else
    ga_mem_free(p);
  return status;
}
