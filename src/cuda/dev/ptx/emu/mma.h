/* Second body of ../mma.h. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

GA_DEV void ldmatrix_x4(uint32_t *r, uint32_t a, EMU_AT) { emu_ldmatrix_x4(r, a, file, line); }
GA_DEV void stmatrix_x4(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3, EMU_AT)
{
    const uint32_t r[4] = { r0, r1, r2, r3 };
    emu_stmatrix_x4(a, r, file, line);
}
GA_DEV void mma_m16n8k16_bf16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, EMU_AT) { emu_mma_m16n8k16(0, d, a, b0, b1, file, line); }
GA_DEV void mma_m16n8k16_f16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, EMU_AT) { emu_mma_m16n8k16(1, d, a, b0, b1, file, line); }

GA_DEV void wgmma_fence(EMU_AT) { emu_wgmma_fence(file, line); }
GA_DEV void wgmma_commit(EMU_AT) { emu_wgmma_commit(file, line); }
#define wgmma_wait(n) emu_wgmma_wait(n, __FILE__, __LINE__)
