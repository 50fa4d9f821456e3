/* Attention for any CPU. */
#include <string.h>

#include "cpu/cpu_attn.h"
#include "cpu/simd/simd_generic.h"
#include "cpu/simd/simd_math.h"

#define ISA(name) name##_generic

#include "cpu/body/attn_tmpl.h"
