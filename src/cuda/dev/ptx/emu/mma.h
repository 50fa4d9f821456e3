/* Emulator bodies of the functions in ../mma.h. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

GA_DEV void ldmatrix_x4(uint32_t *r, uint32_t a, EMU_AT) { emu_ldmatrix(r, a, 4, 0, file, line); }
GA_DEV void ldmatrix_x4_trans(uint32_t *r, uint32_t a, EMU_AT) { emu_ldmatrix(r, a, 4, 1, file, line); }
GA_DEV void ldmatrix_x2(uint32_t *r, uint32_t a, EMU_AT) { emu_ldmatrix(r, a, 2, 0, file, line); }
GA_DEV void ldmatrix_x2_trans(uint32_t *r, uint32_t a, EMU_AT) { emu_ldmatrix(r, a, 2, 1, file, line); }
GA_DEV void stmatrix_x4(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3, EMU_AT) {
  const uint32_t r[4] = {r0, r1, r2, r3};
  emu_stmatrix(a, r, 4, 0, file, line);
}
GA_DEV void stmatrix_x4_trans(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3, EMU_AT) {
  const uint32_t r[4] = {r0, r1, r2, r3};
  emu_stmatrix(a, r, 4, 1, file, line);
}
GA_DEV void stmatrix_x2(uint32_t a, uint32_t r0, uint32_t r1, EMU_AT) {
  const uint32_t r[2] = {r0, r1};
  emu_stmatrix(a, r, 2, 0, file, line);
}

#define EMU_MMA_A4B2(name, k, type, real)                                          \
  GA_DEV void name(real *d, const uint32_t *a, uint32_t b0, uint32_t b1, EMU_AT) { \
    const uint32_t b[2] = {b0, b1};                                                \
    emu_mma(type, k, d, a, b, file, line);                                         \
  }
#define EMU_MMA_A2B1(name, k, type) \
  GA_DEV void name(float *d, const uint32_t *a, uint32_t b0, EMU_AT) { emu_mma(type, k, d, a, &b0, file, line); }
EMU_MMA_A4B2(mma_m16n8k16_bf16, 16, EMU_WGMMA_BF16, float)
EMU_MMA_A4B2(mma_m16n8k16_f16, 16, EMU_WGMMA_F16, float)
EMU_MMA_A2B1(mma_m16n8k8_bf16, 8, EMU_WGMMA_BF16)
EMU_MMA_A2B1(mma_m16n8k8_f16, 8, EMU_WGMMA_F16)
EMU_MMA_A4B2(mma_m16n8k8_tf32, 8, EMU_WGMMA_TF32, float)
EMU_MMA_A4B2(mma_m16n8k32_s8, 32, EMU_WGMMA_S8, int)
EMU_MMA_A4B2(mma_m16n8k32_e4m3, 32, EMU_WGMMA_E4M3, float)
EMU_MMA_A4B2(mma_m16n8k32_e5m2, 32, EMU_WGMMA_E5M2, float)

GA_DEV void wgmma_fence(EMU_AT) { emu_wgmma_fence(file, line); }
GA_DEV void wgmma_commit(EMU_AT) { emu_wgmma_commit(file, line); }
#define wgmma_wait(n) emu_wgmma_wait(n, __FILE__, __LINE__)
