/* The compute ceiling: multiply-adds in registers at the chip's full rate. */
#ifndef GA_VERIFY_BENCH_PEAK_H
#define GA_VERIFY_BENCH_PEAK_H

#include "base/thread.h"

typedef struct bench_peak {
  ga_piece_fn run; /* runs multiply-adds; NULL: there is no code for this machine */
  double flops;    /* operations of one thread in one run */
} bench_peak;

/* Returns the peak of f32. isas: bits of ga_caps. */
bench_peak bench_peak_for(uint32_t isas);
/* Returns the peak of matrix units. int8: 8-bit products summed in int32; else bf16 products summed in f32. */
bench_peak bench_amx_peak(uint32_t isas, bool int8);
/* Measures the operations per second of all threads, as the best of 50 runs. 0: there is no peak. */
double bench_peak_rate(ga_pool *pool, bench_peak peak);

#endif
