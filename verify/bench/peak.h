/* The compute ceiling: multiply-adds in registers at the chip's full rate. */
#ifndef GA_VERIFY_BENCH_PEAK_H
#define GA_VERIFY_BENCH_PEAK_H

#include "base/thread.h"

typedef struct bench_peak {
  ga_piece_fn run; /* NULL: none for this machine */
  double flops;    /* of one thread in one run */
} bench_peak;

/* The peak of f32. isas: bits of ga_caps. */
bench_peak bench_peak_for(uint32_t isas);
/* The peak of matrix units: bf16 products summed in f32, or 8-bit products summed in int32. */
bench_peak bench_amx_peak(uint32_t isas, bool int8);
/* Measures operations per second of all threads, the best of 50 runs; 0 for no peak. */
double bench_peak_rate(ga_pool *pool, bench_peak peak);

#endif
