/* Attention for AVX2. */
#include <string.h>

#include "cpu/cpu_attn.h"
#include "cpu/simd/simd_avx2.h"
#include "cpu/simd/simd_math.h"

#define ISA(name) name##_avx2

#include "cpu/body/attn_tmpl.h"
