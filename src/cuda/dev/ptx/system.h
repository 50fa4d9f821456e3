/* Words that other devices and the host store while a kernel runs. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/system.h"
#else
#include "cuda/dev/ptx/base.h"

/* A word that another device or the host brings up: what it wrote before is seen behind this. */
GA_DEV uint32_t ldg_u32_acquire_system(const uint32_t *p) {
  uint32_t r;
  asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
  return r;
}
/* Several blocks may do it at once: one of their numbers stays. */
GA_DEV void stg_i32_relaxed_system(int32_t *p, int x) {
  asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}
#endif
