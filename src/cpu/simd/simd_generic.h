/* Vectors of VN floats in plain C, for any CPU. Kernel bodies in src/cpu/body call functions of these names and are
 * compiled for each instruction set. The comments here say what each function computes. */
#ifndef GA_CPU_SIMD_SIMD_GENERIC_H
#define GA_CPU_SIMD_SIMD_GENERIC_H

#include <math.h>

#include "base/half.h"

#define VN 4
typedef struct vf {
  float v[VN];
} vf;
typedef struct vm {
  bool v[VN];
} vm;

#define GA_EACH(expr)                           \
  vf r;                                         \
  for (int i = 0; i < VN; i++) r.v[i] = (expr); \
  return r

GA_INLINE vf vf_set(float x) { GA_EACH(x); }
GA_INLINE vf vf_load(const float *p) { GA_EACH(p[i]); } /* p may have any alignment */
GA_INLINE void vf_store(float *p, vf v) { memcpy(p, v.v, sizeof v.v); }
/* Load or store the first n lanes, 0 <= n <= VN. Memory after the first n elements is not accessed. The other lanes are
 * loaded as 0. */
GA_INLINE vf vf_load_n(const float *p, int n) { GA_EACH(i < n ? p[i] : 0.0f); }
GA_INLINE void vf_store_n(float *p, vf v, int n) {
  for (int i = 0; i < n; i++) p[i] = v.v[i];
}

GA_INLINE vf vf_add(vf a, vf b) { GA_EACH(a.v[i] + b.v[i]); }
GA_INLINE vf vf_sub(vf a, vf b) { GA_EACH(a.v[i] - b.v[i]); }
GA_INLINE vf vf_mul(vf a, vf b) { GA_EACH(a.v[i] * b.v[i]); }
GA_INLINE vf vf_div(vf a, vf b) { GA_EACH(a.v[i] / b.v[i]); }
/* returns a b + c, rounded once or twice */
GA_INLINE vf vf_fma(vf a, vf b, vf c) { GA_EACH(a.v[i] * b.v[i] + c.v[i]); }
GA_INLINE float vf_fma_one(float a, float b, float c) { return a * b + c; }   /* rounded like an element of vf_fma */
GA_INLINE vf vf_fnma(vf a, vf b, vf c) { GA_EACH(c.v[i] - a.v[i] * b.v[i]); } /* returns c - a b */
/* vf_max returns the larger of each pair of lanes, and vf_min the smaller. Where either is NaN they return b, so that a
 * NaN in b is kept. */
GA_INLINE vf vf_max(vf a, vf b) { GA_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
GA_INLINE vf vf_min(vf a, vf b) { GA_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
/* Returns x rounded to the nearest integer, for |x| < 2^22. After the addition of 1.5 * 2^23 an ulp is 1, so that the
 * sum is an integer. */
GA_INLINE vf vf_round(vf x) { GA_EACH((x.v[i] + 0x1.8p23f) - 0x1.8p23f); }
/* Returns x * 2^n, where n is an integer of -252 to 254. The product may be infinite or subnormal. NaN in x is kept. */
GA_INLINE vf vf_scale(vf x, vf n) {
  vf r;
  for (int i = 0; i < VN; i++) {
    int k = n.v[i] > -300 ? (int)n.v[i] : 0, half = k >> 1; /* NaN becomes 0 */
    r.v[i] = x.v[i] * ga_bits_f32((uint32_t)(half + 127) << 23) * ga_bits_f32((uint32_t)(k - half + 127) << 23);
  }
  return r;
}
GA_INLINE vf vf_abs(vf x) { GA_EACH(fabsf(x.v[i])); }
/* returns x, which must be >= 0, with the sign of s */
GA_INLINE vf vf_sign_of(vf x, vf s) { GA_EACH(signbit(s.v[i]) ? -x.v[i] : x.v[i]); }

GA_INLINE vm vf_lt(vf a, vf b) { /* returns a < b, false where either is NaN */
  vm r;
  for (int i = 0; i < VN; i++) r.v[i] = a.v[i] < b.v[i];
  return r;
}
/* returns a where m is true, otherwise b */
GA_INLINE vf vf_pick(vm m, vf a, vf b) { GA_EACH(m.v[i] ? a.v[i] : b.v[i]); }
GA_INLINE unsigned vm_bits(vm m) { /* returns lane i as bit i */
  unsigned bits = 0;
  for (int i = 0; i < VN; i++) bits |= (unsigned)m.v[i] << i;
  return bits;
}

GA_INLINE float vf_sum(vf a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
/* returns the largest lane; NaN may be dropped */
GA_INLINE float vf_hmax(vf a) { return fmaxf(fmaxf(a.v[0], a.v[2]), fmaxf(a.v[1], a.v[3])); }
GA_INLINE vf vf_swap_pairs(vf a) { GA_EACH(a.v[i ^ 1]); }

/* Load VN elements of another type as floats. */
GA_INLINE vf vf_from_f16(const void *p) { GA_EACH(ga_f16_to_f32(((const ga_f16 *)p)[i])); }
GA_INLINE vf vf_from_bf16(const void *p) { GA_EACH(ga_bf16_to_f32(((const ga_bf16 *)p)[i])); }
/* Returns the f16 number at p as a float in all lanes. p may have any alignment. */
GA_INLINE vf vf_set_f16(const void *p) {
  ga_f16 h;
  memcpy(&h, p, sizeof h);
  return vf_set(ga_f16_to_f32(h));
}
GA_INLINE vf vf_from_i8(const void *p) { GA_EACH((float)((const int8_t *)p)[i]); }
GA_INLINE vf vf_from_e4m3(const void *p) { GA_EACH(ga_e4m3_to_f32(((const uint8_t *)p)[i])); }
/* Returns VN 4-bit codes, minus 8, as floats: the low halves of VN bytes at p for shift 0, the high halves for shift
 * 4. */
GA_INLINE vf vf_from_nibbles(const uint8_t *p, int shift) { GA_EACH((float)((p[i] >> shift & 15) - 8)); }
GA_INLINE void vf_to_f16(ga_f16 *p, vf v) {
  for (int i = 0; i < VN; i++) p[i] = ga_f32_to_f16(v.v[i]);
}

/* Returns a vector whose lane i is the sum of all lanes of a[i], for i < VN. */
GA_INLINE vf vf_sum_each(const vf *a) { GA_EACH(vf_sum(a[i])); }
/* Transposes the VN x VN matrix whose rows are a[0] to a[VN - 1], in place. */
GA_INLINE void vf_transpose(vf *a) {
  for (int i = 0; i < VN; i++)
    for (int j = 0; j < i; j++) {
      float t = a[i].v[j];
      a[i].v[j] = a[j].v[i];
      a[j].v[i] = t;
    }
}

#endif
