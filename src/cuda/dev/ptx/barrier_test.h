/* A look at an mbarrier that does not wait. */
#pragma once
#include "cuda/dev/ptx/barrier.h"
#ifdef GA_EMU
GA_DEV uint32_t mbar_test(uint32_t bar, uint32_t parity) { return mbar_try_wait(bar, parity); }
#else
/* Returns 1 if the phase of the given parity has ended, otherwise 0, at once. With 1, the accesses that the arrivals
 * released are acquired. */
GA_DEV uint32_t mbar_test(uint32_t bar, uint32_t parity) {
  uint32_t ok;
  asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(ok)
               : "r"(bar), "r"(parity)
               : "memory");
  return ok;
}
#endif
