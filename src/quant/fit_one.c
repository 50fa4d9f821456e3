/* Blocks of 32 with one scale in f16, and in some types a minimum in f16. */
#include "base/quant_pack.h"
#include "quant/fit.h"
#include "quant/fit_run.h"

/* --- one scale --- */

/* The scale, as f16 has it, of least error: of the plain one, the one searched for, and what follows from its codes. */
GA_INLINE float settle_scale(const float *x, const float *w, fit_codes c, float plain, float searched) {
  float best = fit_f16(plain), least = fit_error(x, w, 32, best, 0, c), s = searched;
  for (int k = 0; k < 3; k++) {
    const float rounded = fit_f16(s), e = fit_error(x, w, 32, rounded, 0, c);
    if (e < least) least = e, best = rounded;
    float xq, qq;
    fit_signed_sums(x, w, 32, fit_inverse(rounded), c, &xq, &qq);
    if (!(qq > 0) || fit_f16(xq / qq) == rounded) break;
    s = xq / qq;
  }
  return best;
}

GA_INLINE float fit_scale(const float *x, const float *w, fit_codes c, int steps, float plain, int *q) {
  const float s = settle_scale(x, w, c, plain, fit_signed_scale(x, w, 32, c, steps, -c.low != c.high, plain));
  fit_codes_of(x, 32, s, 0, c, q);
  return s;
}

static GA_CLONES void fit_q4_0(const float *x, const float *w, uint8_t *b) {
  int q[32];
  ga_pack_f16(b, fit_scale(x, w, (fit_codes){-8, 7}, 9, fit_extreme(x, 32) / -8, q));
  for (int e = 0; e < 32; e++) q[e] += 8;
  ga_pack_nibbles(b + 2, q);
}

static GA_CLONES void fit_q5_0(const float *x, const float *w, uint8_t *b) {
  int q[32];
  ga_pack_f16(b, fit_scale(x, w, (fit_codes){-16, 15}, 9, fit_extreme(x, 32) / -16, q));
  for (int e = 0; e < 32; e++) q[e] += 16;
  ga_pack_five(b + 2, b + 6, q);
}

static GA_CLONES void fit_q8_0(const float *x, const float *w, uint8_t *b) {
  int q[32];
  ga_pack_f16(b, fit_scale(x, w, (fit_codes){-127, 127}, 4, fabsf(fit_extreme(x, 32)) / 127, q));
  for (int e = 0; e < 32; e++) b[2 + e] = (uint8_t)(int8_t)q[e];
}

/* --- scale and minimum --- */

GA_INLINE fit_line rounded_line(fit_line line) { return (fit_line){fit_f16(line.s), fit_f16(line.m)}; }

GA_INLINE fit_line fit_affine(const float *x, const float *w, fit_codes c, int steps, int *q) {
  const fit_line plain = fit_range(x, 32, c, false);
  const fit_line searched = fit_line_of(x, w, 32, c, false, -0.1f * (float)steps / 2, 0.1f, steps, plain);
  const fit_line a = rounded_line(plain), b = rounded_line(searched);
  const fit_line best = fit_error(x, w, 32, b.s, b.m, c) < fit_error(x, w, 32, a.s, a.m, c) ? b : a;
  fit_codes_of(x, 32, best.s, best.m, c, q);
  return best;
}

static GA_CLONES void fit_q4_1(const float *x, const float *w, uint8_t *b) {
  int q[32];
  const fit_line line = fit_affine(x, w, (fit_codes){0, 15}, 20, q);
  ga_pack_f16(b, line.s);
  ga_pack_f16(b + 2, line.m);
  ga_pack_nibbles(b + 4, q);
}

static GA_CLONES void fit_q5_1(const float *x, const float *w, uint8_t *b) {
  int q[32];
  const fit_line line = fit_affine(x, w, (fit_codes){0, 31}, 16, q);
  ga_pack_f16(b, line.s);
  ga_pack_f16(b + 2, line.m);
  ga_pack_five(b + 4, b + 8, q);
}

quant_fit_fn quant_fit_one(ga_dtype dtype) {
  switch (dtype) {
  case GA_Q4_0: return fit_q4_0;
  case GA_Q5_0: return fit_q5_0;
  case GA_Q8_0: return fit_q8_0;
  case GA_Q4_1: return fit_q4_1;
  case GA_Q5_1: return fit_q5_1;
  default: return NULL;
  }
}
