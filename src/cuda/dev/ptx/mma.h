/* Matrix fragments and products. Lane numbers: g = lane / 4, q = lane % 4.
 * 16-bit 8x8 matrices: a lane holds row g, columns 2q and 2q+1 in one register. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/mma.h"
#else
#include "cuda/dev/ptx/base.h"

/* ---- warp level; every lane gives the shared address of one 16-byte row: matrix lane/8, row lane%8 ---- */
GA_DEV void ldmatrix_x4(uint32_t *r, uint32_t a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a)
               : "memory");
}
GA_DEV void stmatrix_x4(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r0), "r"(r1), "r"(r2),
               "r"(r3)
               : "memory");
}
/* d (16x8) += a (16x16) b (16x8); a: rows g, g+8, g, g+8 of columns 2q.., 2q.., 8+2q.., 8+2q..; d: row g then g+8,
 * columns 2q, 2q+1 */
GA_DEV void mma_m16n8k16_bf16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
               "%1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GA_DEV void mma_m16n8k16_f16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
               "%1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- warpgroup level: the 128 threads together; the products themselves are in wgmma.h ---- */
/* Orders register writes (accumulators, register A) before the products that follow; needed before the first and after
 * any such write. */
GA_DEV void wgmma_fence(void) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
GA_DEV void wgmma_commit(void) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* At most the n most recent groups may still run (n a literal); only then may the others' registers and shared memory
 * be touched. */
#define wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
#endif
