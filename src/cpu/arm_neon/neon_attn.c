/* Attention for NEON. */
#include <string.h>

#include "cpu/cpu_attn.h"
#include "cpu/simd/simd_math.h"
#include "cpu/simd/simd_neon.h"

#define ISA(name) name##_neon

#include "cpu/body/body_attn.h"
