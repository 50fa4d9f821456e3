#include "base/half.h"

#include <math.h>

/* A tiny format: sign, exponent of `ebits` with `bias`, mantissa of `mbits`. All values are exact in f32. */
typedef struct tiny_format {
  int ebits, mbits, bias;
  float largest;
} tiny_format;

static const tiny_format e4m3 = {4, 3, 7, 448.0f};
static const tiny_format e5m2 = {5, 2, 15, 57344.0f};
static const tiny_format e2m1 = {2, 1, 1, 6.0f};

static float decode(tiny_format f, unsigned x) {
  int man = (int)(x & ((1u << f.mbits) - 1)), exp = (int)(x >> f.mbits & ((1u << f.ebits) - 1));
  float v =
      exp ? ldexpf((float)(man + (1 << f.mbits)), exp - f.bias - f.mbits) : ldexpf((float)man, 1 - f.bias - f.mbits);
  return x >> (f.ebits + f.mbits) & 1 ? -v : v;
}

/* |x| finite. nearbyintf rounds half to even in the default rounding mode. */
static unsigned encode_tiny(tiny_format f, float x) {
  unsigned sign = signbit(x) ? 1u << (f.ebits + f.mbits) : 0;
  float a = fabsf(x);
  if (a > f.largest) a = f.largest;
  int exp;
  (void)frexpf(a, &exp);
  exp -= 1;
  if (exp < 1 - f.bias || a == 0) exp = 1 - f.bias;
  unsigned q =
      (unsigned)nearbyintf(ldexpf(a, f.mbits - exp)); /* may carry into the next binade: the addition below is right */
  return sign | (q + ((unsigned)(exp + f.bias - 1) << f.mbits));
}

float ga_e4m3_to_f32(uint8_t x) { return (x & 0x7f) == 0x7f ? NAN : decode(e4m3, x); }
uint8_t ga_f32_to_e4m3(float x) { return isnan(x) ? 0x7f : (uint8_t)encode_tiny(e4m3, x); }

float ga_e5m2_to_f32(uint8_t x) {
  if ((x & 0x7c) == 0x7c) return x & 3 ? NAN : x & 0x80 ? -INFINITY : INFINITY;
  return decode(e5m2, x);
}
uint8_t ga_f32_to_e5m2(float x) { return isnan(x) ? 0x7f : (uint8_t)encode_tiny(e5m2, x); }

float ga_e2m1_to_f32(uint8_t x) { return decode(e2m1, x & 15); }
uint8_t ga_f32_to_e2m1(float x) { return isnan(x) ? 7 : (uint8_t)encode_tiny(e2m1, x); }
