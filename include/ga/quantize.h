/* GA, quantisation: weights to the block types of GGUF with as little error as can be had, whole files to other types,
 * and the importance of weights, measured.
 *
 *   ga_quantizer *q;
 *   GA_QUANTIZE_DESC_INIT: rows, cols, dtype
 *   ga_quantize_bytes(&desc, &bytes)   room for the result
 *   ga_quantize_rows(q, &desc, x, importance, y)
 *
 * Scales are searched for: the weighted square error of a block is at most that of the scale that its extreme values
 * give. Results are the same bit by bit for any number of threads.
 */
#ifndef GA_QUANTIZE_H
#define GA_QUANTIZE_H

#include "ga/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads to quantise with. Used by one thread at a time. */
typedef struct ga_quantizer ga_quantizer;

/* n_threads: 1 to 1024, or 0 = one per CPU that this process may use. *out NULL on failure; release with
 * ga_quantizer_destroy. GA_ERR_DEVICE when the system refuses a thread. */
GA_API GA_NODISCARD ga_status ga_quantizer_create(int32_t n_threads, ga_quantizer **out);
GA_API void ga_quantizer_destroy(ga_quantizer *q); /* NULL is fine */

/* A matrix of rows x cols, row-major and contiguous. */
typedef struct ga_quantize_desc {
  size_t struct_size;
  int64_t rows, cols; /* at least 1 */
  int32_t dtype;      /* ga_dtype of the result: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k,
                         q6_k, iq4_nl, iq4_xs, mxfp4 */
  int32_t reserved;   /* 0 */
} ga_quantize_desc;
#define GA_QUANTIZE_DESC_INIT \
  { sizeof(ga_quantize_desc), 0, 0, 0, 0 }

/* Can ga_quantize_rows write this type? */
GA_API bool ga_quantize_known(ga_dtype dtype);
/* Bytes of the result. GA_ERR_SHAPE when cols is no multiple of the type's block, GA_ERR_DTYPE for other types. */
GA_API GA_NODISCARD ga_status ga_quantize_bytes(const ga_quantize_desc *desc, uint64_t *bytes);
/* x: [rows, cols] f32; importance: [cols], finite and at least 0, or NULL: all the same; y: as many bytes as
 * ga_quantize_bytes says. GA_ERR_FORMAT, with y zeroed, when a value is NaN or infinite, or above 65504 in a type whose
 * scales are f16: the text names the first such element. */
GA_API GA_NODISCARD ga_status ga_quantize_rows(ga_quantizer *q, const ga_quantize_desc *desc, const float *x,
                                               const float *importance, void *y);
/* The other way: x as ga_quantize_rows writes it (desc as there), y [rows, cols] f32. */
GA_API GA_NODISCARD ga_status ga_dequantize_rows(ga_quantizer *q, const ga_quantize_desc *desc, const void *x,
                                                 float *y);

#ifdef __cplusplus
}
#endif
#endif
