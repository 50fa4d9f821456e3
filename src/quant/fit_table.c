/* Types whose codes are places in a table of values: iq4_nl, iq4_xs, mxfp4. */
#include <string.h>

#include "base/quant_pack.h"
#include "quant/fit.h"
#include "quant/fit_run.h"

/* --- iq4: 16 values, denser near 0 --- */

static const float iq4_value[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* The nearest value: the table climbs by a step at each middle that v is above. */
GA_INLINE float iq4_nearest(float v) {
  float y = iq4_value[0];
  for (int k = 0; k < 15; k++) {
    const float middle = (iq4_value[k] + iq4_value[k + 1]) / 2;
    y += v > middle ? iq4_value[k + 1] - iq4_value[k] : 0;
  }
  return y;
}

GA_INLINE int iq4_place(float v) {
  int at = 0;
  for (int k = 0; k < 15; k++) at += v > (iq4_value[k] + iq4_value[k + 1]) / 2;
  return at;
}

/* What errors of a block are multiplied by: those of large values cost more. docs/results/quantize.md has what that
 * brought in perplexity and divergence, beside weights of the importance alone. */
GA_INLINE void iq4_weights(const float *x, const float *importance, int n, float *w) {
  float sum[FIT_LANES] = {0};
  for (int i = 0; i < n; i += FIT_LANES) FIT_EACH_LANE sum[j] += x[i + j] * x[i + j];
  const float twice_mean = 2 * fit_lanes(sum) / (float)n;
  for (int i = 0; i < n; i++) w[i] = importance[i] * sqrtf(x[i] * x[i] + twice_mean);
}

GA_INLINE float iq4_error(const float *x, const float *w, float s) {
  const float inverse = fit_inverse(s);
  float sum[FIT_LANES] = {0};
  for (int i = 0; i < 32; i += FIT_LANES) FIT_EACH_LANE {
      const float e = x[i + j] - s * iq4_nearest(x[i + j] * inverse);
      sum[j] += w[i + j] * e * e;
    }
  return fit_lanes(sum);
}

GA_INLINE void iq4_sums(const float *x, const float *w, float inverse, float *xq, float *qq) {
  float a[FIT_LANES] = {0}, b[FIT_LANES] = {0};
  for (int i = 0; i < 32; i += FIT_LANES) FIT_EACH_LANE {
      const float q = iq4_nearest(x[i + j] * inverse), t = w[i + j] * q;
      a[j] += t * x[i + j];
      b[j] += t * q;
    }
  *xq = fit_lanes(a);
  *qq = fit_lanes(b);
}

GA_INLINE void iq4_try(const float *x, const float *w, float inverse, float *most, float *scale) {
  float xq, qq;
  iq4_sums(x, w, inverse, &xq, &qq);
  if (!(qq > 0) || !(xq * xq > *most * qq)) return;
  *most = xq * xq / qq;
  *scale = xq / qq;
}

/* The extreme value on places around both ends of the table. */
GA_INLINE float iq4_scale(const float *x, const float *w, float plain) {
  const float extreme = fit_extreme(x, 32);
  float most = 0, scale = plain;
  if (fabsf(extreme) < 1e-30f) return plain;
  for (int k = -7; k <= 7; k++) {
    iq4_try(x, w, (iq4_value[0] + 2 * (float)k) / extreme, &most, &scale);
    iq4_try(x, w, (iq4_value[15] + 2 * (float)k) / extreme, &most, &scale);
  }
  return scale;
}

GA_INLINE void iq4_places(const float *x, float s, int *q) {
  for (int e = 0; e < 32; e++) q[e] = iq4_place(x[e] * fit_inverse(s));
}

static GA_CLONES void fit_iq4_nl(const float *x, const float *importance, uint8_t *b) {
  float w[32];
  iq4_weights(x, importance, 32, w);
  const float plain = fit_extreme(x, 32) / iq4_value[0];
  float best = fit_f16(plain), least = iq4_error(x, w, best), s = iq4_scale(x, w, plain), xq, qq;
  int q[32];
  for (int k = 0; k < 2; k++) {
    const float rounded = fit_f16(s), e = iq4_error(x, w, rounded);
    if (e < least) least = e, best = rounded;
    iq4_sums(x, w, fit_inverse(rounded), &xq, &qq);
    if (!(qq > 0)) break;
    s = xq / qq;
  }
  iq4_places(x, best, q);
  ga_pack_f16(b, best);
  ga_pack_nibbles(b + 2, q);
}

/* --- iq4_xs: eight runs, scales -32..31 --- */

typedef struct xs_block {
  float d, error;
  int sc[8];
} xs_block;

GA_INLINE float settle_xs_run(const float *x, const float *w, xs_block *b, int i, float wanted) {
  const int near = fit_clamp_int(wanted * fit_inverse(b->d), -32, 31);
  float least = INFINITY;
  for (int sc = near - 1; sc <= near + 1; sc++) {
    if (sc < -32 || sc > 31) continue;
    const float e = iq4_error(x + 32 * i, w + 32 * i, b->d * (float)sc);
    if (e < least) least = e, b->sc[i] = sc;
  }
  return least;
}

GA_INLINE void settle_xs(const float *x, const float *w, const float *scale, float d, xs_block *b) {
  b->d = d;
  b->error = 0;
  for (int i = 0; i < 8; i++) b->error += settle_xs_run(x, w, b, i, scale[i]);
}

/* The unit by least squares for the codes there are, kept if it helps. */
GA_INLINE void refit_xs(const float *x, const float *w, xs_block *b) {
  float num = 0, den = 0, scale[8], xq, qq;
  for (int i = 0; i < 8; i++) {
    iq4_sums(x + 32 * i, w + 32 * i, fit_inverse(b->d * (float)b->sc[i]), &xq, &qq);
    num += (float)b->sc[i] * xq;
    den += (float)(b->sc[i] * b->sc[i]) * qq;
  }
  if (!(den > 0)) return;
  xs_block other;
  const float d = fit_f16(num / den);
  for (int i = 0; i < 8; i++) scale[i] = d * (float)b->sc[i];
  settle_xs(x, w, scale, d, &other);
  if (other.error < b->error) *b = other;
}

static GA_CLONES void fit_iq4_xs(const float *x, const float *importance, uint8_t *b) {
  float plain[8], searched[8], w[256];
  int q[256];
  iq4_weights(x, importance, 256, w);
  xs_block best, other;
  for (int i = 0; i < 8; i++) {
    plain[i] = fit_extreme(x + 32 * i, 32) / iq4_value[0];
    searched[i] = iq4_scale(x + 32 * i, w + 32 * i, plain[i]);
  }
  settle_xs(x, w, plain, fit_f16(fit_extreme(plain, 8) / -32), &best);
  settle_xs(x, w, searched, fit_f16(fit_extreme(searched, 8) / -32), &other);
  if (other.error < best.error) best = other;
  refit_xs(x, w, &best);
  for (int i = 0; i < 8; i++) iq4_places(x + 32 * i, best.d * (float)best.sc[i], q + 32 * i);
  ga_pack_f16(b, best.d);
  ga_pack_iq4_xs(b, best.sc, q);
}

/* --- mxfp4: e2m1 with a power of two --- */

/* Doubled, as the codes are read. */
static const float fp4_value[8] = {0, 1, 2, 3, 4, 6, 8, 12};

GA_INLINE float fp4_nearest(float v) {
  const float a = fabsf(v);
  float y = 0;
  for (int k = 0; k < 7; k++) y += a > (fp4_value[k] + fp4_value[k + 1]) / 2 ? fp4_value[k + 1] - fp4_value[k] : 0;
  return v < 0 ? -y : y;
}

GA_INLINE int fp4_code(float v) {
  int at = 0;
  for (int k = 0; k < 7; k++) at += fabsf(v) > (fp4_value[k] + fp4_value[k + 1]) / 2;
  return at | (v < 0 ? 8 : 0);
}

/* 2^(e - 128): what a doubled code is multiplied by. 2 <= e: no subnormal. */
GA_INLINE float fp4_unit(int e) { return ga_bits_f32((uint32_t)(e - 1) << 23); }

GA_INLINE float fp4_error(const float *x, const float *w, float s) {
  const float inverse = 1 / s;
  float sum[FIT_LANES] = {0};
  for (int i = 0; i < 32; i += FIT_LANES) FIT_EACH_LANE {
      const float e = x[i + j] - s * fp4_nearest(x[i + j] * inverse);
      sum[j] += w[i + j] * e * e;
    }
  return fit_lanes(sum);
}

/* The power of two that puts the largest value on the upper half of the codes, and its neighbours. */
static GA_CLONES void fit_mxfp4(const float *x, const float *w, uint8_t *b) {
  int exponent = 0, q[32];
  (void)frexpf(fit_extreme(x, 32), &exponent);
  const int plain = exponent - 1 - 2 + 127;
  float least = INFINITY;
  int best = plain;
  for (int e = plain - 1; e <= plain + 1; e++) {
    const float error = fp4_error(x, w, fp4_unit(e));
    if (error < least) least = error, best = e;
  }
  const float inverse = 1 / fp4_unit(best);
  for (int e = 0; e < 32; e++) q[e] = fp4_code(x[e] * inverse);
  b[0] = (uint8_t)best;
  ga_pack_nibbles(b + 1, q);
}

quant_fit_fn quant_fit_table(ga_dtype dtype) {
  switch (dtype) {
  case GA_IQ4_NL: return fit_iq4_nl;
  case GA_IQ4_XS: return fit_iq4_xs;
  case GA_MXFP4: return fit_mxfp4;
  default: return NULL;
  }
}
