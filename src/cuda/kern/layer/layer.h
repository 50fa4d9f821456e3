/* Host side of the layer kernels (src/cuda/kern/layer). */
#ifndef GA_CUDA_KERN_LAYER_LAYER_H
#define GA_CUDA_KERN_LAYER_LAYER_H

#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"

#define GA_DECLARE_CUDA(op)                                                                   \
  const char *cuda_##op##_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps); \
  ga_status cuda_##op(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream)
GA_DECLARE_CUDA(add);
GA_DECLARE_CUDA(act);
GA_DECLARE_CUDA(norm);
GA_DECLARE_CUDA(softmax);
GA_DECLARE_CUDA(attn_merge);
GA_DECLARE_CUDA(embed);
GA_DECLARE_CUDA(rope);
GA_DECLARE_CUDA(kv_store);
const char *cuda_kv_store_scaled_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *cuda_kv_store_normed_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
GA_DECLARE_CUDA(sample);
typedef struct cuda_sample_variant {
  cuda_variant base;
  int32_t rows;
} cuda_sample_variant;
uint64_t cuda_sample_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
GA_DECLARE_CUDA(convert);
GA_DECLARE_CUDA(narrow);

/* --- functions shared by the launchers --- */

#define CUDA_LAYER_WIDE_BYTES    16 /* Number of bytes that a thread moves at once. */
#define CUDA_LAYER_BLOCKS_PER_SM 8  /* Number of blocks of 256 threads that fill a multiprocessor. */

static inline size_t cuda_layer_bytes(ga_dtype dtype) { return (size_t)ga_dtype_info(dtype)->block_bytes; }

static inline bool cuda_layer_wide(const void *p, int64_t stride, int64_t rows, size_t each) {
  return (uintptr_t)p % CUDA_LAYER_WIDE_BYTES == 0 &&
         (rows <= 1 || (uint64_t)stride * each % CUDA_LAYER_WIDE_BYTES == 0);
}

/* Enqueues a one-dimensional grid for `units` units of work. Block i of n blocks processes units i, i + n, i + 2 n,
 * ... */
static inline ga_status cuda_layer_enqueue(const ga_kernel *k, ga_stream *stream, int64_t units, const void *args) {
  const cuda_variant *v = k->impl;
  int64_t most = (int64_t)stream->device->caps.sms * CUDA_LAYER_BLOCKS_PER_SM;
  const cuda_launch l = {
      .grid = {(uint32_t)ga_min_i64(units, most), 1, 1}, .block = {v->threads, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, args);
}

/* Returns the number of units of work of an elementwise kernel. In a unit each thread of a block processes 16 bytes of
 * a row. */
static inline int64_t cuda_layer_pieces(const ga_kernel *k, int64_t rows, int64_t width) {
  const cuda_variant *v = k->impl;
  return rows * ga_div_up(width, (int64_t)(CUDA_LAYER_WIDE_BYTES / cuda_layer_bytes(k->dtype[0]) * v->threads));
}

/* Returns the alignment in bytes that an element of dtype, or a byte of a quantised block, needs. */
static inline size_t cuda_layer_align(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t->is_quant ? 1 : (size_t)t->block_bytes;
}

/* Enqueues a kernel over rows, in which each thread processes one of the `pieces` parts of a row at a time. */
static inline ga_status cuda_layer_enqueue_rows(const ga_kernel *k, ga_stream *stream, int64_t rows, int64_t pieces,
                                                const void *args) {
  return cuda_layer_enqueue(k, stream, rows * ga_div_up(pieces, ((const cuda_variant *)k->impl)->threads), args);
}

/* Checks in a launcher that the pointer a->name is aligned to an element of dtype. */
#define LAYER_CHECK(name, dtype) GA_TRY(cuda_check_pointer(stream, k, #name, a->name, cuda_layer_bytes(dtype)))

#endif
