#include "cpu/cpu_kernels.h"

const char *ga_cpu_rope_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  return ((const ga_rope_desc *)desc)->x_dtype == GA_F32 ? NULL : "x is not f32";
}
