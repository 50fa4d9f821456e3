/* Tokens as 64-bit keys that have the order of ga/sample.h, and operations of a whole thread block on keys. */
#pragma once
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"

/* A token as a key, so that larger keys have larger logits and, among equal logits, smaller ids. Keys of tokens that
 * are never drawn are below KEY_LEAST. */
typedef uint64_t token_key;
/* Least key of a token that may be drawn. Keys of logits of -infinity are below it. */
#define KEY_LEAST 0x0080000000000000ull

GA_DEV uint32_t ordered_bits(float x) {
  const uint32_t u = float_bits(x + 0.0f); /* maps -0 to 0 */
  return u >> 31 ? ~u : u | 0x80000000u;
}
GA_DEV token_key key_of(float logit, int32_t id) {
  return (uint64_t)ordered_bits(logit) << 32 | (0xffffffffu - (uint32_t)id);
}
GA_DEV float logit_of(token_key k) {
  const uint32_t ordered = (uint32_t)(k >> 32);
  return __uint_as_float(ordered >> 31 ? ordered & 0x7fffffffu : ~ordered);
}
GA_DEV int32_t id_of(token_key k) { return (int32_t)(0xffffffffu - (uint32_t)k); }

/* ---- exchange of 64-bit values between lanes ---- */
typedef union {
  double f;
  uint64_t u;
  uint32_t word[2];
} word64;

GA_DEV uint64_t shfl_xor_u64(uint64_t x, int mask) {
  word64 w;
  w.u = x;
  GA_UNROLL for (int i = 0; i < 2; i++) w.word[i] = shfl_xor_u32(w.word[i], mask);
  return w.u;
}
GA_DEV double shfl_xor_f64(double x, int mask) {
  word64 w;
  w.f = x;
  w.u = shfl_xor_u64(w.u, mask);
  return w.f;
}
GA_DEV double shfl_up_f64(double x, int d) {
  word64 w;
  w.f = x;
  GA_UNROLL for (int i = 0; i < 2; i++) w.word[i] = shfl_up_u32(w.word[i], d);
  return w.f;
}
GA_DEV double shfl_idx_f64(double x, int lane) {
  word64 w;
  w.f = x;
  GA_UNROLL for (int i = 0; i < 2; i++) w.word[i] = shfl_idx_u32(w.word[i], lane);
  return w.f;
}

GA_DEV double warp_sum_f64(double x) {
  GA_UNROLL for (int m = 16; m > 0; m /= 2) x += shfl_xor_f64(x, m);
  return x;
}
/* Returns the sum of x over the warp's lanes up to and including this one. */
GA_DEV double warp_scan_f64(double x) {
  GA_UNROLL for (int d = 1; d < 32; d *= 2) {
    const double before = shfl_up_f64(x, d);
    if (thread_index() % 32 >= d) x += before;
  }
  return x;
}

/* ---- functions for a whole thread block: every thread must call. s is shared memory, which is free again after the
 * next barrier. ---- */
typedef struct {
  uint64_t slots[32];
  double sums[32];
  int counts[32];
} key_shared;

GA_DEV uint64_t block_largest_u64(key_shared *s, int threads, uint64_t x) {
  GA_UNROLL for (int m = 16; m > 0; m /= 2) {
    const uint64_t other = shfl_xor_u64(x, m);
    x = other > x ? other : x;
  }
  block_sync();
  if (thread_index() % 32 == 0) s->slots[thread_index() / 32] = x;
  block_sync();
  x = 0;
  for (int w = 0; w < threads / 32; w++) x = s->slots[w] > x ? s->slots[w] : x;
  return x;
}

GA_DEV int block_count_of(key_shared *s, int threads, int x) {
  const int mine = (int)redux_add_u32((uint32_t)x);
  int sum = 0;
  block_sync();
  if (thread_index() % 32 == 0) s->counts[thread_index() / 32] = mine;
  block_sync();
  for (int w = 0; w < threads / 32; w++) sum += s->counts[w];
  return sum;
}

/* Returns the sum of x over the block's threads up to and including this one. *total becomes the sum over all threads.
 * The order of additions is fixed. */
GA_DEV double block_scan_f64(key_shared *s, int threads, double x, double *total) {
  const int warp = thread_index() / 32;
  const double mine = warp_scan_f64(x);
  double before = 0, sum = 0;
  block_sync();
  if (thread_index() % 32 == 31) s->sums[warp] = mine;
  block_sync();
  for (int w = 0; w < threads / 32; w++) {
    if (w == warp) before = sum;
    sum += s->sums[w];
  }
  *total = sum;
  return before + mine;
}

/* Sorts n keys in shared memory in descending order (bitonic sort). n must be a power of two. */
GA_DEV void sort_keys(token_key *keys, int n, int threads) {
  block_sync();
  GA_ROLL for (int size = 2; size <= n; size *= 2) GA_ROLL for (int step = size / 2; step > 0; step /= 2) {
    for (int p = thread_index(); p < n / 2; p += threads) {
      const int i = 2 * p - (p & (step - 1)), j = i + step;
      const token_key a = keys[i], b = keys[j];
      if ((a < b) == !(i & size) && a != b) {
        keys[i] = b;
        keys[j] = a;
      }
    }
    block_sync();
  }
}
