/* Element types as doubles. The formulas of block types are in ref_dequant.c. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ref/ref.h"

double ga_ref_load(ga_dtype dtype, const void *data, int64_t i) {
  const ga_dtype_traits *t;
  switch (dtype) { /* oracles take most of the tests' time in here: no look-up for plain types */
  case GA_F32: return (double)((const float *)data)[i];
  case GA_F64: return ((const double *)data)[i];
  case GA_F16: return (double)ga_f16_to_f32(((const ga_f16 *)data)[i]);
  case GA_BF16: return (double)ga_bf16_to_f32(((const ga_bf16 *)data)[i]);
  case GA_E4M3: return (double)ga_e4m3_to_f32(((const uint8_t *)data)[i]);
  case GA_E5M2: return (double)ga_e5m2_to_f32(((const uint8_t *)data)[i]);
  case GA_I8: return ((const int8_t *)data)[i];
  case GA_I16: return ((const int16_t *)data)[i];
  case GA_I32: return ((const int32_t *)data)[i];
  case GA_U8: return ((const uint8_t *)data)[i];
  default: break;
  }
  t = ga_dtype_info(dtype);
  if (!t || !t->is_quant) return (double)NAN;
  return ga_ref_load_block(dtype, (const uint8_t *)data + i / t->block_elems * t->block_bytes,
                           (int)(i % t->block_elems));
}

#define LOAD_ROW(type, value)                           \
  for (int64_t i = 0; i < n; i++) {                     \
    const type h = ((const type *)data)[at + i * step]; \
    out[i] = (double)(value);                           \
  }

void ga_ref_load_row(ga_dtype dtype, const void *data, int64_t at, int64_t step, int64_t n, double *out) {
  switch (dtype) {
  case GA_F32: LOAD_ROW(float, h) break;
  case GA_F64: LOAD_ROW(double, h) break;
  case GA_F16: LOAD_ROW(ga_f16, ga_f16_to_f32(h)) break;
  case GA_BF16: LOAD_ROW(ga_bf16, ga_bf16_to_f32(h)) break;
  default:
    for (int64_t i = 0; i < n; i++) out[i] = ga_ref_load(dtype, data, at + i * step);
  }
}

void ga_ref_store(ga_dtype dtype, void *data, int64_t i, double x) {
  switch (dtype) {
  case GA_F32: ((float *)data)[i] = (float)x; break;
  case GA_F64: ((double *)data)[i] = x; break;
  case GA_F16: ((ga_f16 *)data)[i] = ga_f32_to_f16((float)x); break;
  case GA_BF16: ((ga_bf16 *)data)[i] = ga_f32_to_bf16((float)x); break;
  case GA_E4M3: ((uint8_t *)data)[i] = ga_f32_to_e4m3((float)x); break;
  case GA_E5M2: ((uint8_t *)data)[i] = ga_f32_to_e5m2((float)x); break;
  case GA_I8: ((int8_t *)data)[i] = (int8_t)(isnan(x) ? 0 : fmax(-128, fmin(127, rint(x)))); break;
  default: break;
  }
}
