/* Emulator bodies of the functions in ../wgmma.h and ../wgmma8.h, for every shape. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

/* clang-format off */
#define EMU_WGMMA(n, t, type) \
    GA_DEV void wgmma_m64n##n##k16_##t##_rs(float *d, const uint32_t *a, uint64_t b, int acc, EMU_AT) \
    { emu_wgmma(type, n, d, a, 0, b, 0, 0, acc, file, line); } \
    GA_DEV void wgmma_m64n##n##k16_##t##_rst(float *d, const uint32_t *a, uint64_t b, int acc, EMU_AT) \
    { emu_wgmma(type, n, d, a, 0, b, 0, 1, acc, file, line); } \
    GA_DEV void wgmma_m64n##n##k16_##t##_ss(float *d, uint64_t a, uint64_t b, int acc, EMU_AT) \
    { emu_wgmma(type, n, d, 0, a, b, 0, 0, acc, file, line); } \
    GA_DEV void wgmma_m64n##n##k16_##t##_sst(float *d, uint64_t a, uint64_t b, int acc, EMU_AT) \
    { emu_wgmma(type, n, d, 0, a, b, 0, 1, acc, file, line); } \
    GA_DEV void wgmma_m64n##n##k16_##t##_ss0(float *d, uint64_t a, uint64_t b, EMU_AT) \
    { emu_wgmma(type, n, d, 0, a, b, 0, 0, 0, file, line); } \
    GA_DEV void wgmma_m64n##n##k16_##t##_sst0(float *d, uint64_t a, uint64_t b, EMU_AT) \
    { emu_wgmma(type, n, d, 0, a, b, 0, 1, 0, file, line); }
#define EMU_WGMMA_SHAPES(X, t, type) \
    X(8, t, type) X(16, t, type) X(24, t, type) X(32, t, type) X(40, t, type) X(48, t, type) X(56, t, type) \
    X(64, t, type) \
    X(72, t, type) X(80, t, type) X(88, t, type) X(96, t, type) X(104, t, type) X(112, t, type) X(120, t, type) \
    X(128, t, type) X(136, t, type) X(144, t, type) X(152, t, type) X(160, t, type) X(168, t, type) X(176, t, type) \
    X(184, t, type) X(192, t, type) X(200, t, type) X(208, t, type) X(216, t, type) X(224, t, type) X(232, t, type) \
    X(240, t, type) X(248, t, type) X(256, t, type)
EMU_WGMMA_SHAPES(EMU_WGMMA, bf16, EMU_WGMMA_BF16)
EMU_WGMMA_SHAPES(EMU_WGMMA, f16, EMU_WGMMA_F16)

#define EMU_WGMMA_8(n, t, type, real) \
    GA_DEV void wgmma_m64n##n##k32_##t##_rs(real *d, const uint32_t *a, uint64_t b, int acc, EMU_AT) \
    { emu_wgmma(type, n, d, a, 0, b, 0, 0, acc, file, line); } \
    GA_DEV void wgmma_m64n##n##k32_##t##_ss(real *d, uint64_t a, uint64_t b, int acc, EMU_AT) \
    { emu_wgmma(type, n, d, 0, a, b, 0, 0, acc, file, line); } \
    GA_DEV void wgmma_m64n##n##k32_##t##_rs0(real *d, const uint32_t *a, uint64_t b, EMU_AT) \
    { emu_wgmma(type, n, d, a, 0, b, 0, 0, 0, file, line); } \
    GA_DEV void wgmma_m64n##n##k32_##t##_ss0(real *d, uint64_t a, uint64_t b, EMU_AT) \
    { emu_wgmma(type, n, d, 0, a, b, 0, 0, 0, file, line); }
#define EMU_WGMMA_F8_(n, t, type) EMU_WGMMA_8(n, t, type, float)
#define EMU_WGMMA_S8_(n, t, type) EMU_WGMMA_8(n, t, type, int)
EMU_WGMMA_SHAPES(EMU_WGMMA_F8_, e4m3, EMU_WGMMA_E4M3)
EMU_WGMMA_SHAPES(EMU_WGMMA_F8_, e5m2, EMU_WGMMA_E5M2)
EMU_WGMMA_SHAPES(EMU_WGMMA_S8_, s8, EMU_WGMMA_S8)
