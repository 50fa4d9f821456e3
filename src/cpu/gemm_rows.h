/* Row macros of gemm.def, for the one file that lists the rows. */
#ifndef GA_CPU_GEMM_ROWS_H
#define GA_CPU_GEMM_ROWS_H

#include "core/rows.h"
#include "cpu/cpu_gemm_x16.h"
#include "cpu/x86_amx/amx_gemm.h"

#define GA_GEMM_GENERIC(name_, TYPE_)                                                                    \
  GA_ROW(gemm, name_, any, generic, 4x1, .source = "src/cpu/generic/generic_gemm.c",                     \
         .dtype = {GA_##TYPE_, GA_F32, GA_F32}, .layout = GA_LAYOUT_NATIVE, .score = 10, .tolerance = 2, \
         .ok = ga_cpu_gemm_ok, .workspace = ga_cpu_gemm_generic_workspace, .launch = ga_cpu_gemm_generic),

/* Packed weights. Plain types keep f32 activations, quantised ones have them rounded to 15 bits. */
#define GA_GEMM_X16(name_, TYPE_, arch_, tile_, file_, flags_, score_)                                    \
  GA_ROW(gemm, name_, any, arch_, tile_, .source = file_, .dtype = {GA_##TYPE_, GA_F32, GA_F32},          \
         .layout = GA_LAYOUT_X16, .score = score_, .flags = flags_, .tolerance = 2, .ok = ga_cpu_gemm_ok, \
         .workspace = ga_cpu_gemm_x16_workspace, .launch = ga_cpu_gemm_x16, .impl = &ga_x16_##name_##_##arch_),
/* Packed weights widened to bf16: pays from about 20 rows on (q4_1, n 1536, k 576: m 16 in 78 us against 75 of AVX-512,
 * m 32 in 106 against 150). */
#define GA_GEMM_AMX(name_, TYPE_)                                                                               \
  GA_ROW(gemm, name_, prefill, amx, 32x32, .source = "src/cpu/x86_amx/amx_gemm.c",                              \
         .dtype = {GA_##TYPE_, GA_F32, GA_F32}, .layout = GA_LAYOUT_X16, .rows_min = 20, .score = 80,           \
         .flags = GA_KERNEL_BF16, .tolerance = 2, .ok = ga_cpu_gemm_ok, .workspace = ga_cpu_gemm_amx_workspace, \
         .launch = ga_cpu_gemm_amx, .impl = &ga_amx_##name_),
#define GA_PACK_X16()                                                                                         \
  GA_ROW(pack, any, x16, generic, 16x32, .source = "src/cpu/generic/generic_pack.c", .layout = GA_LAYOUT_X16, \
         .score = 10, .tolerance = 0, .ok = ga_cpu_pack_ok, .out_bytes = ga_cpu_pack_bytes,                   \
         .launch = ga_cpu_pack_x16),

/* The micro-kernels that the rows name. */
/* clang-format off */
#define GA_X16_TYPES(X, arch) \
  X(f32, arch) X(f16, arch) X(bf16, arch) X(q4_0, arch) X(q4_1, arch) X(q5_0, arch) X(q5_1, arch) X(q8_0, arch) \
  X(q2_k, arch) X(q3_k, arch) X(q4_k, arch) X(q5_k, arch) X(q6_k, arch) X(iq4_nl, arch) X(iq4_xs, arch) \
  X(mxfp4, arch) X(nvfp4, arch)
/* clang-format on */
#define GA_X16_DECLARE(name_, arch_) extern const ga_x16_impl ga_x16_##name_##_##arch_;
#if defined(__x86_64__)
GA_X16_TYPES(GA_X16_DECLARE, avx2)
GA_X16_TYPES(GA_X16_DECLARE, avx512)
#define GA_AMX_DECLARE(name_, arch_) extern const ga_amx_impl ga_amx_##name_;
GA_X16_TYPES(GA_AMX_DECLARE, amx) /* there is none of f32, and no row of it */
#elif defined(__aarch64__)
GA_X16_TYPES(GA_X16_DECLARE, neon)
#endif

#endif
