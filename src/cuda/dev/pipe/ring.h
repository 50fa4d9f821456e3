/* A ring of shared-memory stages, each with a "full" and an "empty" mbarrier. Producer and consumer each count the
 * blocks they have moved: block i lives in stage i % stages, in the (i / stages)-th use of that stage. Neither side
 * needs other state. */
#pragma once
#include "cuda/dev/ptx/barrier.h"

GA_DEV uint32_t ring_stage(uint32_t i, int stages) { return i % (uint32_t)stages; }
/* Returns the parity of the phase of "full" that ends when block i has arrived. */
GA_DEV uint32_t ring_full_parity(uint32_t i, int stages) { return i / (uint32_t)stages & 1u; }
/* Returns the parity of the phase of "empty" that ends when block i - stages has been used. In the first round the wait
 * returns at once. */
GA_DEV uint32_t ring_empty_parity(uint32_t i, int stages) { return ~(i / (uint32_t)stages) & 1u; }
