/* Gradients of attention for NEON. */
#include <string.h>

#include "cpu/cpu_attn_bwd.h"
#include "cpu/simd/simd_neon.h"

#include "cpu/simd/simd_math.h" /* on its vectors */

#define ISA(name) name##_neon

#include "cpu/body/attn_bwd_tmpl.h"
