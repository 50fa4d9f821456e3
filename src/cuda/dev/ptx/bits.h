/* Bit counts and bit positions of a 32-bit word. */
#pragma once
#include "cuda/dev/ptx/base.h"

#ifdef GA_EMU
GA_DEV int bit_count(uint32_t x) { return __builtin_popcount(x); }
GA_DEV int lowest_bit(uint32_t x) { return __builtin_ctz(x); }
GA_DEV int highest_bit(uint32_t x) { return 31 - __builtin_clz(x); }
#else
GA_DEV int bit_count(uint32_t x) { return __popc(x); } /* returns the number of bits set */
/* returns the index of the lowest bit set; x must not be 0 */
GA_DEV int lowest_bit(uint32_t x) { return __ffs((int)x) - 1; }
GA_DEV int highest_bit(uint32_t x) { return 31 - __clz((int)x); }
#endif
