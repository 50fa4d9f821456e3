/* Small, fast random numbers with a seed: xoshiro256** seeded by splitmix64 (Blackman and Vigna, 2018). */
#ifndef GA_BASE_RNG_H
#define GA_BASE_RNG_H

#include <math.h>

#include "base/compiler.h"
#include "ga/base.h"

typedef struct ga_rng {
  uint64_t s[4];
} ga_rng;

GA_INLINE uint64_t ga_splitmix64(uint64_t *x) {
  uint64_t z = (*x += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

GA_INLINE void ga_rng_seed(ga_rng *rng, uint64_t seed) {
  for (int i = 0; i < 4; i++) rng->s[i] = ga_splitmix64(&seed);
}

GA_INLINE uint64_t ga_rng_u64(ga_rng *rng) {
  uint64_t *s = rng->s, x = s[1] * 5, t = s[1] << 17;
  x = ((x << 7) | (x >> 57)) * 9;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = (s[3] << 45) | (s[3] >> 19);
  return x;
}

/* Returns a uniform integer in [0, n), n >= 1. The bias of the multiply-shift is below n / 2^64. */
GA_INLINE uint64_t ga_rng_below(ga_rng *rng, uint64_t n) { return (uint64_t)(((ga_u128)ga_rng_u64(rng) * n) >> 64); }

/* Returns a uniform number in [0, 1) with 53 random bits. */
GA_INLINE double ga_rng_unit(ga_rng *rng) { return (double)(ga_rng_u64(rng) >> 11) * 0x1p-53; }

/* Returns a standard normal number (Box and Muller). */
GA_INLINE double ga_rng_normal(ga_rng *rng) {
  double u = 1.0 - ga_rng_unit(rng), v = ga_rng_unit(rng);
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

#endif
