/* Accesses of 4, 8 and 16 bytes, and arithmetic on pairs of 16-bit numbers, for kernels over packed weights. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/words.h"
#else
#include "cuda/dev/ptx/base.h"

/* ---- global memory that is read once: loads allocate no lines in L1. volatile keeps each load at its place in the
 * program, early before the use of its data. ---- */
GA_DEV void ldg_stream_u4(uint32_t *r, const void *p) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "l"(p));
}
GA_DEV void ldg_stream_u2(uint32_t *r, const void *p) {
  asm volatile("ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "l"(p));
}
GA_DEV void ldg_stream_u1(uint32_t *r, const void *p) {
  asm volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(r[0]) : "l"(p));
}

GA_DEV void stg_u2(void *p, uint32_t x, uint32_t y) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(p), "r"(x), "r"(y) : "memory");
}

/* ---- shared memory; addresses aligned to the access ---- */
GA_DEV void lds_u4(uint32_t *r, uint32_t a) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a)
               : "memory");
}
GA_DEV void sts_u1(uint32_t a, uint32_t x) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(a), "r"(x) : "memory"); }
GA_DEV float lds_f1(uint32_t a) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(a) : "memory");
  return x;
}
GA_DEV void sts_u2(uint32_t a, uint32_t x, uint32_t y) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(a), "r"(x), "r"(y) : "memory");
}
GA_DEV void sts_f1(uint32_t a, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(a), "f"(x) : "memory"); }
GA_DEV void sts_f2(uint32_t a, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(a), "f"(x), "f"(y) : "memory");
}

/* ---- not volatile: the compiler may move these instructions over each other and over code that they do not depend on.
 * The address of a load must be pinned (pin_u32) after the barrier that makes the data visible. ---- */
GA_DEV void lds_nv_u4(uint32_t *r, uint32_t a) {
  asm("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
GA_DEV void lds_nv_u2(uint32_t *r, uint32_t a) {
  asm("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a));
}
GA_DEV void lds_nv_u1(uint32_t *r, uint32_t a) { asm("ld.shared.b32 %0, [%1];" : "=r"(r[0]) : "r"(a)); }
GA_DEV void lds_nv_f2(float *r, uint32_t a) {
  asm("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r[0]), "=f"(r[1]) : "r"(a));
}
/* Computes d += a b for bf16 operands, in the register layout of mma_m16n8k16_bf16 (mma.h). */
GA_DEV void mma_nv_bf16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GA_DEV float lds_nv_f1(uint32_t a) {
  float x;
  asm("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(a));
  return x;
}
GA_DEV uint16_t lds_nv_u16(uint32_t a) {
  uint16_t x;
  asm("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(a));
  return x;
}
/* Computes d += a b for f16 operands, in the register layout of mma_m16n8k16_f16 (mma.h). */
GA_DEV void mma_nv_f16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Computes d += a b for tf32 operands, in the register layout of mma_m16n8k8_tf32 (mma.h). */
GA_DEV void mma_nv_tf32(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Computes d = c + a b on 8-bit integers, with the same c for all elements. mma_nv_s8_k16 has k = 16, with a[0..1] and
 * b0 only. */
GA_DEV void mma_nv_s8(int *d, const uint32_t *a, uint32_t b0, uint32_t b1, int c) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, "
      "%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c));
}
/* Computes d = c + a b on 8-bit integers, where a is unsigned and b is signed. */
GA_DEV void mma_nv_u8_s8(int *d, const uint32_t *a, uint32_t b0, uint32_t b1, int c) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, "
      "%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c));
}
/* Computes d += a b on 8-bit integers. */
GA_DEV void mma_nv_add_s8(int *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GA_DEV void mma_nv_add_s8_k16(int *d, const uint32_t *a, uint32_t b0) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
}
GA_DEV void mma_nv_s8_k16(int *d, const uint32_t *a, uint32_t b0, int c) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0), "r"(c));
}
/* Returns the larger of |x| and |y|; NaN if one is NaN (sm_80). */
GA_DEV float max_size(float x, float y) {
  float r;
  asm("{.reg .f32 a, b; abs.f32 a, %1; abs.f32 b, %2; max.NaN.f32 %0, a, b;}" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
/* Returns the x of lane `lane` (0 to 3) in the caller's group of four lanes. */
GA_DEV uint32_t shfl_quad_u32(uint32_t x, int lane) { return __shfl_sync(~0u, x, lane, 4); }
/* ---- bytes and pairs of 16-bit numbers ---- */
/* Computes (x & mask) | bits in one instruction. */
GA_DEV uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(r) : "r"(x), "r"(mask), "r"(bits));
  return r;
}
/* Returns a register whose byte i is byte (sel >> 4i & 15) of the eight bytes of a, then b. Bit 3 of each selector must
 * be 0. */
GA_DEV uint32_t prmt(uint32_t a, uint32_t b, uint32_t sel) {
  uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sel));
  return r;
}
/* Returns a register whose byte i is byte (sel >> 4i & 7) of the eight bytes of a, then b. Where bit 3 of a selector is
 * 1, all eight bits of the result byte are the selected byte's top bit. */
GA_DEV uint32_t prmt_sign(uint32_t a, uint32_t b, uint32_t sel) { return prmt(a, b, sel); }
/* Returns x * y + z for two bf16 numbers in each register, rounded once. Subnormals are not flushed to zero (sm_80). */
GA_DEV uint32_t fma_bf16x2(uint32_t x, uint32_t y, uint32_t z) {
  uint32_t r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  return r;
}
/* Returns a register with the low (half 0) or high (half 1) 16 bits of x in both halves. In 16-bit arithmetic the
 * compiler makes it a modifier of an operand, which takes no instruction. */
GA_DEV uint32_t twice_16(uint32_t x, int half) {
  uint32_t r;
  if (half)
    asm("{.reg .b16 a, b; mov.b32 {a, b}, %1; mov.b32 %0, {b, b};}" : "=r"(r) : "r"(x));
  else
    asm("{.reg .b16 a, b; mov.b32 {a, b}, %1; mov.b32 %0, {a, a};}" : "=r"(r) : "r"(x));
  return r;
}
/* Returns x + y for two f16 numbers in each register, rounded once. Subnormals are not flushed to zero. */
GA_DEV uint32_t add_f16x2(uint32_t x, uint32_t y) {
  uint32_t r;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
  return r;
}
/* Returns x + y for two bf16 numbers in each register, rounded once. */
GA_DEV uint32_t add_bf16x2(uint32_t x, uint32_t y) { return fma_bf16x2(x, 0x3f803f80u, y); }
#endif
