/* norm, rope, act, add, softmax, kv_store and sample for AVX-512. */
#include <string.h>

#include "cpu/cpu_layer.h"
#include "cpu/simd/simd_avx512.h"
#include "cpu/simd/simd_math.h"

#define ISA(name) name##_avx512

#include "cpu/body/act_tmpl.h"
#include "cpu/body/kv_store_tmpl.h"
#include "cpu/body/norm_tmpl.h"
#include "cpu/body/rope_tmpl.h"
#include "cpu/body/softmax_tmpl.h"

#include "cpu/body/sample_tmpl.h"
