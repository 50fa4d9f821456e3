/* Gradients of attention for any CPU. */
#include <string.h>

#include "cpu/cpu_attn_bwd.h"
#include "cpu/simd/simd_generic.h"
#include "cpu/simd/simd_math.h"

#define ISA(name) name##_generic

#include "cpu/body/attn_bwd_tmpl.h"
