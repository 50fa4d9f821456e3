/* Which descriptions the rows of gemm_*.toml take. */
#include "cpu/cpu_gemm.h"

/* Legality of gemm kernels: f32 activations and results, and the kernel's own weights, layout and number of rows. */
const char *ga_cpu_gemm_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_gemm_desc *d = desc;
  if (d->w_dtype != (int32_t)kernel->dtype[0]) return "another weight type";
  if (d->w_layout != (int32_t)kernel->layout) return "another weight layout";
  if (ga_gemm_one_product(desc)) return ga_gemm_one_product(desc);
  if (d->x_dtype != GA_F32 || d->y_dtype != GA_F32) return "x and y must be f32";
  if (d->flags & (GA_GEMM_XT | GA_GEMM_WT) || d->w_stride != d->k) return "k must be contiguous, and w without gaps";
  if (kernel->rows_min && d->m < kernel->rows_min) return "m is below this row's range";
  if (kernel->rows_max && d->m > kernel->rows_max) return "m is above this row's range";
  return NULL;
}

/* The same for plain types in any layout. */
const char *ga_cpu_gemm_plain_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_gemm_desc *d = desc;
  if (ga_gemm_one_product(desc)) return ga_gemm_one_product(desc);
  if (d->w_layout != GA_LAYOUT_NATIVE) return "another weight layout";
  return ga_dtype_info((ga_dtype)d->w_dtype)->is_quant ? "w must be of a plain type" : NULL;
}

const char *ga_cpu_embed_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return NULL; /* every type that the op takes */
}

/* Values pass through f32: integers wider than 24 bits and f64 would lose digits on the way out only, so any source is
 * taken; results are floats and blocks. */
const char *ga_cpu_convert_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_convert_desc *d = desc;
  const ga_dtype_traits *y = ga_dtype_info((ga_dtype)d->y_dtype);
  if (y->is_quant) return NULL;
  switch (d->y_dtype) {
  case GA_F32:
  case GA_F64:
  case GA_F16:
  case GA_BF16:
  case GA_E4M3:
  case GA_E5M2: return NULL;
  default: return "y is an integer type";
  }
}
