/* Measures the ceiling of arithmetic: multiply-adds in registers at the processor's full rate. */
#ifndef GA_VERIFY_BENCH_PEAK_H
#define GA_VERIFY_BENCH_PEAK_H

#include "base/thread.h"

typedef struct bench_peak {
  ga_piece_fn run; /* function that runs multiply-adds; NULL: there is no code for this machine */
  double flops;    /* arithmetic operations of one thread in one call of `run` */
} bench_peak;

/* Returns the code that reaches the f32 peak of a CPU. isas: instruction sets of the CPU, a mask of bits 1 <<
 * ga_isa. */
bench_peak bench_peak_for(uint32_t isas);
/* Returns the code that reaches the peak of a CPU's matrix units (AMX). int8: products of 8-bit integers are summed in
 * int32; otherwise products of bf16 are summed in f32. */
bench_peak bench_amx_peak(uint32_t isas, bool int8);
/* Measures the arithmetic operations per second of all threads: the best of 50 runs. Returns 0 if peak.run is NULL. */
double bench_peak_rate(ga_pool *pool, bench_peak peak);

#endif
