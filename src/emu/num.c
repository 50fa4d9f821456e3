/* Arithmetic of the device that C has no operator for. */
#include <math.h>
#include <string.h>

#include "emu/machine.h"

/* Approximations: the nearest float, or, perturbed, any number within the documented error (PTX ISA 9.7.3), the same
 * for the same argument. Infinities and zeros are documented to be exact. .ftz flushes subnormals of inputs and
 * results; a NaN is the canonical one. */

static float flush_subnormal(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

/* In [-1, 1], from the seed, the function and its argument. */
static double wobble(int function, float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  uint64_t z = (emu_opt.seed * 4 + (uint64_t)function) * 0x9e3779b97f4a7c15u + u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)(z >> 11) * 0x1p-52 - 1;
}

/* The float nearest to exact y, moved by up to `error`, and not beyond it. */
static float within(int function, float x, double y, double error) {
  if (!isfinite(y) || y == 0) return y != y ? NAN : (float)y;
  if (emu_opt.perturb <= 0) return (float)y;
  error *= emu_opt.perturb;
  float moved = (float)(y + wobble(function, x) * error);
  return fabs((double)moved - y) <= error && isfinite(moved) ? moved : (float)y;
}

static double ulp(double y) {
  int e;
  (void)frexp(y, &e);
  return ldexp(1, e - 24);
}

static float canonical_nan(float x) {
  const uint32_t nan = 0x7fffffff;
  if (x != x) memcpy(&x, &nan, 4);
  return x;
}

float emu_ex2(float x) {
  const float a = flush_subnormal(x);
  const double y = exp2((double)a);
  return canonical_nan(a == 0 ? 1 : flush_subnormal(y < 0x1p-140 ? 0 : within(0, a, y, 2 * ulp(y))));
}

/* An absolute error where the logarithm is near 0, else a relative one. */
float emu_lg2(float x) {
  const float a = flush_subnormal(x);
  const double y = a < 0 ? NAN : log2((double)a);
  return canonical_nan(within(1, a, y, a > 0.5f && a < 2 ? 0x1p-22 : fabs(y) * 0x1p-22));
}

float emu_rcp(float x) {
  const float a = flush_subnormal(x);
  const double y = 1.0 / (double)a;
  return canonical_nan(flush_subnormal(within(2, a, y, ulp(y))));
}

float emu_tanh(float x) {
  const double y = tanh((double)x);
  return canonical_nan(isinf(x) ? (float)y : within(3, x, y, fabs(y) * 0x1p-11));
}

/* --- 8-bit floats: e4m3 has no infinity and one NaN, largest 448; e5m2 is the upper half of an f16, largest 57344 ---
 * */

uint32_t emu_f8(int e5m2, float x) {
  const int fraction = e5m2 ? 2 : 3, least = e5m2 ? -14 : -6; /* bits; exponent of the smallest normal number */
  const float top = e5m2 ? 57344.0f : 448.0f;
  const uint32_t sign = signbit(x) ? 0x80 : 0;
  float a = fabsf(x);
  if (a != a) return 0x7f;
  if (a == 0) return sign; /* frexp gives it exponent 0, not the least */
  int e;
  (void)frexpf(a, &e);
  e = e - 1 < least ? least : e - 1;
  float units = ldexpf(a, fraction - e); /* exact; then to an integer, ties to even */
  units = rintf(units > 1e6f ? 1e6f : units);
  if (ldexpf(units, e - fraction) > top || a > top) return sign | (e5m2 ? 0x7b : 0x7e);
  return sign | (((uint32_t)(e - least) << fraction) + (uint32_t)units);
}

float emu_f32_of_f8(int e5m2, uint32_t v) {
  float x;
  uint8_t b = (uint8_t)v;
  emu_decode(e5m2 ? EMU_WGMMA_E5M2 : EMU_WGMMA_E4M3, &x, &b, 1, 1);
  return x;
}
