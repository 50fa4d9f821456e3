/* Gradients of attention for AVX-512. */
#include <string.h>

#include "cpu/cpu_attn_bwd.h"
#include "cpu/simd/simd_avx512.h"
#include "cpu/simd/simd_math.h"

#define ISA(name) name##_avx512

#include "cpu/body/attn_bwd_tmpl.h"
