/* norm, rope, act, add, softmax, kv_store and sample for NEON. */
#include <string.h>

#include "cpu/cpu_layer.h"
#include "cpu/simd/simd_neon.h"

#include "cpu/simd/simd_math.h" /* on its vectors */

#define ISA(name) name##_neon

#include "cpu/body/body_act.h"
#include "cpu/body/body_kv_store.h"
#include "cpu/body/body_norm.h"
#include "cpu/body/body_rope.h"
#include "cpu/body/body_softmax.h"

#include "cpu/body/body_sample.h"
