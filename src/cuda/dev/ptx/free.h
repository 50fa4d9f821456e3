/* More of what the compiler may move (words.h): the address of a load must have been pinned (pin_u32) behind the barrier that makes the
 * data visible, and what was made of it pinned before the data is overwritten. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/free.h"
#else
#include "cuda/dev/ptx/base.h"

GA_DEV void lds_free_u2(uint32_t *r, uint32_t a) {
  asm("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a));
}
GA_DEV uint32_t lds_free_u1(uint32_t a) {
  uint32_t r;
  asm("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(a));
  return r;
}
/* mma_m16n8k8_tf32 of mma.h */
GA_DEV void mma_free_tf32(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif
