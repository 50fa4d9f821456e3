/* Sums and maxima over all threads of a block. Every thread must call, and every thread gets the result. A call has one
 * block barrier. Functions with the suffix _warp reduce over a warp only, without a barrier. */
#pragma once
#include "cuda/dev/ptx/base.h"

#define GA_NEG_INFINITY __uint_as_float(0xff800000u)

/* Shared memory of a reduction: one slot per warp, in two sets, which successive reductions use alternately (`turn`). A
 * reduction may therefore begin while slow warps still read the results of the previous one. */
typedef struct {
  float slot[2][32];
} row_shared;

GA_DEV float row_sum_warp(float x) {
  GA_UNROLL for (int m = 16; m > 0; m /= 2) x += shfl_xor_f32(x, m);
  return x;
}
/* Returns the larger of a and b, or NaN if one is NaN: the softmax of a row with a NaN is NaN. */
GA_DEV float row_larger(float a, float b) { return a > b || a != a ? a : b; }
GA_DEV float row_max_warp(float x) {
  GA_UNROLL for (int m = 16; m > 0; m /= 2) x = row_larger(x, shfl_xor_f32(x, m));
  return x;
}

GA_DEV float row_sum(row_shared *s, int turn, int threads, float x) {
  x = row_sum_warp(x);
  if (thread_index() % 32 == 0) s->slot[turn & 1][thread_index() / 32] = x;
  block_sync();
  x = 0;
  for (int w = 0; w < threads / 32; w++) x += s->slot[turn & 1][w];
  return x;
}
GA_DEV float row_max(row_shared *s, int turn, int threads, float x) {
  x = row_max_warp(x);
  if (thread_index() % 32 == 0) s->slot[turn & 1][thread_index() / 32] = x;
  block_sync();
  x = s->slot[turn & 1][0];
  for (int w = 1; w < threads / 32; w++) x = row_larger(x, s->slot[turn & 1][w]);
  return x;
}
