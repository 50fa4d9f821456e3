/* Emulator bodies of the functions in ../wgmma_t.h. */
#pragma once
#include "cuda/dev/ptx/emu/wgmma.h"

/* clang-format off */
#define EMU_WGMMA_T(n, t, type) \
    GA_DEV void wgmma_m64n##n##k16_##t##_sstt(float *d, uint64_t a, uint64_t b, int acc, EMU_AT) \
    { emu_wgmma(type, n, d, 0, a, b, 1, 1, acc, file, line); }
EMU_WGMMA_T(64, bf16, EMU_WGMMA_BF16) EMU_WGMMA_T(128, bf16, EMU_WGMMA_BF16) EMU_WGMMA_T(256, bf16, EMU_WGMMA_BF16)
EMU_WGMMA_T(64, f16, EMU_WGMMA_F16) EMU_WGMMA_T(128, f16, EMU_WGMMA_F16) EMU_WGMMA_T(256, f16, EMU_WGMMA_F16)
