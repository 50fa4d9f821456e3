/* Matrix fragments and products. In comments g = lane / 4 and q = lane % 4.
 * One register of a lane holds columns 2q and 2q + 1 of row g of an 8x8 matrix of 16-bit elements. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/mma.h"
#else
#include "cuda/dev/ptx/base.h"

/* ---- Matrix loads of a warp. Lane 8 i + r passes the shared address of row r of matrix i: 16 bytes, 16-byte aligned.
 * A lane gets columns 2q and 2q+1 of row g of matrix i in r[i]. With _trans it gets rows 2q and 2q+1 of column g.
 * ---- */
GA_DEV void ldmatrix_x4(uint32_t *r, uint32_t a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a)
               : "memory");
}
GA_DEV void ldmatrix_x4_trans(uint32_t *r, uint32_t a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a)
               : "memory");
}
/* Loads two matrices: the addresses of lanes 16 to 31 are ignored. */
GA_DEV void ldmatrix_x2(uint32_t *r, uint32_t a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a) : "memory");
}
GA_DEV void ldmatrix_x2_trans(uint32_t *r, uint32_t a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(a)
               : "memory");
}
/* Stores matrices from registers to shared memory, the inverse of ldmatrix (sm_90). */
GA_DEV void stmatrix_x4(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r0), "r"(r1), "r"(r2),
               "r"(r3)
               : "memory");
}
GA_DEV void stmatrix_x4_trans(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}
GA_DEV void stmatrix_x2(uint32_t a, uint32_t r0, uint32_t r1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(a), "r"(r0), "r"(r1) : "memory");
}

/* ---- Products of a warp: d (16x8) += a (16xK) b (Kx8). A register of a or b holds e consecutive elements along k: 1
 * (tf32), 2 (16-bit) or 4 (8-bit).
 *
 * Registers of a: rows g and g+8 from k = e q on, then both rows from k = 4e + e q on. Registers of b: column g from k
 * = e q on, then from k = 4e + e q on. Registers of d: columns 2q and 2q+1 of row g, then of row g+8. ---- */
#define GA_MMA_A4B2(name, shape, types, real, letter)                                                               \
  GA_DEV void name(real *d, const uint32_t *a, uint32_t b0, uint32_t b1) {                                          \
    asm volatile("mma.sync.aligned." shape ".row.col." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, " \
                 "%1, %2, %3};"                                                                                     \
                 : "+" letter(d[0]), "+" letter(d[1]), "+" letter(d[2]), "+" letter(d[3])                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                   \
  }
#define GA_MMA_A2B1(name, shape, types)                                                                             \
  GA_DEV void name(float *d, const uint32_t *a, uint32_t b0) {                                                      \
    asm volatile("mma.sync.aligned." shape ".row.col." types " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                   \
                 : "r"(a[0]), "r"(a[1]), "r"(b0));                                                                  \
  }
GA_MMA_A4B2(mma_m16n8k16_bf16, "m16n8k16", "f32.bf16.bf16.f32", float, "f")
GA_MMA_A4B2(mma_m16n8k16_f16, "m16n8k16", "f32.f16.f16.f32", float, "f")
GA_MMA_A2B1(mma_m16n8k8_bf16, "m16n8k8", "f32.bf16.bf16.f32")
GA_MMA_A2B1(mma_m16n8k8_f16, "m16n8k8", "f32.f16.f16.f32")
GA_MMA_A4B2(mma_m16n8k8_tf32, "m16n8k8", "f32.tf32.tf32.f32", float, "f") /* the low 13 bits of operands are ignored */
GA_MMA_A4B2(mma_m16n8k32_s8, "m16n8k32", "s32.s8.s8.s32", int, "r")
GA_MMA_A4B2(mma_m16n8k32_e4m3, "m16n8k32", "f32.e4m3.e4m3.f32", float, "f") /* needs sm_89 */
GA_MMA_A4B2(mma_m16n8k32_e5m2, "m16n8k32", "f32.e5m2.e5m2.f32", float, "f")

/* ---- a warpgroup, whose 128 threads call together; its products are in wgmma.h ---- */
/* Orders writes to registers of accumulators and of operand A before the products that follow. Call it before the first
 * product and after each such write. */
GA_DEV void wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
GA_DEV void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Waits until at most the n most recent groups are still in flight; n is a literal. Registers and shared memory of the
 * other groups may be used only after this wait. */
#define wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
#endif
