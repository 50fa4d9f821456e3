/* Bringing global memory nearer before it is needed. */
#pragma once
#include "cuda/dev/ptx/base.h"
#ifdef GA_EMU
GA_DEV void prefetch_l2(const void *p) { (void)p; } /* moves no data */
#else
/* The line of p to L2; p need not be anything that may be read. */
GA_DEV void prefetch_l2(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
#endif
