/* Second body of ../free.h. */
#pragma once
#include "cuda/dev/ptx/emu/mma.h"

GA_DEV void lds_free_u2(uint32_t *r, uint32_t a, EMU_AT) { emu_lds(r, a, 8, file, line); }
GA_DEV uint32_t lds_free_u1(uint32_t a, EMU_AT)
{
    uint32_t r;
    emu_lds(&r, a, 4, file, line);
    return r;
}
GA_DEV void mma_free_tf32(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, EMU_AT) { mma_m16n8k8_tf32(d, a, b0, b1, file, line); }
