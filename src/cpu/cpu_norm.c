#include "cpu/cpu_kernels.h"

const char *ga_cpu_norm_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_norm_desc *d = desc;
  return d->x_dtype == GA_F32 && d->y_dtype == GA_F32 ? NULL : "x or y is not f32";
}
