/* Launch side of the matrix products (src/cuda/kern/gemm). */
#ifndef GA_CUDA_KERN_GEMM_GEMM_H
#define GA_CUDA_KERN_GEMM_GEMM_H

#include "cuda/kern/gemm/gemm_plain_args.h"
#include "cuda/rt/cuda.h"

/* Returns the alignment in bytes that an element, or a byte of a block, needs. */
size_t cuda_gemm_align(int32_t dtype);
/* Shared by all families. w_align: alignment of w in bytes; activations are aligned as the variant demands, else to
 * their elements. */
GA_NODISCARD ga_status cuda_gemm_check_io(ga_stream *stream, const ga_kernel *k, const ga_gemm_desc *d,
                                          const ga_gemm_io *a, size_t w_align);
ga_kargs_gemm cuda_gemm_kargs(const ga_gemm_desc *d, const ga_gemm_io *a);
ga_kargs_gemm_plain cuda_gemm_plain_kargs(const ga_gemm_desc *d, const ga_gemm_io *a);

/* A unit of packed weights of a type: elements along k, and bytes. cuda_unit_of returns NULL when the type has no
 * packed form. */
typedef struct cuda_unit {
  int32_t dtype, k, bytes;
} cuda_unit;
const cuda_unit *cuda_unit_of(int32_t dtype);

/* Returns the microseconds of a number of clock cycles, which were counted at 1.98 GHz. */
double cuda_clocks_us(const ga_caps *caps, int64_t clocks);

/* --- weights as in the file --- */
const char *cuda_gemm_native_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_native(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream);

/* --- 16-bit operands on tensor cores, stored either way --- */
double cuda_gemm_mma_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *cuda_gemm_mma_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_mma(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* Packed weights, GA_LAYOUT_MMA_PACKED. Returns why no variant for them takes the description, whatever its shape; NULL
 * when one may. */
const char *cuda_gemm_packed_refusal(const ga_kernel *kernel, const ga_gemm_desc *desc);
/* Returns PACKED_MIN of cuda/kern/gemm/packed.h. */
bool cuda_gemm_has_min(int32_t w_dtype);
static inline bool cuda_gemm_is_16_bit(int32_t dtype) { return dtype == GA_F16 || dtype == GA_BF16; }
/* Returns whether variants for few rows of X use bf16 products, with two bf16 for each element of X. Other quantised
 * weights are multiplied as integers. */
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
