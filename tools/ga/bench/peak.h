/* Multiply-adds in registers, as fast as the chip does them: the compute ceiling. */
#ifndef TOOL_BENCH_PEAK_H
#define TOOL_BENCH_PEAK_H

#include "base/thread.h"

typedef struct bench_peak {
  ga_pool_fn run; /* NULL: none for this machine */
  double flops;   /* of one thread in one run */
} bench_peak;

/* archs: bits of ga_caps. f32. */
bench_peak bench_peak_for(uint32_t archs);

#endif
