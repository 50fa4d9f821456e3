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
GA_DEV void lds_f2(float *x, uint32_t a) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(a) : "memory");
}
GA_DEV void lds_f4(float *x, uint32_t a) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(a)
               : "memory");
}
/* Returns 0 after loads from shared memory have arrived in registers. Each of x[0], x[step], ... is a register that a
 * load has written, or was computed from such a register.
 *
 * Add the result to the mbarrier address of the arrival that lets the copy engine reuse the buffer. The arrival then
 * waits for the loads.
 *
 * Without it, an arrival may overtake an earlier load, and the next bulk copy may overwrite its data. On an H200 this
 * happened to ldmatrix in up to 2 % of launches. */
GA_DEV uint32_t loads_done(const uint32_t *x, int n, int step) {
  uint32_t any = 0, zero;
  GA_UNROLL for (int i = 0; i < n; i += step) any |= x[i];
  asm volatile("{.reg .b32 ones; popc.b32 ones, %1; shr.u32 %0, ones, 6;}" : "=r"(zero) : "r"(any) : "memory");
  return zero;
}
GA_DEV uint32_t loads_done_f32(const float *x, int n, int step) {
  uint32_t any = 0, zero;
  GA_UNROLL for (int i = 0; i < n; i += step) any |= __float_as_uint(x[i]);
  asm volatile("{.reg .b32 ones; popc.b32 ones, %1; shr.u32 %0, ones, 6;}" : "=r"(zero) : "r"(any) : "memory");
  return zero;
}
GA_DEV void sts_f4(uint32_t a, const float *x) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(a), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}

/* ---- shared memory of another block of the cluster, which must not have ended; a comes from cluster_address ---- */
GA_DEV ga_i4 lds_cluster_i4(uint32_t a) {
  ga_i4 r;
  asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "r"(a)
               : "memory");
  return r;
}
GA_DEV void sts_cluster_i4(uint32_t a, int x, int y, int z, int w) {
  asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
/* Stores 16 bytes to another block asynchronously. mbarrier `bar` of that block counts the 16 bytes when they arrive. a
 * and bar come from cluster_address. */
GA_DEV void sts_async_i4(uint32_t a, int x, int y, int z, int w, uint32_t bar) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(a),
      "r"(x), "r"(y), "r"(z), "r"(w), "r"(bar)
      : "memory");
}

/* ---- global memory ---- */
GA_DEV int ldg_i32(const int32_t *p) {
  int r;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
  return r;
}
/* The suffix _cg means a load from L2 that does not use L1. */
GA_DEV int ldg_i32_cg(const int32_t *p) {
  int r;
  asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
  return r;
}
GA_DEV ga_i4 ldg_i4_cg(const void *p) {
  ga_i4 r;
  asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "l"(p)
               : "memory");
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
GA_DEV void ldg_f4(float *x, const float *p) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "l"(p)
               : "memory");
}
GA_DEV void stg_f32(float *p, float x) { asm volatile("st.global.f32 [%0], %1;" ::"l"(p), "f"(x) : "memory"); }
/* Stores 8 bytes; p must be aligned to 8. */
GA_DEV void stg_f2(float *p, float x, float y) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(p), "f"(x), "f"(y) : "memory");
}
GA_DEV void stg_i32(int32_t *p, int x) { asm volatile("st.global.b32 [%0], %1;" ::"l"(p), "r"(x) : "memory"); }
GA_DEV void stg_u16(uint16_t *p, uint16_t x) { asm volatile("st.global.b16 [%0], %1;" ::"l"(p), "h"(x) : "memory"); }
/* Stores 16 bytes; p must be aligned to 16. */
GA_DEV void stg_f4(float *p, const float *x) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}
GA_DEV void stg_u4(void *p, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
/* Adds x to *p and returns the old value (relaxed, device scope). */
GA_DEV int atomic_add_i32(int32_t *p, int x) {
  int r;
  asm volatile("atom.global.add.s32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(x) : "memory");
  return r;
}
GA_DEV float atomic_add_f32(float *p, float x) {
  float r;
  asm volatile("atom.global.add.f32 %0, [%1], %2;" : "=f"(r) : "l"(p), "f"(x) : "memory");
  return r;
}
/* Adds x to *p without returning the old value. The order of additions is undefined, and with it the last bits of a
 * sum. */
GA_DEV void red_add_f32(float *p, float x) { asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(x) : "memory"); }
/* Adds x, y, z and w to the four floats at p. Each addition is atomic by itself. p must be 16-byte aligned (sm_90). */
GA_DEV void red_add_f32x4(float *p, float x, float y, float z, float w) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}
/* Adds the two f16 values of x to the two at p. Each addition is atomic by itself and rounded to nearest even. p is
 * 4-byte aligned (sm_60). */
GA_DEV void red_add_f16x2(void *p, uint32_t x) {
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}
/* Adds the two bf16 values of x to the two at p. Each addition is atomic by itself and rounded to nearest even. p is
 * 4-byte aligned (sm_90). */
GA_DEV void red_add_bf16x2(void *p, uint32_t x) {
  asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}
/* Orders this thread's earlier memory accesses before its later ones, at the scope of the device. */
GA_DEV void fence_device(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
/* Semaphores, which order blocks of a grid. A block calls semaphore_signal when it is done: *p grows by 1, and the
 * block's earlier writes are released.
 *
 * semaphore_wait returns when *p is at least `least`. The wait is bounded: a protocol error traps and never hangs the
 * GPU. */
GA_DEV void semaphore_signal(int32_t *p) {
  asm volatile("fence.acq_rel.gpu; red.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(p) : "memory");
}
GA_DEV void semaphore_wait(const int32_t *p, int least) {
  int r;
  GA_ROLL for (uint32_t i = 0; i < (1u << 26); i++) {
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
    if (r >= least) return;
  }
  asm volatile("trap;");
}
#endif
