/* Ordinary loads, stores and atomics. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/mem.h"
#else
#include "cuda/dev/ptx/base.h"

typedef struct {
  int x, y, z, w;
} ga_i4;

/* ---- shared memory; addresses aligned to the access ---- */
GA_DEV ga_i4 lds_i4(uint32_t a) {
  ga_i4 r;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "r"(a)
               : "memory");
  return r;
}
GA_DEV void sts_i4(uint32_t a, int x, int y, int z, int w) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

/* ---- global memory ---- */
GA_DEV int ldg_i32(const int32_t *p) {
  int r;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
  return r;
}
GA_DEV uint16_t ldg_u16(const uint16_t *p) {
  uint16_t r;
  asm volatile("ld.global.b16 %0, [%1];" : "=h"(r) : "l"(p) : "memory");
  return r;
}
GA_DEV float ldg_f32(const float *p) {
  float r;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(r) : "l"(p) : "memory");
  return r;
}
GA_DEV void stg_f32(float *p, float x) {
  asm volatile("st.global.f32 [%0], %1;" ::"l"(p), "f"(x) : "memory");
}
GA_DEV void stg_i32(int32_t *p, int x) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}
GA_DEV void stg_u16(uint16_t *p, uint16_t x) {
  asm volatile("st.global.b16 [%0], %1;" ::"l"(p), "h"(x) : "memory");
}
/* 16 bytes, aligned to 16. */
GA_DEV void stg_u4(void *p, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
/* Old value; relaxed, device scope. */
GA_DEV int atomic_add_i32(int32_t *p, int x) {
  int r;
  asm volatile("atom.global.add.s32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(x) : "memory");
  return r;
}
/* Orders this thread's earlier writes before its later ones for the whole device. */
GA_DEV void fence_device(void) {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
#endif
