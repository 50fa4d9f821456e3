/* Gradients of attention for NEON. */
#include <string.h>

#include "cpu/cpu_attn_bwd.h"
#include "cpu/simd/simd_math.h"
#include "cpu/simd/simd_neon.h"

#define ISA(name) name##_neon

#include "cpu/body/body_attn_bwd.h"
