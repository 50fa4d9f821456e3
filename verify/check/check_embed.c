/* Y = scale * table[ids]. */
#include "ref/ref.h"
#include "verify/check/check.h"

#define BAD_ID (c->bits % 8 == 0)

static void draw(check_case *c) {
  static const ga_dtype weights[] = {GA_F32,    GA_F16,    GA_BF16,  GA_E4M3,  GA_Q4_0,    GA_Q4_1, GA_Q5_0,
                                     GA_Q5_1,   GA_Q8_0,   GA_Q2_K,  GA_Q3_K,  GA_Q4_K,    GA_Q5_K, GA_Q6_K,
                                     GA_IQ4_NL, GA_IQ4_XS, GA_MXFP4, GA_NVFP4, GA_E4M3_128};
  ga_embed_desc *d = c->desc;
  *d = (ga_embed_desc)GA_EMBED_DESC_INIT;
  d->w_dtype = check_dtype_of(c, 0, weights, (int)GA_COUNT_OF(weights));
  d->y_dtype = check_dtype(c, 1);
  d->tokens = check_extent(c, 0, 40);
  d->vocab = check_dim(c, 1, 60);
  d->width = check_dim_step(c, 0, 700, ga_dtype_info((ga_dtype)d->w_dtype)->block_elems);
  d->y_stride = check_stride(c, d->width, 1);
  d->scale = check_factor(c);
}

static void args(const check_case *c, const void *desc, check_args *a) {
  (void)c;
  const ga_embed_desc *d = desc;
  check_in(a, "table", offsetof(ga_embed_io, table), d->w_dtype, d->vocab, d->width, d->width);
  check_index(a, "ids", offsetof(ga_embed_io, ids), d->tokens, 0, d->vocab)->fill = CHECK_FILL_OP;
  check_out(a, "y", offsetof(ga_embed_io, y), d->y_dtype, d->tokens, d->width, d->y_stride);
}

/* One id out of range must be refused before anything is written. */
static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  for (int64_t i = 0; i < n; i++) values[i] = check_pick(c, (int32_t)arg->hi);
  if (n == 0 || !BAD_ID || !ga_device_works_in_calls(c->ctx->device))
    return; /* a GPU's row cannot refuse what only it reads */
  values[check_pick(c, (int32_t)n)] = check_pick(c, 2) ? arg->hi : -1;
  c->expect = GA_ERR_ARG;
}

static void oracle_types(void *desc) { ((ga_embed_desc *)desc)->y_dtype = GA_F64; }

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_embed_desc *d = desc;
  const ga_embed_io *a = io;
  for (int64_t t = 0; t < d->tokens; t++)
    for (int64_t i = 0; i < d->width; i++) {
      float w = (float)ga_ref_load((ga_dtype)d->w_dtype, a->table, a->ids[t] * d->width + i);
      ga_ref_store((ga_dtype)d->y_dtype, a->y, t * d->y_stride + i, (double)(d->scale * w));
    }
  return GA_OK;
}

const check_op check_embed = {
    .modes = CHECK_EXACT | CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_HUGE | CHECK_TINY,
    .ulps = 1,
    .draw = draw,
    .args = args,
    .fill = fill,
    .oracle_types = oracle_types,
    .plain = plain,
};
