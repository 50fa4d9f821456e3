/* Multiply-adds in registers, as fast as the chip does them: the compute ceiling. */
#ifndef GA_VERIFY_BENCH_PEAK_H
#define GA_VERIFY_BENCH_PEAK_H

#include "base/thread.h"

typedef struct bench_peak {
  ga_piece_fn run; /* NULL: none for this machine */
  double flops;    /* of one thread in one run */
} bench_peak;

/* isas: bits of ga_caps. f32. */
bench_peak bench_peak_for(uint32_t isas);
/* Matrix units: bf16 products summed in f32, or 8-bit ones in int32. */
bench_peak bench_amx_peak(uint32_t isas, bool int8);
/* Operations a second of all threads, the best of 50 runs; 0 for no peak. */
double bench_peak_rate(ga_pool *pool, bench_peak peak);

#endif
