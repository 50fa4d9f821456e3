/* Prefetch of global memory into L2. */
#pragma once
#include "cuda/dev/ptx/base.h"
#ifdef GA_EMU
GA_DEV void prefetch_l2(const void *p) { (void)p; } /* the emulator has no cache */
#else
/* Loads the cache line of p into L2. Any address may be passed, even one that is not mapped. */
GA_DEV void prefetch_l2(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
#endif
