#include "cuda/kern/gemm/gemm.h"

#include "cuda/rt/costs.h"

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm_args.h"
#include "cuda/rt/cuda.h"

size_t cuda_gemm_align(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t->is_quant ? 1 : (size_t)t->block_bytes;
}

/* Of the activations: what the row asks for. */
static size_t operand_align(const ga_kernel *k, int32_t dtype) {
  return k->align ? (size_t)k->align : cuda_gemm_align(dtype);
}

ga_status cuda_gemm_check_io(ga_stream *stream, const ga_kernel *k, const ga_gemm_desc *d, const ga_gemm_io *a,
                             size_t w_align) {
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, operand_align(k, d->x_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "w", a->w, w_align));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, operand_align(k, d->y_dtype)));
  if (d->flags & GA_GEMM_BIAS) GA_TRY(cuda_check_pointer(stream, k, "bias", a->bias, sizeof(float)));
  if (d->flags & GA_GEMM_GLU) GA_TRY(cuda_check_pointer(stream, k, "gate", a->gate, operand_align(k, d->y_dtype)));
  if (d->flags & GA_GEMM_RESIDUAL)
    GA_TRY(cuda_check_pointer(stream, k, "residual", a->residual, operand_align(k, d->y_dtype)));
  if (d->scales) GA_TRY(cuda_check_pointer(stream, k, "x_scale", a->x_scale, sizeof(float)));
  if (d->scales) GA_TRY(cuda_check_pointer(stream, k, "w_scale", a->w_scale, sizeof(float)));
  return GA_OK;
}

ga_kargs_gemm cuda_gemm_kargs(const ga_gemm_desc *d, const ga_gemm_io *a) {
  return (ga_kargs_gemm){.x = a->x,
                         .w = a->w,
                         .y = a->y,
                         .bias = d->flags & GA_GEMM_BIAS ? a->bias : NULL,
                         .gate = d->flags & GA_GEMM_GLU ? a->gate : NULL,
                         .residual = d->flags & GA_GEMM_RESIDUAL ? a->residual : NULL,
                         .m = d->m,
                         .n = d->n,
                         .k = d->k,
                         .x_stride = d->x_stride,
                         .y_stride = d->y_stride,
                         .w_dtype = d->w_dtype,
                         .x_dtype = d->x_dtype,
                         .y_dtype = d->y_dtype,
                         .act = d->act,
                         .scale = d->scale,
                         .splits = 1};
}

ga_kargs_gemm_plain cuda_gemm_plain_kargs(const ga_gemm_desc *d, const ga_gemm_io *a) {
  return (ga_kargs_gemm_plain){.g = cuda_gemm_kargs(d, a),
                               .w_stride = d->w_stride,
                               .x_scale = d->scales ? a->x_scale : NULL,
                               .w_scale = d->scales ? a->w_scale : NULL,
                               .layout = (int32_t)(d->flags & (GA_GEMM_XT | GA_GEMM_WT)),
                               .scales = d->scales};
}

const cuda_unit *cuda_unit_of(int32_t dtype) {
  static const cuda_unit units[] = {
#define X(name, number, k, bytes) {GA_##name, k, bytes},
      GA_PACKED_TYPES(X)
#undef X
  };
#define X(name, number, k, bytes) _Static_assert(GA_##name == number, "numbers of types are pinned");
  GA_PACKED_TYPES(X)
#undef X
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (units[i].dtype == dtype) return &units[i];
  return NULL;
}

double cuda_clocks_us(const ga_caps *caps, int64_t clocks) { return (double)clocks / cuda_costs_of(caps)->clock_mhz; }

const char *cuda_gemm_packed_refusal(const ga_kernel *k, const ga_gemm_desc *d) {
  if (d->w_layout != (int32_t)k->layout) return "the weights have another layout";
  if (d->w_dtype != (int32_t)k->dtype[0]) return "w_dtype is another";
  if (d->x_dtype != GA_F32 || d->y_dtype != GA_F32) return "x and y must be f32";
  if (d->flags & GA_GEMM_XT) return "x must have k contiguous";
  return d->k == 0 ? "k is 0" : NULL;
}

bool cuda_gemm_has_min(int32_t w_dtype) {
  return w_dtype == GA_Q4_1 || w_dtype == GA_Q5_1 || w_dtype == GA_Q4_K || w_dtype == GA_Q5_K || w_dtype == GA_Q2_K;
}
