/* Conversion between element types. Blocks must equal the oracle's: a quantiser has one result. */
#include <math.h>

#include "ref/ref.h"
#include "verify/check/check.h"

/* What can be read comes last; results are floats and blocks. */
static const ga_dtype types[] = {GA_F32,    GA_F16,    GA_BF16,    GA_F64,   GA_E4M3,     GA_E5M2, GA_Q4_0, GA_Q4_1,
                                 GA_Q5_0,   GA_Q5_1,   GA_Q8_0,    GA_Q2_K,  GA_Q3_K,     GA_Q4_K, GA_Q5_K, GA_Q6_K,
                                 GA_IQ4_NL, GA_IQ4_XS, GA_MXFP4,   GA_NVFP4, GA_E4M3_128, GA_I8,   GA_I32,  GA_IQ2_XXS,
                                 GA_IQ2_XS, GA_IQ2_S,  GA_IQ3_XXS, GA_IQ3_S, GA_TQ1_0,    GA_TQ2_0};
#define N_FLOATS 4
#define N_READ   9

static void draw(check_case *c) {
  ga_convert_desc *d = c->desc;
  *d = (ga_convert_desc)GA_CONVERT_DESC_INIT;
  d->x_dtype = check_dtype_of(c, 0, types, check_pick(c, 2) ? N_FLOATS : (int)GA_COUNT_OF(types));
  d->y_dtype = check_dtype_of(c, 1, types, (int)GA_COUNT_OF(types) - N_READ);
  int64_t bx = ga_dtype_info((ga_dtype)d->x_dtype)->block_elems, by = ga_dtype_info((ga_dtype)d->y_dtype)->block_elems;
  if (d->y_dtype == GA_E4M3 && check_pick(c, 3)) d->scales = 1 + check_pick(c, 2);
  if (c->kernel->dtype[1] == GA_E4M3 && check_pick(c, 12)) d->scales = 1 + check_pick(c, 2); /* rows that make scales */
  if (d->scales && d->x_dtype > GA_BF16) d->x_dtype = GA_BF16;
  d->rows = check_extent(c, 0, d->scales && check_pick(c, 2) ? 300 : 20);
  d->width = check_dim_step(c, 0, 1024, ga_max_i64(bx, by)); /* each block size divides the larger ones */
  /* Quantisers are defined on finite numbers. */
  if (by > 1) c->specials = CHECK_TINY;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  (void)c;
  const ga_convert_desc *d = desc;
  check_in(a, "x", offsetof(ga_convert_io, x), d->x_dtype, d->rows, d->width, d->width);
  check_out(a, "y", offsetof(ga_convert_io, y), d->y_dtype, d->rows, d->width, d->width);
  if (!d->scales) return;
  const int64_t cols = ga_div_up(d->width, 128),
                rows = d->scales == GA_CONVERT_SCALES_ROW ? d->rows : ga_div_up(d->rows, 128);
  const bool across = d->scales == GA_CONVERT_SCALES_ROW;
  check_out(a, "scale", offsetof(ga_convert_io, scale), GA_F32, across ? cols : rows, across ? rows : cols,
            across ? rows : cols);
}

static void oracle_types(void *desc) {
  ga_convert_desc *d = desc;
  if (!ga_dtype_info((ga_dtype)d->y_dtype)->is_quant) d->y_dtype = GA_F64;
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_convert_desc *d = desc;
  const ga_convert_io *a = io;
  if (d->scales) return ga_ref_convert(kernel, desc, io, NULL, NULL);
  if (ga_dtype_info((ga_dtype)d->y_dtype)->is_quant) return GA_OK; /* `unit` leaves no room anyway */
  for (int64_t i = 0; i < d->rows * d->width; i++)
    ga_ref_store((ga_dtype)d->y_dtype, a->y, i, (double)(float)ga_ref_load((ga_dtype)d->x_dtype, a->x, i));
  return GA_OK;
}

static void unit(const check_case *c, const check_arg *y, const void *io, double *unit, int64_t n) {
  (void)c;
  const ga_convert_io *a = io;
  bool blocks = ga_dtype_info(y->dtype)->is_quant;
  /* Values pass through f32. */
  for (int64_t i = 0; i < n; i++) {
    const void *values = y->name[0] == 's' ? (const void *)a->scale : a->y; /* the scales */
    double v = blocks ? 0 : ga_ref_load(y->name[0] == 's' ? GA_F32 : GA_F64, values, i);
    unit[i] = blocks ? 1e-300 : fmax(check_ulp(y->dtype, v), check_ulp(GA_F32, v));
  }
}

const check_op check_convert = {
    .modes = CHECK_EXACT | CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_HUGE | CHECK_TINY,
    .ulps = 1,
    .draw = draw,
    .args = args,
    .oracle_types = oracle_types,
    .plain = plain,
    .unit = unit,
};
