/* A ring of shared-memory stages, each with a "full" and an "empty" mbarrier. Producer and consumer each count the
 * blocks of data that they have moved. Block i is in stage i % stages, and is the (i / stages)-th block in it. Neither
 * side needs other state. */
#pragma once
#include "cuda/dev/ptx/barrier.h"

GA_DEV uint32_t ring_stage(uint32_t i, int stages) { return i % (uint32_t)stages; }
/* Returns the parity with which a consumer waits, at the "full" mbarrier of a stage, for the arrival of block i of the
 * data. */
GA_DEV uint32_t ring_full_parity(uint32_t i, int stages) { return i / (uint32_t)stages & 1u; }
/* Returns the parity with which a producer waits, at the "empty" mbarrier of a stage, before it loads block i of the
 * data. The wait ends when block i - stages has been used; for i < stages it ends at once. */
GA_DEV uint32_t ring_empty_parity(uint32_t i, int stages) { return ~(i / (uint32_t)stages) & 1u; }
