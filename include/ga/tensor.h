/* GA, tensors: element types and strided views.
 *
 * Shapes are written row-major, slowest dimension first, as in the comments of the source: [tokens, width].
 * Strides count elements. Quantised types are blocks along the last dimension, which is then contiguous.
 */
#ifndef GA_TENSOR_H
#define GA_TENSOR_H

#include "ga/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. Values are pinned and append-only; they are not the numbers of any file format.
 * Block layouts are those of GGUF (see src/ref/ref_dequant.c for the formula of each). */
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
  GA_E4M3 = 10, /* fp8, OCP e4m3fn */
  GA_E5M2 = 11, /* fp8, OCP e5m2 */
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
  GA_IQ2_XXS = 34, /* this one to tq2_0: read from files and by ga_convert; no kernel computes with them */
  GA_IQ2_XS = 35,
  GA_IQ2_S = 36,
  GA_IQ3_XXS = 37,
  GA_IQ3_S = 38,
  GA_TQ1_0 = 39,
  GA_TQ2_0 = 40,
  GA_E4M3_128 = 41 /* in memory only, for e4m3 weights with scales: blocks of one f32 scale and 128 e4m3 codes */
} ga_dtype;

typedef struct ga_dtype_traits {
  const char *name;    /* lower case, as in kernel ids: "f32", "q4_k" */
  int32_t block_elems; /* elements in a block; 1 for plain types */
  int32_t block_bytes; /* bytes of a block */
  bool is_quant;       /* blocks with scales */
} ga_dtype_traits;

/* Traits of a type, NULL for a value that is no type. Static. */
GA_API const ga_dtype_traits *ga_dtype_info(ga_dtype dtype);
/* "q4_k", or "none" for a value that is no type. */
GA_API const char *ga_dtype_name(ga_dtype dtype);
/* True for types that are only read from files. ga_convert alone of all ops takes them, as x; models hold them as
 * q8_0. */
GA_API bool ga_dtype_is_read_only(ga_dtype dtype);
/* The type of that name, GA_DTYPE_NONE when there is none. Upper case is taken too. */
GA_API ga_dtype ga_dtype_from_name(const char *name);
/* Bytes of `elems` contiguous elements. GA_ERR_SHAPE: elems is negative, overflows or is no multiple of the block. */
GA_API GA_NODISCARD ga_status ga_dtype_bytes(ga_dtype dtype, int64_t elems, uint64_t *bytes);

/* Order of a matrix's bytes. Native is row after row in the type's own blocks. The other layouts suit the kernels of a
 * device and are made by ga_pack. Only GEMM takes packed weights. */
typedef enum ga_layout {
  GA_LAYOUT_NATIVE = 0,
  GA_LAYOUT_X16 = 1,       /* CPU: 16 rows interleaved by blocks, see src/cpu/cpu_pack.h */
  GA_LAYOUT_MMA_PACKED = 2 /* CUDA: fragments of 16 rows for tensor cores, see src/cuda/kern/gemm/packed.h */
} ga_layout;

#define GA_MAX_DIMS 4

/* A view: does not own `data`. */
typedef struct ga_tensor {
  void *data; /* address on the device that owns it */
  ga_dtype dtype;
  ga_layout layout;
  int32_t n_dims; /* 0 (scalar) to GA_MAX_DIMS */
  int32_t reserved;
  int64_t dim[GA_MAX_DIMS];    /* slowest first */
  int64_t stride[GA_MAX_DIMS]; /* in elements */
} ga_tensor;

/* Contiguous view; dims beyond n_dims are ignored. Does not check sizes: ga_tensor_bytes does. */
GA_API ga_tensor ga_tensor_make(void *data, ga_dtype dtype, int32_t n_dims, const int64_t *dims);
/* Bytes a contiguous tensor of this shape takes. GA_ERR_SHAPE on overflow or broken blocks. */
GA_API GA_NODISCARD ga_status ga_tensor_bytes(const ga_tensor *tensor, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
