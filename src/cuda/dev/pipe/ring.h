/* A ring of shared-memory stages, each with a "full" and an "empty" mbarrier. Both sides count the blocks they have
 * moved: block i lives in stage i % stages, in the (i / stages)-th use of that stage. A side needs no other state. */
#pragma once
#include "cuda/dev/ptx/barrier.h"

GA_DEV uint32_t ring_stage(uint32_t i, int stages) { return i % (uint32_t)stages; }
/* Parity of the phase of "full" that ends when block i has arrived. */
GA_DEV uint32_t ring_full_parity(uint32_t i, int stages) { return i / (uint32_t)stages & 1u; }
/* Parity of the phase of "empty" that ends when block i - stages has been used; the first round passes at once. */
GA_DEV uint32_t ring_empty_parity(uint32_t i, int stages) { return ~(i / (uint32_t)stages) & 1u; }
