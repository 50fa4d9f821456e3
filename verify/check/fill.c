/* Values of arguments. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ref/ref.h"
#include "verify/check/internal.h"

/* --- plain types --- */

#define TIMING_BLOCKS \
  65537 /* blocks that a large argument of ga bench repeats: a prime, so that rows and tiles differ */

static double special(check_case *c, ga_dtype t) {
  double huge = t == GA_F16 ? 60000.0 : t == GA_E4M3 ? 448.0 : t == GA_E5M2 ? 57344.0 : 1.5e38;
  double sign = check_pick(c, 2) ? -1.0 : 1.0;
  for (;;) {
    uint32_t kind = 1u << check_pick(c, 4);
    if (!(kind & c->specials)) continue;
    switch (kind) {
    case CHECK_INF: return sign * HUGE_VAL;
    case CHECK_NAN: return (double)NAN;
    case CHECK_HUGE: return sign * huge;
    default: return sign * check_ulp(t, 0) * (1 + check_pick(c, 7));
    }
  }
}

static double draw_value(check_case *c, ga_dtype t, double scale) {
  if (c->mode == CHECK_EXACT) return (double)(check_pick(c, 9) - 4);
  if (c->mode == CHECK_HOSTILE && c->specials && check_pick(c, 23) == 0) return special(c, t);
  return scale * ga_rng_normal(&c->rng);
}

static double fill_value(check_case *c, const check_arg *arg, double scale) {
  double span = arg->hi - arg->lo;
  switch (arg->fill) {
  case CHECK_FILL_INDEX: return floor(arg->lo + span * ga_rng_unit(&c->rng));
  case CHECK_FILL_RANGE: return arg->lo + span * ga_rng_unit(&c->rng);
  default: return draw_value(c, arg->dtype, scale);
  }
}

static void store_value(const check_arg *arg, int64_t i, double x) {
  void *base = arg->before + arg->at;
  int64_t at = check_at(arg, i);
  switch (arg->dtype) {
  case GA_I8:
  case GA_U8: ((uint8_t *)base)[at] = (uint8_t)(int64_t)x; break;
  case GA_I16: ((int16_t *)base)[at] = (int16_t)x; break;
  case GA_I32: ((int32_t *)base)[at] = (int32_t)x; break;
  case GA_I64: ((int64_t *)base)[at] = (int64_t)x; break;
  default: ga_ref_store(arg->dtype, base, at, x); break;
  }
}

static ga_status spoil_unread(check_case *c, const check_arg *arg, int64_t n) {
  void *p;
  if (!c->op->unread || arg->role != CHECK_IN || c->timing) return GA_OK;
  GA_TRY(ga_arena_alloc(&c->arena, (size_t)n + 1, &p));
  bool *unread = memset(p, 0, (size_t)n + 1);
  c->op->unread(c, arg, unread, n);
  for (int64_t i = 0; i < n; i++)
    if (unread[i]) store_value(arg, i, (double)NAN);
  return GA_OK;
}

/* Repeats the first `period` of n elements of arg, in timing: random numbers of large arguments take longer than calls.
 * Returns how many have to be drawn: n, if elements have gaps. */
static int64_t drawn_of(const check_case *c, const check_arg *arg, int64_t n, int64_t period) {
  const bool dense = n > 0 && check_at(arg, n - 1) == n - 1;
  return c->timing && dense && n > period ? period : n;
}
static void repeat_drawn(const check_arg *arg, int64_t n, int64_t drawn) {
  const ga_dtype_traits *t = ga_dtype_info(arg->dtype);
  uint8_t *first = arg->before + arg->at;
  const size_t period = (size_t)(drawn / t->block_elems * t->block_bytes),
               all = (size_t)(n / t->block_elems * t->block_bytes);
  for (size_t at = period; at < all; at += period) memcpy(first + at, first, all - at < period ? all - at : period);
}

static ga_status fill_plain(check_case *c, check_arg *arg, int64_t n) {
  /* Rows of different size let an error in one row stand out. */
  double scale =
      c->mode != CHECK_EXACT && !c->timing && check_pick(c, 4) == 0 ? exp2((double)check_pick(c, 9) - 4) : 1.0;
  if (arg->fill != CHECK_FILL_OP) {
    const int64_t some =
        c->timing ? ga_min_i64(n, (int64_t)arg->repeat_bytes / ga_dtype_info(arg->dtype)->block_bytes) : n;
    const int64_t drawn = drawn_of(c, arg, some, TIMING_PERIOD);
    for (int64_t i = 0; i < drawn; i++) store_value(arg, i, fill_value(c, arg, scale));
    if (drawn < some) repeat_drawn(arg, some, drawn);
    return spoil_unread(c, arg, n);
  }
  void *values;
  GA_TRY(ga_arena_alloc(&c->arena, (size_t)n * sizeof(double), &values));
  c->op->fill(c, arg, values, n);
  for (int64_t i = 0; i < n; i++) store_value(arg, i, ((double *)values)[i]);
  return spoil_unread(c, arg, n);
}

/* --- blocks: random bits are good quants; scales must be finite and of one size --- */

typedef enum scale_kind { SCALE_F16, SCALE_E8M0, SCALE_E4M3, SCALE_F32 } scale_kind;

typedef struct block_scales {
  ga_dtype dtype;
  scale_kind kind;
  int at, n;      /* byte offset of the first, how many follow each other */
  double typical; /* makes values about 1 */
} block_scales;

static const block_scales scales[] = {
    {GA_Q4_0, SCALE_F16, 0, 1, 0.2},      {GA_Q4_1, SCALE_F16, 0, 2, 0.1},    {GA_Q5_0, SCALE_F16, 0, 1, 0.1},
    {GA_Q5_1, SCALE_F16, 0, 2, 0.05},     {GA_Q8_0, SCALE_F16, 0, 1, 0.01},   {GA_Q2_K, SCALE_F16, 80, 2, 0.05},
    {GA_Q3_K, SCALE_F16, 108, 1, 0.02},   {GA_Q4_K, SCALE_F16, 0, 2, 0.003},  {GA_Q5_K, SCALE_F16, 0, 2, 0.0015},
    {GA_Q6_K, SCALE_F16, 208, 1, 0.0006}, {GA_IQ4_NL, SCALE_F16, 0, 1, 0.01}, {GA_IQ4_XS, SCALE_F16, 0, 1, 0.0006},
    {GA_MXFP4, SCALE_E8M0, 0, 1, 0.5},    {GA_NVFP4, SCALE_E4M3, 0, 4, 0.5},  {GA_E4M3_128, SCALE_F32, 0, 1, 0.01},
    {GA_IQ2_XXS, SCALE_F16, 0, 1, 0.02},  {GA_IQ2_XS, SCALE_F16, 0, 1, 0.02}, {GA_IQ2_S, SCALE_F16, 0, 1, 0.02},
    {GA_IQ3_XXS, SCALE_F16, 0, 1, 0.008}, {GA_IQ3_S, SCALE_F16, 0, 1, 0.008}, {GA_TQ1_0, SCALE_F16, 52, 1, 1},
    {GA_TQ2_0, SCALE_F16, 64, 1, 1},
};

static const block_scales *scales_of_blocks(ga_dtype t) {
  for (size_t i = 0; i < GA_COUNT_OF(scales); i++)
    if (scales[i].dtype == t) return &scales[i];
  return NULL;
}

/* Exact mode: powers of two that keep whole sums in 24 bits. */
static void put_scale(check_case *c, const block_scales *s, uint8_t *at) {
  bool exact = c->mode == CHECK_EXACT;
  double x = exact ? exp2((double)check_pick(c, 2) - 5) : s->typical * (0.5 + ga_rng_unit(&c->rng));
  uint16_t h;
  float f;
  switch (s->kind) {
  case SCALE_F16:
    h = ga_f32_to_f16((float)(exact || check_pick(c, 2) ? x : -x));
    memcpy(at, &h, sizeof h);
    break;
  case SCALE_F32:
    f = (float)(exact || check_pick(c, 2) ? x : -x);
    memcpy(at, &f, sizeof f);
    break;
  case SCALE_E8M0: *at = (uint8_t)(125 + check_pick(c, 3)); break;
  case SCALE_E4M3: *at = ga_f32_to_e4m3((float)(exact ? exp2((double)check_pick(c, 3) - 2) : x)); break;
  }
}

/* Exact mode: e4m3 codes of four exponents that follow each other, from the smallest on or from that of 1. */
static void keep_exponents(uint8_t *codes, int n, int least) {
  for (int i = 0; i < n; i++) codes[i] = (uint8_t)((codes[i] & 0x87) | (least + (codes[i] >> 3 & 3)) << 3);
}

/* Codes that tensor cores multiply: they take 0x7f for NaN. Exact mode: 1, 1.5, 2 and 3, whose sums of 128 products
 * with integers up to 7 fit 14 bits. */
static void keep_multiplied(uint8_t *codes, int n, bool exact) {
  for (int i = 0; i < n; i++) {
    if ((codes[i] & 0x7f) == 0x7f) codes[i] ^= 1;
    if (exact) codes[i] = (uint8_t)((codes[i] & 0x84) | (7 + (codes[i] >> 3 & 1)) << 3);
  }
}

static void fill_blocks(check_case *c, const check_arg *arg, int64_t n) {
  const ga_dtype_traits *t = ga_dtype_info(arg->dtype);
  const block_scales *s = scales_of_blocks(arg->dtype);
  const bool few = arg->dtype == GA_E4M3_128 && c->mode == CHECK_EXACT;
  const int least = few ? 7 * check_pick(c, 2) : 0;
  const int64_t drawn = drawn_of(c, arg, n, TIMING_BLOCKS * t->block_elems);
  for (int64_t i = 0; i < drawn; i += t->block_elems) {
    uint8_t *block = arg->before + arg->at + check_at(arg, i) / t->block_elems * t->block_bytes;
    for (int b = 0; b < t->block_bytes; b++) block[b] = (uint8_t)ga_rng_u64(&c->rng);
    if (few) keep_exponents(block + 4, 128, least);
    if (arg->dtype == GA_E4M3_128 && ga_gemm_row_flags_of(c->kernel) & GA_GEMM_ROW_X_E4M3)
      keep_multiplied(block + 4, 128, c->mode == CHECK_EXACT);
    for (int k = 0; s && k < s->n; k++) put_scale(c, s, block + s->at + k * (s->kind == SCALE_F16 ? 2 : 1));
  }
  if (drawn < n) repeat_drawn(arg, n, drawn);
}

ga_status check_fill_arg(check_case *c, check_arg *arg) {
  int64_t n = check_count(arg);
  if (ga_dtype_info(arg->dtype)->block_elems == 1) return fill_plain(c, arg, n);
  fill_blocks(c, arg, n);
  return GA_OK;
}

/* --- reading back --- */

ga_status check_load(check_case *c, const check_arg *arg, const uint8_t *image, double **out) {
  int64_t n = check_count(arg);
  void *p;
  GA_TRY(ga_arena_alloc(&c->arena, (size_t)n * sizeof(double), &p));
  *out = p;
  for (int64_t i = 0; i < n; i++) (*out)[i] = ga_ref_load(arg->dtype, image + arg->at, check_at(arg, i));
  return GA_OK;
}
