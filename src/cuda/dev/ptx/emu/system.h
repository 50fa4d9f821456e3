/* Second body of ../system.h. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

GA_DEV uint32_t ldg_u32_acquire_system(const uint32_t *p, EMU_AT) {
  return (uint32_t)emu_atomic_add_i32((int32_t *)p, 0, file, line); /* a load that may race with whoever stores */
}
GA_DEV void stg_i32_relaxed_system(int32_t *p, int x, EMU_AT) { emu_store_relaxed_i32(p, x, file, line); }
