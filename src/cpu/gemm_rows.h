/* Row macros of gemm.def, for the one file that lists the rows. */
#ifndef GA_CPU_GEMM_ROWS_H
#define GA_CPU_GEMM_ROWS_H

#include "core/rows.h"
#include "cpu/cpu_gemm.h"

#define GA_GEMM_GENERIC(name_, TYPE_)                                                                                  \
  GA_ROW(gemm, name_, any, generic, 4x1, .source = "src/cpu/generic/generic_gemm.c", .dtype = {GA_##TYPE_, GA_F32, GA_F32}, \
         .layout = GA_LAYOUT_NATIVE, .score = 10, .tolerance = 2, .ok = ga_cpu_gemm_ok,                                \
         .workspace = ga_cpu_gemm_generic_workspace, .launch = ga_cpu_gemm_generic),

#endif
