#include "verify/check/error.h"

#include <float.h>
#include <math.h>

#include "ref/ref.h"

/* Bits after the leading one, and the exponent of the smallest step. */
static void precision_of(ga_dtype dtype, int *bits, int *least) {
  switch (dtype) {
  case GA_F64: *bits = 52, *least = -1074; break;
  case GA_F16: *bits = 10, *least = -24; break;
  case GA_BF16: *bits = 7, *least = -133; break;
  case GA_E4M3: *bits = 3, *least = -9; break;
  case GA_E5M2: *bits = 2, *least = -16; break;
  default: *bits = 23, *least = -149; break;
  }
}

double check_ulp(ga_dtype dtype, double x) {
  if (dtype >= GA_I8 && dtype <= GA_U8) return 1;
  int bits, least, e;
  precision_of(dtype, &bits, &least);
  if (x == 0 || !isfinite(x)) return ldexp(1, least);
  (void)frexp(x, &e); /* |x| in [2^(e-1), 2^e) */
  int step = e - 1 - bits;
  return ldexp(1, step > least ? step : least);
}

double check_round(ga_dtype dtype, double x) {
  double cell = 0;
  if (dtype < GA_F32 || dtype > GA_E5M2 || (dtype >= GA_I8 && dtype <= GA_U8)) return x;
  ga_ref_store(dtype, &cell, 0, x);
  return ga_ref_load(dtype, &cell, 0);
}

double check_bf16_rounding(double x) {
  const double step = x == 0 ? 0 : check_ulp(GA_BF16, x);
  return step * step / 12;
}

/* As many equal elements have the same (sum w^2)^2 / sum w^4: 1 where one of them is far larger than all others. */
static double effective_count(const double *got, const double *want, int64_t n) {
  double most = 0, squares = 0, fourths = 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(want[i]) && isfinite(got[i])) most = fmax(most, fabs(want[i]));
  for (int64_t i = 0; i < n && most > 0; i++) {
    if (!isfinite(want[i]) || !isfinite(got[i])) continue;
    const double w = want[i] / most;
    squares += w * w;
    fourths += w * w * w * w;
  }
  return fourths > 0 ? squares * squares / fourths : 0;
}

void check_measure(const double *got, const double *want, const double *unit, int64_t n, check_error *out) {
  double squares = 0, dot = 0, norm = 0, cross = 0, units = 0, sizes = 0;
  *out = (check_error){.worst_at = -1};
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(want[i]) || !isfinite(got[i])) continue;
    double e = got[i] - want[i], r = fabs(e) / unit[i];
    if (r > out->worst || out->worst_at < 0) {
      out->worst = r;
      out->worst_at = i;
    }
    out->n++;
    squares += r * r;
    dot += e * want[i];
    norm += want[i] * want[i];
    cross += e * want[i] * e * want[i];
    units += unit[i] * unit[i];
    sizes += want[i] / unit[i] * (want[i] / unit[i]);
  }
  if (!out->n) return;
  out->rms = sqrt(squares / (double)out->n);
  out->size = sqrt(sizes / (double)out->n);
  if (!(norm > DBL_MIN && norm < DBL_MAX)) return; /* no slope without size */
  out->gain_count = effective_count(got, want, n);
  out->gain = dot / norm;
  out->gain_dev = sqrt(cross) / norm;
  out->ulp_gain = sqrt(units / norm);
}

static double part(double error, double allowed) {
  if (error == 0) return 0;
  return allowed > 0 ? error / allowed : HUGE_VAL;
}

/* Few elements tell nothing about a mean. */
#define ENOUGH 64

double check_used(const check_error *row, const check_error *plain, double tolerance, double ulps) {
  double used = part(row->worst, tolerance * plain->worst + ulps);
  if (row->n < ENOUGH) return used;
  used = fmax(used, part(row->rms, tolerance * plain->rms + 0.5 * ulps + row->shared * row->size));
  if (row->gain_count < ENOUGH) return used;
  double gain = tolerance * fabs(plain->gain) + 6 * plain->gain_dev + 0.25 * ulps * row->ulp_gain + row->shared;
  return fmax(used, part(fabs(row->gain), gain));
}

static double square(double x) { return isfinite(x) ? x * x : 0; }

double check_beside(const double *got, const double *plain, const double *want, int64_t n, int64_t width, double most) {
  double over = 0, chance = 0;
  for (int64_t row = 0; row < n; row += width) {
    double more = 0;
    for (int64_t i = row; i < row + width; i++)
      more += square(got[i] - want[i]) - most * most * square(plain[i] - want[i]);
    over += more;
    chance += more * more;
  }
  return over > 0 ? over / (6 * sqrt(chance)) : 0;
}
