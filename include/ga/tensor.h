/* GA, tensors: element types and strided views.
 *
 * Shapes are written row-major, slowest dimension first, as in the comments of the source: [tokens, width]. Strides
 * count elements. Quantised types have blocks along the last dimension, which is then contiguous.
 */
#ifndef GA_TENSOR_H
#define GA_TENSOR_H

#include "ga/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. Their values never change, and are not the numbers of any file format. Block layouts are those of
 * GGUF (see src/ref/ref_dequant.c for the formula of each). */
typedef enum ga_dtype {
  GA_DTYPE_NONE = 0,
  GA_F32 = 1,
  GA_F16 = 2,
  GA_BF16 = 3,
  GA_F64 = 4,
  GA_I8 = 5,
  GA_I16 = 6,
  GA_I32 = 7,
  GA_I64 = 8,
  GA_U8 = 9,
  GA_E4M3 = 10, /* 8-bit float, OCP e4m3fn */
  GA_E5M2 = 11, /* 8-bit float, OCP e5m2 */
  GA_Q4_0 = 20,
  GA_Q4_1 = 21,
  GA_Q5_0 = 22,
  GA_Q5_1 = 23,
  GA_Q8_0 = 24,
  GA_Q2_K = 25,
  GA_Q3_K = 26,
  GA_Q4_K = 27,
  GA_Q5_K = 28,
  GA_Q6_K = 29,
  GA_IQ4_NL = 30,
  GA_IQ4_XS = 31,
  GA_MXFP4 = 32,
  GA_NVFP4 = 33,
  /* Types from GA_IQ2_XXS to GA_TQ2_0 can be read from files and converted by ga_convert; no other op has kernels for
   * them. */
  GA_IQ2_XXS = 34,
  GA_IQ2_XS = 35,
  GA_IQ2_S = 36,
  GA_IQ3_XXS = 37,
  GA_IQ3_S = 38,
  GA_TQ1_0 = 39,
  GA_TQ2_0 = 40,
  /* e4m3 weights with scales, only in memory and in no file: each block has one f32 scale and 128 e4m3 codes */
  GA_E4M3_128 = 41
} ga_dtype;

typedef struct ga_dtype_traits {
  const char *name;    /* lower case, as in kernel ids: "f32", "q4_k" */
  int32_t block_elems; /* number of elements in a block; 1 for plain types */
  int32_t block_bytes; /* number of bytes of a block */
  bool is_quant;       /* the type has blocks with scales */
} ga_dtype_traits;

/* Returns the traits of a type; NULL if the value is not a type of ga_dtype. The record is static. */
GA_API const ga_dtype_traits *ga_dtype_info(ga_dtype dtype);
/* Returns the name of a type, such as "q4_k"; "none" if the value is not a type of ga_dtype. */
GA_API const char *ga_dtype_name(ga_dtype dtype);
/* Returns true for types that GA only reads from files: the only op that takes them is ga_convert, as x. Loaded models
 * hold such weights as q8_0. */
GA_API bool ga_dtype_is_read_only(ga_dtype dtype);
/* Returns the type of a name, in lower or upper case; GA_DTYPE_NONE if there is none. */
GA_API ga_dtype ga_dtype_from_name(const char *name);
/* Computes the bytes of `elems` contiguous elements. GA_ERR_SHAPE: elems is negative or no multiple of the block, or
 * the bytes overflow. */
GA_API GA_NODISCARD ga_status ga_dtype_bytes(ga_dtype dtype, int64_t elems, uint64_t *bytes);

/* The order of a matrix's elements in memory. Native is row after row in the type's own blocks. ga_pack makes the other
 * layouts, which kernels of one kind of device read fast. Only GEMM takes packed weights. */
typedef enum ga_layout {
  GA_LAYOUT_NATIVE = 0,
  GA_LAYOUT_X16 = 1,       /* CPU: 16 rows interleaved by blocks, see src/cpu/cpu_pack.h */
  GA_LAYOUT_MMA_PACKED = 2 /* CUDA: fragments of 16 rows for tensor cores, see src/cuda/kern/gemm/packed.h */
} ga_layout;

#define GA_MAX_DIMS 4

/* A view of a tensor, which does not own `data`. */
typedef struct ga_tensor {
  void *data; /* address of the first element, in the memory of a device or of the host */
  ga_dtype dtype;
  ga_layout layout;
  int32_t n_dims; /* 0 (scalar) to GA_MAX_DIMS */
  int32_t reserved;
  int64_t dim[GA_MAX_DIMS];    /* dimensions, the slowest first */
  int64_t stride[GA_MAX_DIMS]; /* distances in elements, in the order of dim */
} ga_tensor;

/* Makes a contiguous view of dims[n_dims], of which at most GA_MAX_DIMS are used. It does not check sizes;
 * ga_tensor_bytes does. */
GA_API ga_tensor ga_tensor_make(void *data, ga_dtype dtype, int32_t n_dims, const int64_t *dims);
/* Computes the bytes of a contiguous tensor of this shape. GA_ERR_SHAPE: the size overflows, or the last dimension
 * is no multiple of the block. */
GA_API GA_NODISCARD ga_status ga_tensor_bytes(const ga_tensor *tensor, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
