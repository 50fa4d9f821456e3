/* Searches for the scale s, and in some types the minimum m, of one run. A run is n elements of a block that share a
 * scale, n a multiple of 8. Sums are computed in 8 lanes, in an order that does not depend on the instruction set. */
#ifndef GA_QUANT_FIT_RUN_H
#define GA_QUANT_FIT_RUN_H

#include <math.h>

#include "base/compiler.h"
#include "base/half.h"

#define FIT_LANES 8
/* A loop over the lanes that the compiler keeps until it vectorises. gcc would otherwise unroll the loop into 8 scalar
 * steps first. */
#define FIT_EACH_LANE GA_KEEP_LOOP for (int j = 0; j < FIT_LANES; j++)

typedef struct fit_codes {
  float low, high; /* codes are the integers from low to high */
} fit_codes;

/* Rounds x to f16 and back, without branches. Below 2^-14, the addition of 1/2 rounds to the spacing of f16's
 * subnormals. From 65520 on the result is infinite. */
GA_INLINE float fit_f16(float x) {
  const uint32_t u = ga_f32_bits(x), a = u & 0x7fffffff, even = (a >> 13) & 1;
  const uint32_t small = ga_f32_bits((ga_bits_f32(a) + 0.5f) - 0.5f), normal = (a + 0xfff + even) & ~0x1fffu;
  const uint32_t y = a < 0x38800000 ? small : a < 0x477ff000 ? normal : 0x7f800000;
  return ga_bits_f32(y | (u & 0x80000000));
}
GA_INLINE float fit_inverse(float x) { return x != 0 ? 1 / x : 0; }

/* Rounds to the nearest integer, ties to even, for |v| < 2^22: adding 1.5 * 2^23 leaves no bits for a fraction. */
GA_INLINE float fit_round(float v) { return (v + 12582912.0f) - 12582912.0f; }
GA_INLINE float fit_code(float v, fit_codes c) {
  v = v < c.low ? c.low : v;
  v = v > c.high ? c.high : v;
  return fit_round(v);
}

GA_INLINE int fit_clamp_int(float v, int low, int high) {
  if (!(v > (float)low)) return low;
  return v >= (float)high ? high : (int)lrintf(v);
}

GA_INLINE float fit_lanes(const float *a) { return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7])); }

/* Returns the element of largest magnitude, with its sign. */
GA_INLINE float fit_extreme(const float *x, int n) {
  float best = 0;
  for (int i = 0; i < n; i++)
    if (fabsf(x[i]) > fabsf(best)) best = x[i];
  return best;
}

/* Returns the sum of w (x - (s q + m))^2 with the nearest codes q. */
GA_INLINE float fit_error(const float *x, const float *w, int n, float s, float m, fit_codes c) {
  const float inverse = fit_inverse(s);
  float sum[FIT_LANES] = {0};
  for (int i = 0; i < n; i += FIT_LANES) FIT_EACH_LANE {
      const float q = fit_code((x[i + j] - m) * inverse, c), e = x[i + j] - (s * q + m);
      sum[j] += w[i + j] * e * e;
    }
  return fit_lanes(sum);
}

GA_INLINE void fit_codes_of(const float *x, int n, float s, float m, fit_codes c, int *q) {
  const float inverse = fit_inverse(s);
  for (int i = 0; i < n; i++) q[i] = (int)fit_code((x[i] - m) * inverse, c);
}

/* --- signed codes: x is about s q --- */

/* Computes with the codes q of x * inverse. *xq becomes the sum of w x q, and *qq the sum of w q q. */
GA_INLINE void fit_signed_sums(const float *x, const float *w, int n, float inverse, fit_codes c, float *xq,
                               float *qq) {
  float a[FIT_LANES] = {0}, b[FIT_LANES] = {0};
  for (int i = 0; i < n; i += FIT_LANES) FIT_EACH_LANE {
      const float q = fit_code(x[i + j] * inverse, c), t = w[i + j] * q;
      a[j] += t * x[i + j];
      b[j] += t * q;
    }
  *xq = fit_lanes(a);
  *qq = fit_lanes(b);
}

/* Tries the codes of x * inverse. The best scale for these codes is xq / qq, and reduces the error by xq^2 / qq. If the
 * reduction is above *most, it is written to *most and the scale to *scale. */
GA_INLINE void fit_signed_try(const float *x, const float *w, int n, float inverse, fit_codes c, float *most,
                              float *scale) {
  float xq, qq;
  fit_signed_sums(x, w, n, inverse, c, &xq, &qq);
  if (!(qq > 0) || !(xq * xq > *most * qq)) return;
  *most = xq * xq / qq;
  *scale = xq / qq;
}

/* Finds a scale with nearly the smallest error. It tries scales that map the extreme value to the lowest code plus k /
 * 10, for k from -steps to steps. With `both`, it also tries the highest code. Returns `otherwise` if no scale reduces
 * the weighted error. */
GA_INLINE float fit_signed_scale(const float *x, const float *w, int n, fit_codes c, int steps, bool both,
                                 float otherwise) {
  const float extreme = fit_extreme(x, n);
  float most = 0, scale = otherwise;
  if (fabsf(extreme) < 1e-30f) return otherwise;
  for (int k = -steps; k <= steps; k++) {
    const float tenths = 0.1f * (float)k;
    fit_signed_try(x, w, n, (c.low + tenths) / extreme, c, &most, &scale);
    if (both) fit_signed_try(x, w, n, (c.high + tenths) / extreme, c, &most, &scale);
  }
  return scale;
}

/* --- codes from 0 on: x is about s q + m --- */

typedef struct fit_line {
  float s, m;
} fit_line;

/* The sums of w, of w x and of w x^2 over the run, which do not depend on codes. */
typedef struct fit_base {
  float w, x, xx;
} fit_base;

GA_INLINE fit_base fit_base_of(const float *x, const float *w, int n) {
  float a[FIT_LANES] = {0}, b[FIT_LANES] = {0}, c[FIT_LANES] = {0};
  for (int i = 0; i < n; i += FIT_LANES) FIT_EACH_LANE {
      const float t = w[i + j] * x[i + j];
      a[j] += w[i + j];
      b[j] += t;
      c[j] += t * x[i + j];
    }
  return (fit_base){fit_lanes(a), fit_lanes(b), fit_lanes(c)};
}

/* Finds s and m of the smallest error, by least squares, for the codes q of (x - m) * inverse. below_zero: the format
 * needs m <= 0. Returns the error; INFINITY: there is no solution. */
GA_INLINE float fit_line_step(const float *x, const float *w, int n, fit_base base, float inverse, float m, fit_codes c,
                              bool below_zero, fit_line *out) {
  float a[FIT_LANES] = {0}, b[FIT_LANES] = {0}, d[FIT_LANES] = {0};
  for (int i = 0; i < n; i += FIT_LANES) FIT_EACH_LANE {
      const float q = fit_code((x[i + j] - m) * inverse, c), t = w[i + j] * q;
      a[j] += t;
      b[j] += t * q;
      d[j] += t * x[i + j];
    }
  const double q1 = (double)fit_lanes(a), q2 = (double)fit_lanes(b), xq = (double)fit_lanes(d), sw = (double)base.w,
               sx = (double)base.x;
  const double det = sw * q2 - q1 * q1;
  if (!(det > 1e-12 * sw * q2)) return INFINITY;
  double s = (sw * xq - sx * q1) / det, low = (q2 * sx - q1 * xq) / det;
  if (below_zero && low > 0) low = 0, s = xq / q2;
  if (!(s > 0)) return INFINITY;
  *out = (fit_line){(float)s, (float)low};
  return (float)((double)base.xx + s * s * q2 + low * low * sw - 2 * s * xq - 2 * low * sx + 2 * s * low * q1);
}

/* Finds s and m with nearly the smallest error. It tries scales that map the range of values to c.high + first + step *
 * k codes, for k from 0 to steps. otherwise: the line from the lowest value to the highest, which is returned if no
 * other is found. */
GA_INLINE fit_line fit_line_of(const float *x, const float *w, int n, fit_codes c, bool below_zero, float first,
                               float step, int steps, fit_line otherwise) {
  const fit_base base = fit_base_of(x, w, n);
  const float range = otherwise.s * c.high;
  fit_line best = otherwise, line = otherwise;
  if (!(range > 1e-30f) || !(base.w > 0)) return otherwise;
  float least = INFINITY;
  for (int k = 0; k <= steps; k++) {
    const float e =
        fit_line_step(x, w, n, base, (c.high + first + step * (float)k) / range, otherwise.m, c, below_zero, &line);
    if (e < least) least = e, best = line;
  }
  /* takes the codes of the best line, then finds the best line for these codes */
  for (int k = 0; k < 2 && least < INFINITY; k++) {
    const float e = fit_line_step(x, w, n, base, 1 / best.s, best.m, c, below_zero, &line);
    if (!(e < least)) break;
    least = e;
    best = line;
  }
  return best;
}

/* Returns the line s q + m from the lowest value to the highest. below_zero: the lowest value counts as at most 0. */
GA_INLINE fit_line fit_range(const float *x, int n, fit_codes c, bool below_zero) {
  float low = below_zero ? 0 : x[0], high = low;
  for (int i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  return (fit_line){(high - low) / c.high, low};
}

#endif
