#include "verify/check/tensor_sum.h"

#include <math.h>

#include "base/half.h"
#include "base/mem.h"

void check_e4m3_set(check_e4m3 *o, int i, double x) {
  o->x[i] = x;
  o->e[i] = x == 0 ? -1000 : x != x ? 0 : (int)fmax(ilogb(x), -6);
}

void check_e4m3_tabulate(check_e4m3_codes *t) {
  check_e4m3 one;
  for (int i = 0; i < 256; i++) {
    check_e4m3_set(&one, 0, (double)ga_e4m3_to_f32((uint8_t)i));
    t->x[i] = one.x[0];
    t->e[i] = one.e[0];
  }
}

void check_e4m3_load(check_e4m3 *o, const check_e4m3_codes *t, const uint8_t *codes) {
  for (int i = 0; i < CHECK_E4M3_STEP; i++) {
    o->x[i] = t->x[codes[i]];
    o->e[i] = t->e[codes[i]];
  }
}

float check_e4m3_add(float sum, const check_e4m3 *a, const check_e4m3 *b) {
  double all = (double)sum, cut = 0;
  int top = sum == 0 ? -1000 : isfinite(sum) ? ilogbf(sum) : 0, e;
  for (int i = 0; i < CHECK_E4M3_STEP; i++) {
    all += a->x[i] * b->x[i];
    if (a->e[i] + b->e[i] > top) top = a->e[i] + b->e[i];
  }
  if (!isfinite(all) || top < -900) return (float)all;
  const double unit = ldexp(1, 13 - top);
  for (int i = 0; i < CHECK_E4M3_STEP; i++) cut += (double)(int64_t)(a->x[i] * b->x[i] * unit);
  cut += (double)(int64_t)((double)sum * unit);
  if (cut == 0) return 0;
  (void)frexp(cut, &e);
  const double last = ldexp(1, e - 14);
  return (float)(trunc(cut / last) * last / unit);
}

float check_tensor_dot(const float *x, const float *w, int64_t k) {
  float dot = 0;
  for (int64_t i = 0; i < k; i += 16) {
    double sum = (double)dot;
    for (int64_t j = i; j < ga_min_i64(i + 16, k); j++) sum += (double)(x[j] * w[j]);
    dot = (float)sum;
    if (isfinite(dot) && fabs((double)dot) > fabs(sum)) dot = nextafterf(dot, 0.0f);
  }
  return dot;
}
