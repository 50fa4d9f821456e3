/* Host side of the matrix products (src/cuda/kern/gemm): checks, costs and launches. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_H
#define GA_CUDA_KERN_GEMM_GEMM_H

#include "cuda/kern/gemm/gemm_plain_args.h"
#include "cuda/rt/cuda.h"

/* Returns the alignment in bytes that an element of dtype, or a byte of a quantised block, needs. */
size_t cuda_gemm_align(int32_t dtype);
/* Checks the pointers of a call, for all matrix-product kernels. w_align is the alignment of w in bytes. Activations
 * must be aligned as the kernel's row demands, at least to their elements. */
GA_NODISCARD ga_status cuda_gemm_check_io(ga_stream *stream, const ga_kernel *k, const ga_gemm_desc *d,
                                          const ga_gemm_io *a, size_t w_align);
ga_kargs_gemm cuda_gemm_kargs(const ga_gemm_desc *d, const ga_gemm_io *a);
ga_kargs_gemm_plain cuda_gemm_plain_kargs(const ga_gemm_desc *d, const ga_gemm_io *a);

/* The unit of packed weights of a type (gemm_args.h): 16 rows of k elements, `bytes` bytes. cuda_unit_of returns a
 * constant, or NULL if the type has no packed form. */
typedef struct cuda_unit {
  int32_t dtype, k, bytes;
} cuda_unit;
const cuda_unit *cuda_unit_of(int32_t dtype);

/* Returns the microseconds that `clocks` clock cycles take at the clock rate of the device's table of costs. */
double cuda_clocks_us(const ga_caps *caps, int64_t clocks);

/* --- native weights: blocks in the layout of the model file --- */
const char *cuda_gemm_native_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_native(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream);

/* --- few rows of X by f32 weights --- */
const char *cuda_gemm_f32_few_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_gemm_f32_few_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_f32_few(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream);

/* --- 16-bit operands on tensor cores, stored as they are or transposed --- */
double cuda_gemm_mma_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *cuda_gemm_mma_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_mma(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* Returns a reject reason if no row for packed weights (GA_LAYOUT_MMA_PACKED) accepts the description, whatever its
 * shape. NULL: some row may accept it. */
const char *cuda_gemm_packed_refusal(const ga_kernel *kernel, const ga_gemm_desc *desc);
/* Returns true if the blocks of the type have a minimum (PACKED_MIN of cuda/kern/gemm/packed.h). */
bool cuda_gemm_has_min(int32_t w_dtype);
static inline bool cuda_gemm_is_16_bit(int32_t dtype) { return dtype == GA_F16 || dtype == GA_BF16; }
/* Returns true if, for few rows of X, weights of the type are multiplied in bf16. Elements of X are then sums of two
 * bf16. Other weights are multiplied as integers. */
static inline bool cuda_gemm_in_bf16(int32_t dtype) { return cuda_gemm_is_16_bit(dtype) || dtype == GA_E4M3_128; }
const char *cuda_gemm_mma_packed_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_gemm_mma_packed_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_gemm_mma_packed_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_mma_packed(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                               ga_stream *stream);
const char *cuda_pack_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_pack_bytes(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_pack(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
