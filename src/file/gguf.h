/* The format of GGUF v2 and v3, for the reader and the writer. Specification: gguf.md in the documents of ggml.
 *
 *   "GGUF" u32 version, i64 tensors, i64 keys
 *   keys    x { text key; u32 type; value }                 text = u64 bytes, then the bytes without NUL
 *   tensors x { text name; u32 n_dims; i64 ne[n_dims] fastest first; u32 type; u64 offset }
 *   zeros to a multiple of the alignment, then the data: each tensor at its offset, padded to the alignment
 *
 * All numbers are little-endian. Nothing before the data is aligned. */
#ifndef GA_FILE_GGUF_H
#define GA_FILE_GGUF_H

#include "ga/model_file.h"

#define GA_GGUF_MAGIC     "GGUF"
#define GA_GGUF_ALIGNMENT 32 /* alignment of tensors in bytes if general.alignment is absent */
/* least alignment in bytes: the specification requires a multiple of 8, so that f64 stays aligned */
#define GA_GGUF_LEAST_ALIGNMENT 8
#define GA_GGUF_MOST_ALIGNMENT  65536 /* largest alignment in bytes: the largest page size in use */
/* largest name of a tensor in bytes: ggml keeps names in 64 bytes with their NUL */
#define GA_GGUF_MOST_NAME_BYTES 63
#define GA_GGUF_LEAST_KEY_BYTES 13 /* bytes of the smallest key: length, one byte, type, no value */
/* bytes of the smallest tensor entry: length, one byte, n_dims, one ne, type, offset */
#define GA_GGUF_LEAST_TENSOR_BYTES 33

/* Number of value types. The number of a type in a file is its ga_meta_type - 1. */
#define GA_GGUF_VALUE_TYPES 13

/* Returns the number that stands for the element type dtype in a GGUF file; -1: GGUF has no such type. */
int32_t ga_gguf_type_of(ga_dtype dtype);
/* Returns the element type for which a GGUF file has the number `type`; GA_DTYPE_NONE: GGUF or GA does not have it. */
ga_dtype ga_gguf_dtype(uint32_t type);
/* Returns the name of an element type that GGUF has and GA does not, such as "IQ2_XXS"; "unknown" if GGUF does not have
 * it either. */
const char *ga_gguf_type_name(uint32_t type);

#endif
