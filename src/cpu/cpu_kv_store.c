#include "cpu/cpu_kernels.h"

const char *ga_cpu_kv_store_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_kv_store_fused_desc *d = desc;
  if (d->rot_dim) return "rotation is an op of its own";
  return d->plain.x_dtype == GA_F32 ? NULL : "x is not f32";
}
