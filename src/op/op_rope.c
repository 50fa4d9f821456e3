#include <float.h>

#include "op/op.h"

static ga_status complete(ga_rope_desc *d) {
  GA_TRY(ga_rope_complete_fields(d));
  GA_REQUIRE(d->rot_dim >= 0 && d->rot_dim <= d->head_dim && d->rot_dim % 2 == 0, GA_ERR_SHAPE,
             "rope: rot_dim is %d; must be even, 0 to head_dim (%d)", d->rot_dim, d->head_dim);
  return ga_complete_rows("rope", "x_stride", d->tokens, (int64_t)d->heads * d->head_dim, &d->x_stride);
}

static ga_status check_io(const ga_rope_desc *d, const ga_rope_io *io) {
  if (d->tokens == 0 || d->rot_dim == 0) return GA_OK;
  GA_CHECK_AT("rope", io->x, d->x_dtype, "x");
  GA_CHECK_AT("rope", io->positions, GA_I32, "positions");
  GA_CHECK_AT("rope", io->inv_freq, GA_F32, "inv_freq");
  return GA_OK;
}

GA_DEFINE_OP(rope);

/* Dimension whose wavelength fits `turns` times into the original context (YaRN, arXiv 2309.00071, eq. 17-18). */
static double yarn_dim(const ga_rope_params *p, double turns) {
  return p->rot_dim * log(p->original_context / (turns * 6.283185307179586)) / (2 * log(p->base));
}

/* Share of interpolation for pair i: 0 keeps the frequency, 1 divides it by the factor. */
static double yarn_ramp(double low, double high, int i) {
  double t = (i - low) / (high - low > 0.001 ? high - low : 0.001);
  return t < 0 ? 0 : t > 1 ? 1 : t;
}

static ga_status check_params(const ga_rope_params *p) {
  GA_REQUIRE(p->rot_dim >= 0 && p->rot_dim <= GA_ROW_DIM_MAX && p->rot_dim % 2 == 0, GA_ERR_SHAPE,
             "rope: rot_dim is %d; must be even, 0 to %d", p->rot_dim, GA_ROW_DIM_MAX);
  GA_REQUIRE(p->base > 1 && isfinite(p->base), GA_ERR_ARG, "rope: base is %g; must be above 1 and finite", p->base);
  GA_REQUIRE(p->scaling >= GA_ROPE_SCALE_NONE && p->scaling <= GA_ROPE_SCALE_YARN, GA_ERR_ARG,
             "rope: scaling is %d; allowed: 0 to 2", p->scaling);
  GA_REQUIRE(p->scaling == GA_ROPE_SCALE_NONE || (p->factor >= 1 && isfinite(p->factor)), GA_ERR_ARG,
             "rope: factor is %g; must be at least 1 and finite", p->factor);
  GA_REQUIRE(p->scaling != GA_ROPE_SCALE_YARN || (p->original_context >= 1 && isfinite(p->original_context)),
             GA_ERR_ARG, "rope: original_context is %g; YaRN needs at least 1, finite", p->original_context);
  const double more[3] = {p->beta_fast, p->beta_slow, p->attn_factor};
  static const char *const names[3] = {"beta_fast", "beta_slow", "attn_factor"};
  for (int i = 0; i < 3; i++)
    GA_REQUIRE(more[i] >= 0 && more[i] <= (double)FLT_MAX, GA_ERR_ARG,
               "rope: %s is %g; must be finite and not negative", names[i], more[i]);
  GA_REQUIRE(p->exact_bounds == 0 || p->exact_bounds == 1, GA_ERR_ARG, "rope: exact_bounds is %d; must be 0 or 1",
             p->exact_bounds);
  GA_REQUIRE(p->reserved == 0, GA_ERR_ARG, "rope: reserved is %d; must be 0", p->reserved);
  for (int i = 0; p->freq_factors && i < p->rot_dim / 2; i++)
    GA_REQUIRE(p->freq_factors[i] > 0 && isfinite(p->freq_factors[i]), GA_ERR_ARG,
               "rope: freq_factors[%d] is %g; must be above 0 and finite", i, (double)p->freq_factors[i]);
  return GA_OK;
}

ga_status ga_rope_freqs(const ga_rope_params *params, float *inv_freq, float *magnitude) {
  GA_CHECK_PTR("rope", params, "params");
  GA_CHECK_PTR("rope", inv_freq, "inv_freq");
  GA_CHECK_PTR("rope", magnitude, "magnitude");
  ga_rope_params full;
  const ga_rope_params *p = &full;
  GA_TRY(GA_SIZED_TAKE("rope: params", ga_rope_params, params, &full));
  GA_TRY(check_params(p));
  const bool yarn = p->scaling == GA_ROPE_SCALE_YARN;
  double low = 0, high = 0;
  if (yarn) {
    low = yarn_dim(p, p->beta_fast > 0 ? p->beta_fast : 32);
    high = yarn_dim(p, p->beta_slow > 0 ? p->beta_slow : 1);
    low = fmax(p->exact_bounds ? low : floor(low), 0);
    high = fmin(p->exact_bounds ? high : ceil(high), p->rot_dim - 1);
  }
  for (int i = 0; i < p->rot_dim / 2; i++) {
    double f = pow(p->base, -2.0 * i / p->rot_dim);
    if (p->freq_factors) f /= (double)p->freq_factors[i];
    double share = p->scaling == GA_ROPE_SCALE_NONE ? 0 : yarn ? yarn_ramp(low, high, i) : 1;
    inv_freq[i] = (float)(p->scaling == GA_ROPE_SCALE_NONE ? f : f * (1 - share) + f / p->factor * share);
  }
  double attn = p->attn_factor > 0 ? p->attn_factor : 1;
  *magnitude = (float)(yarn ? attn * (1 + 0.1 * log(p->factor)) : attn);
  return GA_OK;
}
