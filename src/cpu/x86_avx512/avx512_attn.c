/* Attention for AVX-512. */
#include <string.h>

#include "cpu/cpu_attn.h"
#include "cpu/simd/simd_avx512.h"
#include "cpu/simd/simd_math.h"

#define ISA(name) name##_avx512

#include "cpu/body/attn_tmpl.h"
