/* Host side of the matrix products (src/cuda/kern/gemm): checks, costs and launches. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_H
#define GA_CUDA_KERN_GEMM_GEMM_H

#include "cuda/kern/gemm/gemm_plain_args.h"
#include "cuda/rt/cuda.h"

/* Returns the alignment in bytes that an element of dtype, or a byte of a quantised block, needs. */
size_t cuda_gemm_align(int32_t dtype);
/* Checks the pointers of a product, for all families. w_align is the alignment of w in bytes. Activations must be
 * aligned as the variant demands, at least to their elements. */
GA_NODISCARD ga_status cuda_gemm_check_io(ga_stream *stream, const ga_kernel *k, const ga_gemm_desc *d,
                                          const ga_gemm_io *a, size_t w_align);
ga_kargs_gemm cuda_gemm_kargs(const ga_gemm_desc *d, const ga_gemm_io *a);
ga_kargs_gemm_plain cuda_gemm_plain_kargs(const ga_gemm_desc *d, const ga_gemm_io *a);

/* A unit of packed weights of a type: k is the number of elements along k, bytes its size. cuda_unit_of returns NULL
 * when the type has no packed form. */
typedef struct cuda_unit {
  int32_t dtype, k, bytes;
} cuda_unit;
const cuda_unit *cuda_unit_of(int32_t dtype);

/* Returns the microseconds of `clocks` clock cycles, which were measured at 1.98 GHz, at the device's clock. */
double cuda_clocks_us(const ga_caps *caps, int64_t clocks);

/* --- Native weights: blocks in the layout of the file --- */
const char *cuda_gemm_native_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_native(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream);

/* --- 16-bit operands on tensor cores, stored plain or transposed --- */
double cuda_gemm_mma_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *cuda_gemm_mma_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_mma(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* Returns the reason for which no variant for packed weights (GA_LAYOUT_MMA_PACKED) accepts the description, whatever
 * its shape. NULL: some variant may accept it. */
const char *cuda_gemm_packed_refusal(const ga_kernel *kernel, const ga_gemm_desc *desc);
/* Returns whether the blocks of the type have a min (PACKED_MIN of cuda/kern/gemm/packed.h). */
bool cuda_gemm_has_min(int32_t w_dtype);
static inline bool cuda_gemm_is_16_bit(int32_t dtype) { return dtype == GA_F16 || dtype == GA_BF16; }
/* Returns whether variants for few rows of X use bf16 products, with the sum of two bf16 for each element of X. Other
 * quantised weights are multiplied as integers. */
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
